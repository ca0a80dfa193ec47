"""Settings of a queue as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict, get_args, get_type_hints

from headrace.model.names import RESERVED, reserved_name
from headrace.model.queues.settings import (
    Backoff,
    Discipline,
    Keep,
    LogLevel,
    QueueChanges,
    RetryPosition,
    Uniqueness,
    WhileActive,
    check_option,
)
from headrace.model.times import Duration, duration_ms


class QueueOptions(TypedDict, total=False):
    """The settings of a queue: see ``QueueSettings``."""

    discipline: Discipline
    lease: Duration
    max_attempts: int
    max_crashes: int
    reject_delay: Duration | None
    backoff: Backoff | dict[str, float]
    reschedule_delay: Duration
    retry_position: RetryPosition | None
    chunk: int
    concurrency: int
    unique: Uniqueness
    unique_window: Duration
    unique_content: bool
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


TIMES = frozenset(
    name for name, type in get_type_hints(QueueOptions).items() if timedelta in get_args(type)
)
"""The settings that are times: a text is read as one."""


def changes_of(settings: Mapping[str, Any]) -> QueueChanges:
    """Settings with their names and values as the store expects them: times in seconds."""
    changes = {name: _stored_value(check_option(name), value) for name, value in settings.items()}
    _check_targets(changes)
    return changes


def _check_targets(changes: QueueChanges) -> None:
    """Refuse settings by which the queue would write to things of Headrace's own."""
    topic, queues = changes.get("keep_superseded"), changes.get("dead_to")
    if isinstance(topic, str) and topic.startswith(RESERVED):
        raise reserved_name("topic", topic)
    for queue in queues if isinstance(queues, (list, tuple)) else ():
        if isinstance(queue, str) and queue.startswith(RESERVED):
            raise reserved_name("queue", queue)


def _stored_value(option: str, value: Any) -> Any:
    is_wait = isinstance(value, timedelta) or (isinstance(value, str) and option in TIMES)
    if is_wait and not (option == "keep" and value in ("all", "none")):
        return duration_ms(option, value) / 1000
    if option == "dead_to" and isinstance(value, str):
        return (value,)
    return value
