"""A real worker on a queue, with a handler that chooses outcomes at random."""

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
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog
from headrace.worker import (
    Complete,
    Done,
    Drop,
    HandlerOutcome,
    Item,
    Kill,
    Lost,
    Reject,
    Release,
    Reschedule,
)

LANES = 2
SAID: dict[str, HandlerOutcome] = {
    "complete": Complete(),
    "reject": Reject("no", delay=0.001),
    "kill": Kill("never"),
    "release": Release(),
    "reschedule": Reschedule(delay=0.001),
    "drop": Drop(),
}


class RandomHandler:
    """Handles items. It records the intent before, and the outcome when the worker reports it."""

    def __init__(self, log: AuditLog, name: str) -> None:
        self._log = log
        self._name = name
        self._numbers = itertools.count()
        self._open: dict[tuple[int, str], str] = {}
        self._lock = threading.Lock()

    def handle(self, item: Item) -> HandlerOutcome:
        with self._lock:
            call = f"{self._name}-{next(self._numbers)}"
            self._open[item.id, item.token or ""] = call
            kind = random.choice(KINDS)
            place = item.payload["call"], item.payload["place"]
            self._log.intend(call, token=item.token, kind=kind, items=[place])
        time.sleep(random.choice([0, 0, 0.001, 0.005, 2 * LEASE_MS / 1000]))
        with self._lock:
            self._log.send(call)
        return SAID[kind]

    def done(self, event: Done) -> None:
        self._close(event.item, event.settled.state)

    def lost(self, event: Lost) -> None:
        self._close(event.item, "lost")

    def _close(self, item: Item, state: str) -> None:
        with self._lock:
            call = self._open.get((item.id, item.token or ""))
            # An item that was released without being handled belongs to no call.
            if call is not None:
                self._log.outcome(call, states=[state])


def run(
    hr: headrace.Headrace, log: AuditLog, name: str, queue: str, is_over: Callable[[], bool]
) -> None:
    """Work until it is over."""
    hand = RandomHandler(log, name)
    worker = hr.queue(queue).start_worker(hand.handle, concurrency=LANES, chunk=4)
    worker.on("data", hand.done)
    worker.on("lost", hand.lost)
    while not is_over():
        time.sleep(0.02)
    worker.stop()


def main(url: str, log_path: str, name: str, queue: str) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr, log, name, queue, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
