"""Signals as events in a queue, so that long commands can stop gracefully."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from headrace.node.lifeline import watch_given_lifeline

POLL_SECONDS = 0.25
SIGNALS = (signal.SIGTERM, signal.SIGINT)

Event = Literal["signal", "finished"]
Events: TypeAlias = queue.SimpleQueue[Event]


@contextmanager
def signal_events() -> Iterator[Events]:
    """A queue that gets an event for each SIGTERM and SIGINT, and for the end of the lifeline."""
    events: Events = queue.SimpleQueue()
    watch_given_lifeline(lambda: events.put("signal"))
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: events.put("signal"))
    try:
        yield events
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def next_event(events: Events) -> Event:
    """Wait for the next event.

    A signal that arrives just before a wait does not end that wait, so each wait is short.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return events.get(timeout=POLL_SECONDS)


def run_in_thread(action: Callable[[], None], events: Events | None = None) -> None:
    """Run an action in a daemon thread, and put ``finished`` into ``events`` afterwards."""

    def run() -> None:
        action()
        if events is not None:
            events.put("finished")

    threading.Thread(target=run, daemon=True).start()
