"""The events and the log of a worker."""

from __future__ import annotations

import contextlib
import logging
import math
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from headrace.contract.items import Settled, WorkerStatus
from headrace.errors import InvalidOption, StoreUnavailable
from headrace.model.failures import own_traceback, words_of
from headrace.model.queues.items import ItemState
from headrace.model.queues.settings import DEFAULTS, LogLevel, QueueSettings
from headrace.worker.items import Item, item_of
from headrace.worker.log_words import attempts_in_words, fields_of, in_words, name_of
from headrace.worker.outcomes import Error, HandlerOutcome, Kill, Reject, failure_from

EventName = Literal["data", "error", "state", "lost"]
Doing = Literal["handle", "claim", "settle", "heartbeat", "maintain", "schedules"]
Callback = Callable[[Any], object]

MAX_TEXT_LENGTH = 500

_log = logging.getLogger("headrace.worker")
_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "silent": logging.CRITICAL + 1,
}


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """``data``: an item was settled with ``outcome``; ``settled`` is its new state."""

    item: Item
    outcome: HandlerOutcome
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
    """``lost``: the worker no longer has the claim; the outcome of the handler is ignored."""

    item: Item


class Listeners:
    """The listeners of one worker, and its log."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._callbacks: dict[str, tuple[Callback, ...]] = defaultdict(tuple)
        self.level = logging.ERROR
        self._dead_to: tuple[str, ...] = ()
        self._settings = DEFAULTS
        self.last_error: str | None = None
        # When the store was last found to be unavailable.
        self.unavailable_at = -math.inf
        self.call: Callable[[Callback, Any], object] = call

    def on(self, event: EventName, callback: Callback) -> Callable[[], None]:
        """Call back on each event from now on; returns the function that ends it."""
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

    def has(self, event: EventName) -> bool:
        """Whether there is a listener for the event."""
        return bool(self._callbacks[event])

    def follow(self, settings: QueueSettings) -> None:
        """Log as the queue's settings say."""
        self.level = _LEVELS[settings.log_level]
        self._dead_to = settings.dead_to
        self._settings = settings

    def emit(self, event: EventName, what: Any) -> None:
        """Call all listeners of an event. If one raises, that is logged and the others follow."""
        for callback in self._callbacks[event]:
            self.call(callback, what)

    def report(self, error: BaseException, doing: Doing, item: Item | None = None) -> None:
        """Emit and log an error."""
        about = "" if item is None else f" item {item.id}"
        words = self._note(error)
        # A traceback is of use where a handler failed, not where the store did.
        origin = error if doing == "handle" else None
        self.log(logging.ERROR, f"{doing}{about}: {words}", doing, origin)
        if self.has("error"):
            self.emit("error", Trouble(error=error, doing=doing, item=item))

    def report_failure(
        self, error: BaseException, item: Item, outcome: Reject | Kill, seconds: float
    ) -> None:
        """Emit and log that a handler failed, on which attempt, and when the next one is."""
        words = self._note(error)
        if self._is_logged(logging.ERROR):
            fields = {**fields_of(item), "duration_ms": round(seconds * 1000, 3)}
            next_one = attempts_in_words(item, outcome, self._settings)
            message = f"{name_of(item)} failed in {in_words(seconds)}: {words}; {next_one}"
            self.log(logging.ERROR, message, "handle", error, fields)
        if self.has("error"):
            self.emit("error", Trouble(error=error, doing="handle", item=item))

    def _note(self, error: BaseException) -> str:
        """Remember an error for the heartbeat; its words."""
        words = words_of(error)
        self.last_error = words[:MAX_TEXT_LENGTH]
        # By its type: an exception may raise whenever one of its attributes is read.
        if issubclass(type(error), StoreUnavailable):
            self.unavailable_at = time.monotonic()
        return words

    def log_death(self, item: ItemState, error: Error) -> None:
        """Log that an item is dead, which may have no traceback: why, and how to see it."""
        failure = None if error is None else failure_from(error)
        reason = "no reason was given" if failure is None else failure.summary
        times = "once" if item.attempts == 1 else f"{item.attempts} times"
        step = f"see `headrace dead ls {shlex.quote(self._queue)}`"
        if self._dead_to and self._queue not in self._dead_to:
            step = f"a copy of it is in queue {', '.join(self._dead_to)}"
        about = item_of(item)
        message = f"{name_of(about)} is dead, claimed {times}: {reason}; {step}"
        self.log(logging.ERROR, message, "dead", None, fields_of(about))

    def _is_logged(self, level: int) -> bool:
        return level >= self.level and _log.isEnabledFor(level)

    def log(
        self,
        level: int,
        message: str,
        action: str,
        error: BaseException | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, if the queue's log level allows it."""
        if self._is_logged(level):
            extra = {"action": action, "queue": self._queue, **(fields or {})}
            # An exception without a text, or a log handler that raises, must not end the worker.
            with contextlib.suppress(BaseException):
                # From the user's first frame on.
                origin = None if error is None else (type(error), error, own_traceback(error))
                _log.log(level, "%s: %s", self._queue, message, exc_info=origin, extra=extra)


def call(callback: Callback, event: Any) -> object:
    """Call a listener; log what it raises."""
    try:
        return callback(event)
    except BaseException as error:  # the worker goes on
        log_listener_error(error)
        return None


def log_listener_error(error: BaseException) -> None:
    """Log what a listener raised."""
    with contextlib.suppress(BaseException):
        _log.error(
            "a worker's listener raised %s",
            words_of(error),
            exc_info=error,
            extra={"action": "worker_listener"},
        )
