"""A real worker on a queue, whose handler says at random what becomes of an item."""

import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import headrace
from faults.children.consumer import KINDS, LEASE_MS
from faults.waiting import orphanhood
from headrace.testing.ledger import Ledger
from headrace.worker import (
    Complete,
    Done,
    Drop,
    Item,
    Kill,
    Lost,
    Outcome,
    Reject,
    Release,
    Reschedule,
)

LANES = 2
SAID: dict[str, Outcome] = {
    "complete": Complete(),
    "reject": Reject("no", delay=0.001),
    "kill": Kill("never"),
    "release": Release(),
    "reschedule": Reschedule(delay=0.001),
    "drop": Drop(),
}


class Hand:
    """Handles items, in the ledger before, and after when the worker says that it was settled."""

    def __init__(self, book: Ledger, name: str) -> None:
        self._book = book
        self._name = name
        self._numbers = itertools.count()
        self._open: dict[tuple[int, str], str] = {}
        self._lock = threading.Lock()

    def handle(self, item: Item) -> Outcome:
        with self._lock:
            call = f"{self._name}-{next(self._numbers)}"
            self._open[item.id, item.token or ""] = call
            kind = random.choice(KINDS)
            place = item.payload["call"], item.payload["place"]
            self._book.intend(call, token=item.token, kind=kind, items=[place])
        time.sleep(random.choice([0, 0, 0.001, 0.005, 2 * LEASE_MS / 1000]))
        with self._lock:
            self._book.send(call)
        return SAID[kind]

    def done(self, event: Done) -> None:
        self._close(event.item, event.settled.state)

    def lost(self, event: Lost) -> None:
        self._close(event.item, "lost")

    def _close(self, item: Item, state: str) -> None:
        with self._lock:
            call = self._open.get((item.id, item.token or ""))
            # What was handed back without being handled is nobody's call.
            if call is not None:
                self._book.outcome(call, states=[state])


def run(
    hr: headrace.Headrace, book: Ledger, name: str, queue: str, is_over: Callable[[], bool]
) -> None:
    """Work until it is over."""
    hand = Hand(book, name)
    worker = hr.queue(queue).register_worker(hand.handle, concurrency=LANES, chunk=4)
    worker.on("data", hand.done)
    worker.on("lost", hand.lost)
    while not is_over():
        time.sleep(0.02)
    worker.stop()


def main(url: str, ledger: str, name: str, queue: str) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        run(hr, book, name, queue, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
