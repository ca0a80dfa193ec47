"""What a schedule is, and what becomes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import islice
from typing import Literal

import msgspec
from msgspec.structs import replace

from headrace.errors import ScheduleExists, UnknownSchedule
from headrace.model.fields import shown
from headrace.model.schedules.actions import Action
from headrace.model.schedules.due_times import (
    MAX_COUNTED,
    Cron,
    Every,
    Timing,
    count_due,
    due_after,
    last_due,
)
from headrace.model.schedules.zones import UTC_NAME, zone_data

Misfire = Literal["once", "skip", "all"]
"""What becomes of due times that are over a minute late."""
Reason = Literal["misfire", "overlap", "paused", "failed"]
"""Why a due time was skipped."""
State = Literal["active", "paused", "ended"]

LATE_MS = 60_000
"""A firing that is later than this is a misfire."""
MAX_CATCH_UP = 1000
"""How many missed times are made up for with ``all``."""
RETRY_MS = (1000, 5000, 25_000)
"""How long a failed action waits before each of its retries: in sum less than ``LATE_MS``."""


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What the user wrote. ``owner`` names the app that declares it, if one does."""

    timing: Timing
    action: Action
    misfire: Misfire = "once"
    spread_ms: int = 0
    starts_at: int | None = None
    ends_at: int | None = None
    max_fires: int | None = None
    owner: str | None = None


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """How many due times were skipped, by reason."""

    misfire: int = 0
    overlap: int = 0
    paused: int = 0
    failed: int = 0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a schedule.

    ``due`` is the next due time, ``fire_at`` when it is fired: later by the spread, or by a retry.
    Both are None if the schedule has ended; while it is paused only ``fire_at`` is. Every due time
    is later than ``after``: the last due time, or the moment at which the schedule was added or
    resumed. ``attempts`` counts the failures of the due time, ``error`` is the last one.
    ``zone_data`` is the version of the time zone data by which ``due`` was computed.
    """

    name: str
    definition: ScheduleDefinition
    state: State
    anchor: int
    after: int
    due: int | None
    fire_at: int | None
    prev_due: int | None = None
    fired_at: int | None = None
    fires: int = 0
    skipped: Skipped = Skipped()
    attempts: int = 0
    error: str | None = None
    zone_data: str | None = None
    version: int = 1
    created_at: int


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one due time.

    ``item`` is the id of the item that was pushed, or of the one that was in its way. ``failed``
    means that the action is tried again, or skipped with the reason ``failed``.
    """

    schedule: str
    due: int
    outcome: Literal["fired", "skipped", "failed"]
    reason: Reason | None = None
    item: int | None = None
    error: str | None = None


def added(name: str, definition: ScheduleDefinition, now: int) -> Schedule:
    """A new schedule. A single time that has passed is due now; others begin with the next one."""
    schedule = Schedule(
        name=name,
        definition=definition,
        state="active",
        anchor=_anchor(definition, now),
        after=_beginning(definition, now),
        due=None,
        fire_at=None,
        created_at=now,
    )
    return _advanced(schedule, schedule.after)


def redefined(found: Schedule, definition: ScheduleDefinition, now: int) -> Schedule:
    """A schedule with another content. What it has fired it does not fire again."""
    before = found.definition
    is_same_time = (before.timing, before.starts_at) == (definition.timing, definition.starts_at)
    after = max(_beginning(definition, now), _latest(found.prev_due, before, definition))
    schedule = replace(
        found,
        definition=definition,
        state="paused" if found.state == "paused" else "active",
        anchor=found.anchor if is_same_time else _anchor(definition, now),
        after=after,
        attempts=0,
        error=None,
        version=found.version + 1,
    )
    return _advanced(schedule, after)


def same_or_redefined(
    found: Schedule, definition: ScheduleDefinition, now: int, *, is_replaced: bool
) -> Schedule:
    """What becomes of a schedule that is added again; ``ScheduleExists`` if it must not change."""
    if found.definition == definition:
        return found
    if not is_replaced:
        differs = ", ".join(
            name
            for name in ScheduleDefinition.__struct_fields__
            if getattr(found.definition, name) != getattr(definition, name)
        )
        raise ScheduleExists(
            f"there is a schedule {shown(found.name)} with another {differs}: give replace=True to "
            "replace it, or use another name.",
            schedule=found.name,
        )
    return redefined(found, definition, now)


def paused(schedule: Schedule) -> Schedule:
    """A schedule that does not fire until it is resumed."""
    if schedule.state != "active":
        return schedule
    return replace(schedule, state="paused", fire_at=None)


def resumed(schedule: Schedule, now: int) -> Schedule:
    """A schedule that fires again. Times during the pause are skipped and counted."""
    if schedule.state != "paused":
        return schedule
    schedule = replace(schedule, state="active", attempts=0)
    first = schedule.due
    if first is None or first > now:
        return _at(schedule, first)
    definition = schedule.definition
    until = now + 1 if definition.ends_at is None else min(now, definition.ends_at) + 1
    missed = count_due(definition.timing, first, until, schedule.anchor)
    return _advanced(skipping(schedule, "paused", missed), now)


def caught_up(schedule: Schedule, now: int) -> Schedule:
    """Apply the rule on misfires to a schedule that is due: what it skips is counted."""
    due = schedule.due
    if due is None or schedule.attempts or now - (schedule.fire_at or now) <= LATE_MS:
        return schedule
    definition = schedule.definition
    timing, anchor = definition.timing, schedule.anchor
    latest = now - offset(schedule)
    until = latest if definition.ends_at is None else min(latest, definition.ends_at)
    match definition.misfire:
        case "once":
            first: int | None = last_due(timing, due, until, anchor)
        case "skip":
            first = due_after(timing, latest - LATE_MS - 1, anchor)
        case "all":
            first = _newest(schedule, due, until)
    if first == due:
        return schedule
    before = until + 1 if first is None or first > until else first
    schedule = skipping(schedule, "misfire", count_due(timing, due, before, anchor))
    return _advanced(schedule, (before if first is None else first) - 1)


def after_firing(schedule: Schedule, firing: Firing, now: int) -> Schedule:
    """What becomes of a schedule when its due time was fired or skipped, or has failed."""
    assert schedule.due is not None
    if firing.outcome == "failed":
        attempts, error = schedule.attempts + 1, firing.error
        schedule = replace(schedule, attempts=attempts, error=error)
        if attempts <= len(RETRY_MS):
            return replace(schedule, fire_at=now + RETRY_MS[attempts - 1])
        schedule = skipping(schedule, "failed", 1)
    elif firing.outcome == "skipped":
        schedule = replace(skipping(schedule, "overlap", 1), error=None)
    else:
        schedule = replace(schedule, fires=schedule.fires + 1, fired_at=now, error=None)
    schedule = replace(schedule, prev_due=schedule.due, attempts=0)
    return _advanced(schedule, schedule.prev_due or 0)


def still_due(schedules: Iterable[Schedule], now: int, limit: int) -> list[Schedule]:
    """Those that have a due time to fire, up to a limit."""
    due = (s for s in schedules if s.fire_at is not None and s.fire_at <= now)
    return list(islice(due, max(limit, 0)))


def rezoned(schedule: Schedule) -> Schedule:
    """A schedule whose next due time is computed again, by newer time zone data."""
    if schedule.attempts:
        return schedule  # its due time has come already
    return _advanced(schedule, schedule.after)


def depends_on_zone(definition: ScheduleDefinition) -> bool:
    """Whether its due times follow the rules of a time zone."""
    return isinstance(definition.timing, Cron) and definition.timing.zone != UTC_NAME


def offset(schedule: Schedule) -> int:
    """How much later than due it fires: a part of the spread, always the same for one name."""
    spread = schedule.definition.spread_ms
    if not spread:
        return 0
    digest = hashlib.blake2b(schedule.name.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % spread


def skipping(schedule: Schedule, reason: Reason, count: int) -> Schedule:
    """Count due times that are skipped."""
    if not count:
        return schedule
    total = getattr(schedule.skipped, reason) + count
    return replace(schedule, skipped=replace(schedule.skipped, **{reason: total}))


def upcoming(schedule: Schedule, count: int) -> list[int]:
    """The next times at which it fires, as far as that is known: none while it is paused."""
    definition, due, times = schedule.definition, schedule.due, list[int]()
    if definition.max_fires is not None:
        count = min(count, definition.max_fires - schedule.fires)
    if schedule.state != "active":
        return times
    while due is not None and len(times) < count:
        times.append(due + offset(schedule))
        due = _bounded(definition, due_after(definition.timing, due, schedule.anchor))
    return times


def unknown_schedule(name: str) -> UnknownSchedule:
    return UnknownSchedule(
        f"there is no schedule {shown(name)}: hr.schedules.list() lists them.", schedule=name
    )


def _anchor(definition: ScheduleDefinition, now: int) -> int:
    """What an interval is counted from, so that the first time is the start if there is one."""
    if definition.starts_at is None or not isinstance(definition.timing, Every):
        return now
    return definition.starts_at - definition.timing.ms


def _beginning(definition: ScheduleDefinition, now: int) -> int:
    start = definition.starts_at
    if isinstance(definition.timing, Cron | Every):
        return now if start is None else max(now, start - 1)
    # It is due although it has passed.
    return min(now, definition.timing.at - 1)


def _latest(prev_due: int | None, before: ScheduleDefinition, after: ScheduleDefinition) -> int:
    """The last time that must not be fired again."""
    if prev_due is None:
        return 0
    is_other_time = not isinstance(after.timing, Cron | Every) and before.timing != after.timing
    # A single time that was set again may lie before those that were fired.
    return 0 if is_other_time else prev_due


def _newest(schedule: Schedule, due: int, until: int) -> int:
    """The first of the newest due times that are made up for."""
    timing, anchor = schedule.definition.timing, schedule.anchor
    count = count_due(timing, due, until + 1, anchor)
    if isinstance(timing, Every):
        return due + max(count - MAX_CATCH_UP, 0) * timing.ms
    low, high = due, until
    while count >= MAX_COUNTED and high - low > 1:
        # Too many to be counted: look closer to the end.
        middle = (low + high) // 2
        later = due_after(timing, middle, anchor) or until + 1
        rest = count_due(timing, later, until + 1, anchor)
        if rest < MAX_CATCH_UP:
            high = middle
        else:
            low, due, count = middle, later, rest
    for _ in range(count - MAX_CATCH_UP):
        due = due_after(timing, due, anchor) or due
    return due


def _advanced(schedule: Schedule, after: int) -> Schedule:
    """Find the next due time later than ``after``."""
    definition = schedule.definition
    after = max(after, schedule.after)
    due = _bounded(definition, due_after(definition.timing, after, schedule.anchor))
    if definition.max_fires is not None and schedule.fires >= definition.max_fires:
        due = None
    version = zone_data() if depends_on_zone(definition) else None
    return _at(replace(schedule, after=after, zone_data=version), due)


def _bounded(definition: ScheduleDefinition, due: int | None) -> int | None:
    is_over = due is None or (definition.ends_at is not None and due > definition.ends_at)
    return None if is_over else due


def _at(schedule: Schedule, due: int | None) -> Schedule:
    if due is None:
        return replace(schedule, state="ended", due=None, fire_at=None)
    is_active = schedule.state == "active"
    return replace(schedule, due=due, fire_at=due + offset(schedule) if is_active else None)
