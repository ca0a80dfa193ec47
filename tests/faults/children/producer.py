"""Pushes to a queue until it is killed."""

import itertools
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
from faults.polling import orphanhood
from headrace.contract.items import PushCall
from headrace.model.queues.items import Document
from headrace.testing.audit_log import AuditLog
from headrace.testing.queue_audit_log import content


def push(store: Any, log: AuditLog, name: str, queue: str, number: int) -> None:
    """One push, recorded before and after: one document, several, some with subjects."""
    count = [1, 1, 3][number % 3]
    has_subject = random.random() < 0.3
    documents = tuple(
        Document(
            payload=content(name, place),
            subject=f"{name}-{place}" if has_subject else None,
            priority=random.randrange(2),
            delay=random.choice([None, None, 1, 20]),
        )
        for place in range(count)
    )
    mode: Any = "upsert" if has_subject and number % 2 else "push"
    log.intend(name, documents=count, queue=queue)
    [pushed] = store.run(store.queues.push([PushCall(queue=queue, documents=documents, mode=mode)]))
    assert not pushed.notes
    log.outcome(name, ids=pushed.ids)


def run(store: Any, log: AuditLog, name: str, queue: str, is_over: Callable[[], bool]) -> None:
    for number in itertools.count():
        if is_over():
            return
        push(store, log, f"{name}-{number}", queue, number)


def main(url: str, log_path: str, name: str, queue: str) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr._store, log, name, queue, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
