"""What a worker tells those who listen, and what it logs."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from headrace.contract.items import Settled, WorkerStatus
from headrace.errors import InvalidOption
from headrace.model.failures import storable
from headrace.model.queues import LogLevel
from headrace.worker.items import Item
from headrace.worker.outcomes import Outcome

EventName = Literal["data", "error", "state", "lost"]
Doing = Literal["handle", "claim", "settle", "beat", "tend"]
Callback = Callable[[Any], object]

LONGEST_WORDS = 500

_log = logging.getLogger("headrace.worker")
_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "silent": logging.CRITICAL + 1,
}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """``data``: an item was settled, as ``outcome`` says, and ``settled`` tells where it is."""

    item: Item
    outcome: Outcome
    settled: Settled


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """``error``: a handler raised over ``item``, or the store failed (the worker tries again)."""

    error: BaseException
    doing: Doing
    item: Item | None = None


class StateChange(msgspec.Struct, frozen=True, kw_only=True):
    """``state``: the worker was ``before`` and is ``after``."""

    queue: str
    before: WorkerStatus
    after: WorkerStatus


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """``lost``: the item's claim does not stand any more; what its handler says is dropped."""

    item: Item


class Listeners:
    """Those who listen to one worker, and its log."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._callbacks: dict[str, tuple[Callback, ...]] = defaultdict(tuple)
        self.level = logging.ERROR
        self.last_error: str | None = None
        self.call: Callable[[Callback, Any], object] = call

    def on(self, event: EventName, callback: Callback) -> Callable[[], None]:
        """Hear of an event from now on; returns the function that ends it."""
        if event not in get_args(EventName):
            raise InvalidOption(
                f"a worker has no event {event!r}: use {', '.join(get_args(EventName))}.",
                option="event",
            )
        self._callbacks[event] = (*self._callbacks[event], callback)

        def off() -> None:
            left = self._callbacks[event]
            self._callbacks[event] = tuple(each for each in left if each is not callback)

        return off

    def hears(self, event: EventName) -> bool:
        """Whether it is worth making the event."""
        return bool(self._callbacks[event])

    def follow(self, level: LogLevel) -> None:
        """Log as the queue says."""
        self.level = _LEVELS[level]

    def tell(self, event: EventName, what: Any) -> None:
        """Call everybody back. One who raises is logged and disturbs nobody."""
        for callback in self._callbacks[event]:
            self.call(callback, what)

    def trouble(self, error: BaseException, doing: Doing, item: Item | None = None) -> None:
        """Tell and log what went wrong."""
        about = "" if item is None else f" item {item.id}"
        words = f"{type(error).__name__}: {error}"
        self.last_error = storable(words)[:LONGEST_WORDS]
        # Where the store failed is no news; where a handler did is.
        origin = error if doing == "handle" else None
        self.log(logging.ERROR, f"{doing}{about}: {words}", doing, origin)
        if self.hears("error"):
            self.tell("error", Trouble(error=error, doing=doing, item=item))

    def log(
        self, level: int, message: str, action: str, error: BaseException | None = None
    ) -> None:
        """Write a line, if the queue's log level lets it pass."""
        if level >= self.level and _log.isEnabledFor(level):
            extra = {"action": action, "queue": self._queue}
            _log.log(level, "%s: %s", self._queue, message, exc_info=error, extra=extra)


def call(callback: Callback, event: Any) -> object:
    """Call somebody back; what they raise is logged."""
    try:
        return callback(event)
    except Exception:
        # The worker's work is done and must not fail because somebody listened badly.
        _log.exception("a worker's listener raised", extra={"action": "worker_listener"})
        return None
