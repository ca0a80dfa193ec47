"""Claims an item, waits for a signal, and settles the item, however late that is."""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import headrace
from faults.polling import PATIENCE, until
from headrace.errors import ItemLost
from headrace.testing.audit_log import AuditLog
from headrace.worker import Complete, HandlerOutcome, Item, Push, Reject


def claim(
    hr: headrace.Headrace, log: AuditLog, name: str, queue: str, word: Path, kind: str
) -> None:
    """By hand."""
    [item] = hr.queue(queue).claim(wait=PATIENCE)
    log.intend(name, item=item.id)
    until(word.exists, "a word")
    more = Push(f"{queue}-more", 1)
    try:
        if kind == "complete":
            item.complete(then=more)
        else:
            item.reject("no", then=more)
    except ItemLost as refusal:
        extended = hr.queue(queue).extend([item], 60)
        log.outcome(name, refused=refusal.code, extended=len(extended))


def work(
    hr: headrace.Headrace, log: AuditLog, name: str, queue: str, word: Path, kind: str
) -> None:
    """By a worker, which extends its lease as long as it is not stopped."""
    is_lost = threading.Event()

    def handle(item: Item) -> HandlerOutcome:
        log.intend(name, item=item.id)
        until(word.exists, "a word")
        more = Push(f"{queue}-more", 1)
        return Complete(then=[more]) if kind == "complete" else Reject("no", then=[more])

    worker = hr.queue(queue).start_worker(handle)
    worker.on("lost", lambda _: is_lost.set())
    if worker.lost:
        # Stopped between the two lines above, and signalled before anything waited for it.
        is_lost.set()
    assert is_lost.wait(PATIENCE), "nothing was lost"
    worker.stop()
    assert (worker.lost, worker.done) == (1, 0)
    log.outcome(name, refused=ItemLost.code, extended=0)


WAYS: dict[str, Any] = {"claim": claim, "worker": work}


def main(url: str, log_path: str, name: str, queue: str, word: str, kind: str, way: str) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        WAYS[way](hr, log, name, queue, Path(word), kind)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
