"""Events of operations, and their subscribers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import msgspec

Handler = Callable[["Event"], None]

_handlers: tuple[Handler, ...] = ()
_log = logging.getLogger("headrace")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one operation.

    ``outcome`` is ``ok``; ``refused`` if the data or the state did not allow the operation;
    ``failed`` if the store failed; ``unknown`` if it is not known whether the operation took
    effect. ``attempts`` above 1 means that the operation was retried after a deadlock, a busy
    database or a lost connection.
    """

    operation: str
    store: str
    outcome: Literal["ok", "refused", "failed", "unknown"]
    seconds: float
    attempts: int
    code: str | None = None


def subscribe(handler: Handler) -> Callable[[], None]:
    """Call ``handler`` with every event from now on; returns the function that ends it.

    Handlers run in the thread or task of the operation and should be quick. If a handler raises,
    the error is logged, and the operation continues.
    """
    global _handlers
    _handlers = (*_handlers, handler)

    def unsubscribe() -> None:
        global _handlers
        _handlers = tuple(h for h in _handlers if h is not handler)

    return unsubscribe


def emit(event: Event) -> None:
    """Call all handlers."""
    for handler in _handlers:
        try:
            handler(event)
        except Exception:
            # The operation is done, and must not fail because of a handler.
            _log.exception("a telemetry handler raised", extra={"action": "telemetry_handler"})


def is_heard() -> bool:
    """Whether there are handlers."""
    return bool(_handlers)
