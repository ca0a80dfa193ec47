"""Events as log lines: a short text, with all fields in ``extra``."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from headrace.telemetry.events import Event, subscribe

_LEVELS = {
    "ok": logging.DEBUG,
    "refused": logging.INFO,
    "failed": logging.WARNING,
    "unknown": logging.ERROR,
}


def attach(logger: logging.Logger | None = None) -> Callable[[], None]:
    """Log every operation; returns the function that ends it."""
    target = logger or logging.getLogger("headrace")

    def write(event: Event) -> None:
        target.log(
            _LEVELS[event.outcome],
            "%s on %s: %s in %.1f ms",
            event.operation,
            event.store,
            event.code or event.outcome,
            event.seconds * 1000,
            extra={"action": event.operation, **msgspec.structs.asdict(event)},
        )

    return subscribe(write)
