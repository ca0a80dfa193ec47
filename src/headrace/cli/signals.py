"""Signals as words, so that long commands end in order."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GLANCE = 0.25
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals() -> Iterator[queue.SimpleQueue[str]]:
    """Signals as words in a queue."""
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: asked.put("signal"))
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def heard(asked: queue.SimpleQueue[str]) -> str:
    """The next word. A signal just before a wait does not end it, so no wait is long."""
    while True:
        with contextlib.suppress(queue.Empty):
            return asked.get(timeout=GLANCE)


def aside(action: Callable[[], None], tell: queue.SimpleQueue[str] | None = None) -> None:
    """Do something in a thread, and say when it is done."""

    def run() -> None:
        action()
        if tell is not None:
            tell.put("ended")

    threading.Thread(target=run, daemon=True).start()
