"""The log of tasks: a line when one starts (debug) and when it is done (info), with fields."""

from __future__ import annotations

import contextlib
import logging
from time import perf_counter
from typing import Any

from headrace.worker.log_words import in_words
from headrace.worker.middleware import TaskCall
from headrace.worker.outcomes import Complete, HandlerOutcome

_log = logging.getLogger("headrace.tasks")


def started(call: TaskCall) -> float | None:
    """Log that a task starts. Returns when that was, if somebody wants to know."""
    if not _log.isEnabledFor(logging.INFO):
        return None
    if _log.isEnabledFor(logging.DEBUG):
        _line(logging.DEBUG, call, f"started, attempt {call.attempt}", "start")
    return perf_counter()


def ended(
    call: TaskCall, since: float | None, outcome: HandlerOutcome | None
) -> HandlerOutcome | None:
    """Log that a task returned; a failure is logged by its worker."""
    if since is not None:
        seconds = perf_counter() - since
        kind = type(outcome).__name__
        verb = "done" if isinstance(outcome, Complete | None) else f"returned {kind}"
        _line(
            logging.INFO,
            call,
            f"{verb} in {in_words(seconds)}",
            "done",
            duration_ms=round(seconds * 1000, 3),
        )
    return outcome


def _line(level: int, call: TaskCall, words: str, action: str, **fields: Any) -> None:
    item = call.item
    extra = {
        "action": action,
        "queue": item.queue,
        "task": call.name,
        "item": item.id,
        "attempt": call.attempt,
        **fields,
    }
    # A log handler that raises must not end the worker.
    with contextlib.suppress(Exception):
        _log.log(level, "%s: %s %s %s", item.queue, call.name, item.id, words, extra=extra)
