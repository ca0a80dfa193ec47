"""The event, and who hears it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

Handler = Callable[["Event"], None]

_handlers: tuple[Handler, ...] = ()
_log = logging.getLogger("headrace")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """How one operation went.

    ``outcome`` is ``ok``; ``refused`` when the operation raised because of the data or the
    state; ``failed`` when the store did; ``unknown`` when nobody can tell. ``attempts``
    above 1 means deadlocks, a busy database or lost connections were ridden out.
    """

    operation: str
    store: str
    outcome: Literal["ok", "refused", "failed", "unknown"]
    seconds: float
    attempts: int
    code: str | None = None


def subscribe(handler: Handler) -> Callable[[], None]:
    """Hear every event from now on; returns the function that ends it.

    Handlers run in the thread or task of the operation and should be quick. One that
    raises is logged and does not disturb the operation.
    """
    global _handlers
    _handlers = (*_handlers, handler)

    def unsubscribe() -> None:
        global _handlers
        _handlers = tuple(h for h in _handlers if h is not handler)

    return unsubscribe


def emit(event: Event) -> None:
    """Tell all handlers."""
    for handler in _handlers:
        try:
            handler(event)
        except Exception:
            # The operation is done and must not fail because somebody listened badly.
            _log.exception("a telemetry handler raised", extra={"action": "telemetry_handler"})


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_handlers)
