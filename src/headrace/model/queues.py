"""Queues: their settings, and what is known of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from headrace.errors import InvalidOption
from headrace.model.names import check_queue, check_topic

Discipline = Literal["fifo", "lifo", "priority"]
Uniqueness = Literal["live", "forever", "window"]
RetryPosition = Literal["back", "front"]
WhileActive = Literal["skip", "next"]
LogLevel = Literal["debug", "info", "warning", "error", "silent"]
Keep = Literal["all", "none"]

NO_LIMIT = -1
LONGEST_TIME = 10**9


class Backoff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a rejected item waits: ``first`` seconds, then ``factor`` times longer each time.

    Never longer than ``longest``. ``jitter`` is the part of it that is left to chance, so that
    items which failed together do not return together.
    """

    first: float = 1.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.2

    def delay_ms(self, attempts: int, chance: float) -> int:
        """The wait after so many attempts; ``chance`` lies between 0 and 1."""
        # Compared as exponents first: a float to the power of a million is an error.
        steps = min(max(attempts, 1) - 1, 1000)
        try:
            wait = min(self.first * self.factor**steps, self.longest)
        except OverflowError:
            wait = self.longest
        return round(wait * (1 - self.jitter * chance) * 1000)


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue behaves. Times are in seconds.

    ``discipline``          which item is next: the oldest, the newest, or by priority and age.
    ``lock_duration``       how long a claim lasts unless it says otherwise.
    ``dead_threshold``      how many times an item is handed out before it is dead; -1: no limit.
    ``max_crashes``         how many claims may run out (a worker that died) before it is dead.
    ``reject_delay``        a fixed wait after a rejection; None: ``backoff`` decides.
    ``backoff``             the wait that grows with each attempt.
    ``reschedule_delay``    the wait after a reschedule that names no time.
    ``retry_position``      where an item stands that comes back: behind all others, or where it was.
    ``worker_chunk``        how many items a worker claims at once.
    ``worker_concurrency``  how many handlers a worker runs at once.
    ``unique``              how long a subject is taken: while its item is live, for ever, or
                            for ``unique_window`` seconds after it was pushed.
    ``while_active``        what becomes of an upsert to an item in flight: skipped, or kept as
                            the one that comes next.
    ``keep_superseded``     a topic that gets the values which an upsert replaced.
    ``keep``                whether completed items are kept: all, none, or for some seconds.
    ``keep_dead``           how long dead items are kept; None: for ever.
    ``dead_to``             queues that get a copy of each item that dies, in place of keeping it;
                            a queue that is named itself keeps its own.
    ``errors``              whether errors are kept as a time series, for ``errors_retention``.
    ``metrics``             whether running numbers are kept, so that ``stats`` need not count, and
                            as a time series for ``metrics_retention``.
    ``log_level``           what a worker of the queue logs.
    ``max_items``           how many live items the queue may hold, waiting and in flight; -1: no
                            limit, 0: none. What is there already stays; updates are free.
    ``max_channel_items``   the same for each channel.
    ``serial``              whether a channel hands out its next item only when the one before it
                            is settled, and has not come back to stand before it.
    """

    discipline: Discipline = "priority"
    lock_duration: float = 300.0
    dead_threshold: int = 5
    max_crashes: int = 3
    reject_delay: float | None = None
    backoff: Backoff = Backoff()
    reschedule_delay: float = 0.0
    retry_position: RetryPosition = "back"
    worker_chunk: int = 1
    worker_concurrency: int = 1
    unique: Uniqueness = "live"
    unique_window: float = 24 * 3600.0
    while_active: WhileActive = "skip"
    keep_superseded: str | None = None
    keep: Keep | float = "none"
    keep_dead: float | None = None
    dead_to: tuple[str, ...] = ()
    errors: bool = True
    errors_retention: float = 24 * 3600.0
    metrics: bool = True
    metrics_retention: float = 7 * 24 * 3600.0
    log_level: LogLevel = "error"
    serial: bool = False
    max_items: int = NO_LIMIT
    max_channel_items: int = NO_LIMIT

    @property
    def is_limited(self) -> bool:
        """Whether a push may find it full."""
        return self.max_items != NO_LIMIT or self.max_channel_items != NO_LIMIT

    def dead_queues(self, name: str) -> tuple[str, ...]:
        """The queues that get copies of what dies in the queue ``name``.

        Not itself: what dies there would never leave, and the queue to which the stored defaults
        send what dies has these defaults too.
        """
        return tuple(queue for queue in self.dead_to if queue != name)


DEFAULTS = QueueSettings()
OPTIONS = QueueSettings.__struct_fields__

QueueChanges = dict[str, Any]
"""Settings to change, by name; what is not named stays."""


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it is stored. ``version`` grows with each change of its settings.

    ``has_channels`` says that some item was ever pushed to a channel of it.
    """

    name: str
    settings: QueueSettings
    version: int
    created_at: int
    is_paused: bool = False
    paused_by: str | None = None
    has_channels: bool = False

    @property
    def created(self) -> datetime:
        return datetime.fromtimestamp(self.created_at / 1000, UTC)


def room_word(queue: str) -> str:
    """What whoever waits for room in a queue listens for."""
    return f"room/{queue}"


def changed(settings: QueueSettings, changes: QueueChanges) -> QueueSettings:
    """The settings with some changes; ``InvalidOption`` names what cannot be.

    Both names of a setting are known: ``dead_threshold`` and FetchQ's ``deadThreshold``.
    """
    values = msgspec.to_builtins(settings)
    for name, value in changes.items():
        values[option_of(name)] = msgspec.to_builtins(value)
    try:
        wanted = msgspec.convert(values, QueueSettings)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"the queue's settings do not hold together: {error}.") from error
    _check(wanted)
    return wanted


def with_dead_queue(settings: QueueSettings, to: str) -> QueueChanges:
    """What has to change so that copies of dead items go to one more queue; perhaps nothing."""
    return {} if to in settings.dead_to else {"dead_to": (*settings.dead_to, to)}


def option_of(name: str) -> str:
    """The setting that is meant by either of its names; ``InvalidOption`` if there is none."""
    plain = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    if plain not in OPTIONS:
        raise InvalidOption(
            f"a queue has no option {name!r}: it has {', '.join(OPTIONS)}.", option=name
        )
    return plain


def _check(settings: QueueSettings) -> None:
    for queue in settings.dead_to:
        check_queue(queue)
    if settings.keep_superseded is not None:
        check_topic(settings.keep_superseded)
    _between("lock_duration", settings.lock_duration, 0.001)
    for name in ("dead_threshold", "max_crashes"):
        value = getattr(settings, name)
        if value < 1 and value != NO_LIMIT:
            raise InvalidOption(
                f"{name} is {value}: use 1 or more, or -1 for no limit.", option=name
            )
    for name in ("max_items", "max_channel_items"):
        value = getattr(settings, name)
        if value < NO_LIMIT:
            raise InvalidOption(
                f"{name} is {value}: use 0 or more, or -1 for no limit.", option=name
            )
    for name in ("worker_chunk", "worker_concurrency"):
        value = getattr(settings, name)
        if not 1 <= value <= 10_000:
            raise InvalidOption(f"{name} is {value}: use 1 to 10000.", option=name)
    for name in ("reject_delay", "keep_dead"):
        if getattr(settings, name) is not None:
            _between(name, getattr(settings, name), 0)
    for name in ("reschedule_delay", "unique_window", "errors_retention", "metrics_retention"):
        _between(name, getattr(settings, name), 0)
    if isinstance(settings.keep, float):
        _between("keep", settings.keep, 0)
    backoff = settings.backoff
    _between("backoff.first", backoff.first, 0)
    _between("backoff.longest", backoff.longest, 0)
    _between("backoff.factor", backoff.factor, 1)
    if not 0 <= backoff.jitter <= 1:
        raise InvalidOption(
            f"backoff.jitter is {backoff.jitter}: use 0 to 1.", option="backoff.jitter"
        )


def _between(option: str, value: float, least: float) -> None:
    if not least <= value <= LONGEST_TIME:
        raise InvalidOption(
            f"{option} is {value!r}: use {least:g} or more, in seconds.", option=option
        )
