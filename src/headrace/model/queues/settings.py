"""Settings of a queue, with their checks, and the stored queue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec.structs import force_setattr

from headrace.errors import InvalidOption
from headrace.model.fields import shown, suggestion
from headrace.model.names import check_queue, check_topic
from headrace.model.times import Duration, duration_ms

Discipline = Literal["fifo", "lifo", "priority"]
Uniqueness = Literal["live", "forever", "window"]
RetryPosition = Literal["back", "front"]
WhileActive = Literal["skip", "next"]
LogLevel = Literal["debug", "info", "warning", "error", "silent"]
Keep = Literal["all", "none"]

NO_LIMIT = -1
MAX_SECONDS = 10**9

if TYPE_CHECKING:
    Seconds = Duration
else:
    Seconds = float  # what is stored and sent


def _check_number(option: str, value: object, least: float, most: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not (is_number and least <= cast("float", value) <= most):
        bounds = f"{least:g} to {most:g}" if most < MAX_SECONDS else f"{least:g} or more"
        raise InvalidOption(f"{option} is {shown(value)}: use {bounds}.", option=option)


def _between(option: str, value: float, least: float) -> None:
    if not least <= value <= MAX_SECONDS:
        raise InvalidOption(
            f"{option} is {shown(value)}: use {least:g} or more, in seconds.", option=option
        )


class Backoff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a rejected item waits: ``first`` seconds, then ``factor`` times longer each time.

    Never longer than ``longest``. ``jitter`` is the random part of the wait, so that items which
    failed together do not return together: 0 for none, 1 for all of it. Durations may be given as a
    timedelta or in words like ``"1h"``; they are kept as seconds.
    """

    first: Seconds = 1.0
    factor: float = 2.0
    longest: Seconds = 3600.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        for name in ("first", "longest"):
            value = getattr(self, name)
            if type(value) is not float:
                force_setattr(self, name, duration_ms(f"backoff.{name}", value) / 1000)
            else:
                _between(f"backoff.{name}", value, 0)
        _check_number("backoff.factor", self.factor, 1, MAX_SECONDS)
        _check_number("backoff.jitter", self.jitter, 0, 1)

    def delay_ms(self, attempts: int, chance: float) -> int:
        """The wait after so many attempts; ``chance`` lies between 0 and 1."""
        first, longest = cast("float", self.first), cast("float", self.longest)
        # Compared as exponents first: a float to the power of a million is an error.
        steps = min(max(attempts, 1) - 1, 1000)
        try:
            wait = min(first * self.factor**steps, longest)
        except OverflowError:
            wait = longest
        return round(wait * (1 - self.jitter * chance) * 1000)


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue behaves. Times are in seconds.

    ``discipline``          which item is next: the oldest, the newest, or by priority and age.
    ``lease``               how long a claim lasts unless it says otherwise.
    ``max_attempts``        how many times an item is claimed before it is dead; -1: no limit.
    ``max_crashes``         how many claims may expire (the worker died) before it is dead.
    ``reject_delay``        a fixed wait after a rejection; None: ``backoff`` decides.
    ``backoff``             the wait that grows with each attempt.
    ``reschedule_delay``    the wait after a reschedule that names no time.
    ``retry_position``      where a returning item is placed: behind all others, or where it was.
                            None: a rejected item behind all others, an item whose lease expired
                            where it was.
    ``chunk``               how many items a worker claims in one request.
    ``concurrency``         how many handlers a worker runs in parallel.
    ``unique``              how long a subject stays reserved: while its item is live, for ever, or
                            for ``unique_window`` seconds after it was pushed.
    ``unique_window``       how long a subject stays reserved if ``unique`` is "window".
    ``unique_content``      whether a dead item from another queue is skipped if a live item has
                            the same content; its subject here is a digest of its content, as with
                            ``unique_queue`` of ``headrace.compat.gopq``.
    ``while_active``        what an upsert does with an item in flight: it is skipped, or its
                            document follows when the claim ends.
    ``keep_superseded``     a topic that gets the values which an upsert replaced.
    ``keep``                whether completed items are kept: all, none, or for some seconds.
    ``keep_dead``           how long dead items are kept; None: for ever.
    ``dead_to``             queues that get a copy of each dead item; the queue then keeps dead
                            items only if it names itself.
    ``errors``              whether errors are kept as a time series, for ``errors_retention``.
    ``errors_retention``    how long errors are kept.
    ``metrics``             whether counts are maintained, so that ``stats`` need not count, and
                            kept as a time series for ``metrics_retention``.
    ``metrics_retention``   how long counts are kept.
    ``log_level``           what a worker of the queue logs.
    ``max_items``           how many live items the queue may hold, waiting and in flight; -1: no
                            limit, 0: none. What is there already stays; updates are free.
    ``max_channel_items``   the same for each channel.
    ``serial``              whether the next item of a channel can be claimed only when the one
                            before it is settled and has not returned ahead of it.
    """

    discipline: Discipline = "priority"
    lease: float = 300.0
    max_attempts: int = 5
    max_crashes: int = 3
    reject_delay: float | None = None
    backoff: Backoff = Backoff()
    reschedule_delay: float = 0.0
    retry_position: RetryPosition | None = None
    chunk: int = 1
    concurrency: int = 1
    unique: Uniqueness = "live"
    unique_window: float = 24 * 3600.0
    unique_content: bool = False
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
        """Whether the queue can be full."""
        return self.max_items != NO_LIMIT or self.max_channel_items != NO_LIMIT

    def dead_queues(self, name: str) -> tuple[str, ...]:
        """The queues that get copies of dead items of the queue ``name``.

        The queue itself is not among them: its dead items would never leave, and a queue that the
        stored defaults name in ``dead_to`` has these defaults too.
        """
        return tuple(queue for queue in self.dead_to if queue != name)


DEFAULTS = QueueSettings()
OPTIONS = QueueSettings.__struct_fields__

QueueChanges = dict[str, Any]
"""Settings to change, by name; the others stay as they are."""


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


PRESENCE_WORD = "presence/"
"""The notification when clients and workers join, leave, or change their status."""


def capacity_word(queue: str) -> str:
    """The notification for pushes that wait because the queue is full."""
    return f"capacity/{queue}"


def changed(settings: QueueSettings, changes: QueueChanges) -> QueueSettings:
    """The settings with some changes; ``InvalidOption`` names a setting that is not allowed."""
    values = msgspec.to_builtins(settings)
    for name, value in changes.items():
        values[check_option(name)] = _builtin_value(name, value)
    try:
        wanted = msgspec.convert(values, QueueSettings)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise InvalidOption(f"the queue's settings are not valid: {error}.") from error
    _check(wanted)
    return wanted


def _builtin_value(name: str, value: object) -> object:
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidOption(f"{name} cannot be {shown(value)}.", option=name) from error


def with_dead_queue(settings: QueueSettings, to: str) -> QueueChanges:
    """The changes that add a queue to ``dead_to``; empty if it is there already."""
    return {} if to in settings.dead_to else {"dead_to": (*settings.dead_to, to)}


def check_option(name: str) -> str:
    """The name of a setting; ``InvalidOption`` if there is none of that name."""
    if name not in OPTIONS:
        raise InvalidOption(
            f"a queue has no option {shown(name)}: {suggestion(name, OPTIONS)}", option=name
        )
    return name


def _check(settings: QueueSettings) -> None:
    for queue in settings.dead_to:
        check_queue(queue)
    if settings.keep_superseded is not None:
        check_topic(settings.keep_superseded)
    _between("lease", settings.lease, 0.001)
    for name in ("max_attempts", "max_crashes"):
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
    for name in ("chunk", "concurrency"):
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
