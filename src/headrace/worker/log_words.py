"""What the log of a worker says about an item."""

from __future__ import annotations

from typing import Any

from headrace.errors import HeadraceError
from headrace.model.queues.settings import NO_LIMIT, QueueSettings
from headrace.model.queues.transitions import max_attempts_of, retry_delay_ms
from headrace.model.times import delay_ms
from headrace.worker.items import Item
from headrace.worker.outcomes import Kill, Reject


def task_of(item: Item) -> str | None:
    """The name of the task that an item calls, if it is such a call."""
    try:
        payload = item.payload
    except HeadraceError:
        return None
    name = payload.get("task") if isinstance(payload, dict) else None
    return name if isinstance(name, str) else None


def name_of(item: Item) -> str:
    """``send 4711`` for the call of a task, otherwise ``item 4711``."""
    return f"{task_of(item) or 'item'} {item.id}"


def fields_of(item: Item) -> dict[str, Any]:
    """The fields of a log record about an item."""
    fields: dict[str, Any] = {"item": item.id, "attempt": item.attempts}
    task = task_of(item)
    return fields if task is None else {"task": task, **fields}


def in_words(seconds: float) -> str:
    """A duration for people: ``3.2 ms``, ``4 s``, ``2 min``."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 100 else f"{minutes / 60:.3g} h"


def attempts_in_words(item: Item, outcome: Reject | Kill, settings: QueueSettings) -> str:
    """``attempt 2 of 3, next try in 4 s``."""
    most = max_attempts_of(item._state, settings)  # noqa: SLF001  # the rule is about states
    words = f"attempt {item.attempts}" + ("" if most == NO_LIMIT else f" of {most}")
    if isinstance(outcome, Kill):
        return f"{words}, given up"
    if most != NO_LIMIT and item.attempts >= most:
        return f"{words}, the last"
    if outcome.at is not None:
        return f"{words}, next try at {outcome.at}"
    if outcome.delay is not None:
        return f"{words}, next try in {in_words(delay_ms('delay', outcome.delay) / 1000)}"
    # The store adds the random part.
    about = retry_delay_ms(settings, item.attempts, 0.5) / 1000
    is_fixed = settings.reject_delay is not None or not settings.backoff.jitter
    return f"{words}, next try in {'' if is_fixed else 'about '}{in_words(about)}"
