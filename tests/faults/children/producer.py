"""Pushes to a queue for as long as it lives."""

import itertools
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace
from faults.waiting import orphanhood
from headrace.contract.items import PushCall
from headrace.model.items import Document
from headrace.testing.ledger import Ledger
from headrace.testing.queue_ledger import content


def push(store: Any, book: Ledger, name: str, queue: str, number: int) -> None:
    """One push, in the ledger before and after: one document, several, some with subjects."""
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
    book.intend(name, documents=count, queue=queue)
    [pushed] = store.run(store.push([PushCall(queue=queue, documents=documents, mode=mode)]))
    assert not pushed.notes
    book.outcome(name, ids=pushed.ids)


def run(store: Any, book: Ledger, name: str, queue: str, is_over: Callable[[], bool]) -> None:
    for number in itertools.count():
        if is_over():
            return
        push(store, book, f"{name}-{number}", queue, number)


def main(url: str, ledger: str, name: str, queue: str) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        run(hr._store, book, name, queue, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
