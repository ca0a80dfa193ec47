"""Settings of a queue as users give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from headrace.core.times import Duration, duration_ms
from headrace.model.queues import (
    Backoff,
    Discipline,
    Keep,
    LogLevel,
    QueueChanges,
    RetryPosition,
    Uniqueness,
    WhileActive,
    option_of,
)

TIMES = frozenset(
    {
        "lock_duration",
        "reject_delay",
        "reschedule_delay",
        "unique_window",
        "keep",
        "keep_dead",
        "errors_retention",
        "metrics_retention",
    }
)


class Settings(TypedDict, total=False):
    """What can be set of a queue: see ``QueueSettings``. FetchQ's names are known too."""

    discipline: Discipline
    lock_duration: Duration
    dead_threshold: int
    max_crashes: int
    reject_delay: Duration | None
    backoff: Backoff | dict[str, float]
    reschedule_delay: Duration
    retry_position: RetryPosition
    worker_chunk: int
    worker_concurrency: int
    unique: Uniqueness
    unique_window: Duration
    while_active: WhileActive
    keep_superseded: str | None
    keep: Keep | Duration
    keep_dead: Duration | None
    dead_to: Sequence[str]
    errors: bool
    errors_retention: Duration
    metrics: bool
    metrics_retention: Duration
    log_level: LogLevel
    serial: bool
    max_items: int
    max_channel_items: int


def changes_of(settings: Mapping[str, Any]) -> QueueChanges:
    """The changes a store understands: times are seconds."""
    return {name: _plain(option_of(name), value) for name, value in settings.items()}


def _plain(option: str, value: Any) -> Any:
    is_wait = isinstance(value, timedelta) or (isinstance(value, str) and option in TIMES)
    if is_wait and not (option == "keep" and value in ("all", "none")):
        return duration_ms(option, value) / 1000
    if option == "dead_to" and isinstance(value, str):
        return (value,)
    return value
