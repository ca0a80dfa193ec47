"""Schedules as users write and see them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypedDict

import msgspec

from headrace.contract.values import CommitPart
from headrace.core.commits import prepare_one
from headrace.core.documents import Commit, Push, document
from headrace.core.pushes import push_call
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.names import writable_queue
from headrace.model.schedules.actions import (
    Action,
    CommitAction,
    Overlap,
    PauseAction,
    PushAction,
    ResumeAction,
)
from headrace.model.schedules.due_times import (
    LAST_MS,
    At,
    Cron,
    Every,
    Timing,
    check_cron,
    due_times,
    is_either_day,
)
from headrace.model.schedules.schedule import (
    Misfire,
    Schedule,
    ScheduleDefinition,
    Skipped,
    State,
    upcoming,
)
from headrace.model.schedules.zones import UTC_NAME, check_zone, zone_of
from headrace.model.times import MAX_MS, Duration, Moment, duration_ms, moment_ms, moment_of

MIN_EVERY_MS = 100
MAX_COMING = 1000
_MISFIRES = ("once", "skip", "all")
_OVERLAPS = ("skip", "queue", "replace", "allow")


class ScheduleOptions(TypedDict, total=False):
    """What a schedule does, when, and by which rules."""

    cron: str | None
    every: Duration | None
    at: Moment | None
    zone: str | None
    push: Push | None
    upsert: Push | None
    commit: Commit | None
    pause: str | None
    resume: str | None
    misfire: Misfire
    overlap: Overlap | None
    spread: Duration | None
    starts_at: Moment | None
    ends_at: Moment | None
    max_fires: int | None


class Coming(TypedDict, total=False):
    """When something is due, without what it is."""

    cron: str | None
    every: Duration | None
    at: Moment | None
    zone: str | None


Moments = list[datetime]


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule: what it does and when, and what has become of it.

    ``next`` is when it fires next, None if it is paused or has ended; ``previous`` the last due
    time. Durations are seconds. ``owner`` is the app that declares it.
    """

    name: str
    state: State
    cron: str | None = None
    zone: str | None = None
    every: float | None = None
    at: datetime | None = None
    action: str
    misfire: Misfire
    overlap: Overlap | None = None
    spread: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_fires: int | None = None
    next: datetime | None = None
    previous: datetime | None = None
    fires: int
    skipped: Skipped
    attempts: int
    error: str | None = None
    owner: str | None = None
    created: datetime


def info_of(schedule: Schedule) -> ScheduleInfo:
    """A schedule's row for the user; times are in its time zone."""
    definition = schedule.definition
    timing, action = definition.timing, definition.action
    zone = zone_of(timing.zone) if isinstance(timing, Cron) else UTC

    def moment(ms: int | None) -> datetime | None:
        return None if ms is None else moment_of(ms).astimezone(zone)

    return ScheduleInfo(
        name=schedule.name,
        state=schedule.state,
        cron=timing.expression if isinstance(timing, Cron) else None,
        zone=timing.zone if isinstance(timing, Cron) else None,
        every=timing.ms / 1000 if isinstance(timing, Every) else None,
        at=moment(timing.at) if isinstance(timing, At) else None,
        action=words_of(action),
        misfire=definition.misfire,
        overlap=action.overlap if isinstance(action, PushAction) else None,
        spread=definition.spread_ms / 1000,
        starts_at=moment(definition.starts_at),
        ends_at=moment(definition.ends_at),
        max_fires=definition.max_fires,
        next=moment(schedule.fire_at),
        previous=moment(schedule.prev_due),
        fires=schedule.fires,
        skipped=schedule.skipped,
        attempts=schedule.attempts,
        error=schedule.error,
        owner=definition.owner,
        created=moment_of(schedule.created_at),
    )


def infos_of(schedules: Sequence[Schedule]) -> list[ScheduleInfo]:
    """Rows of schedules for the user."""
    return [info_of(schedule) for schedule in schedules]


def words_of(action: Action) -> str:
    """What a schedule does, in a few words."""
    match action:
        case PushAction():
            verb = "upsert" if action.overlap is None else "push"
            return f"{verb} to queue {action.queue}"
        case CommitAction():
            return f"commit to topic {action.topic}"
        case PauseAction():
            return f"pause queue {action.queue}"
        case ResumeAction():
            return f"resume queue {action.queue}"


def define(options: Any, *, max_body: int, owner: str | None = None) -> ScheduleDefinition:
    """Check what a user wrote of a schedule."""
    given = {name: value for name, value in options.items() if value is not None}
    unknown = sorted(given.keys() - ScheduleOptions.__annotations__.keys())
    if unknown:
        raise InvalidOption(f"a schedule has no option {shown(unknown[0])}.", option=unknown[0])
    starts_at = moment_ms("starts_at", given["starts_at"]) if "starts_at" in given else None
    ends_at = moment_ms("ends_at", given["ends_at"]) if "ends_at" in given else None
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise InvalidOption("ends_at is before starts_at.", option="ends_at")
    timing = timing_of(given)
    if isinstance(timing, At) and (starts_at is not None or ends_at is not None):
        raise InvalidOption("at is a single time: leave starts_at and ends_at out.", option="at")
    return ScheduleDefinition(
        timing=timing,
        action=_action(given, max_body=max_body),
        misfire=_one_of("misfire", given.get("misfire", "once"), _MISFIRES),
        spread_ms=duration_ms("spread", given["spread"]) if "spread" in given else 0,
        starts_at=starts_at,
        ends_at=ends_at,
        max_fires=positive("max_fires", given["max_fires"]) if "max_fires" in given else None,
        owner=owner,
    )


def timing_of(given: Any) -> Timing:
    """When a schedule is due: of ``cron``, ``every`` and ``at`` exactly one is given."""
    found = [name for name in ("cron", "every", "at") if given.get(name) is not None]
    if len(found) != 1:
        raise InvalidOption(
            f"a schedule has exactly one of cron, every and at, not {' and '.join(found) or 'none'}: "
            "cron='30 2 * * *', every='10m' or at=a moment.",
            option="cron",
        )
    if "zone" in given and found != ["cron"]:
        raise InvalidOption(
            f"zone goes with cron; {found[0]} is the same moment in all zones.", option="zone"
        )
    match found[0]:
        case "cron":
            zone = UTC_NAME if given.get("zone") is None else given["zone"]
            return check_timing(Cron(expression=check_cron(given["cron"]), zone=zone))
        case "every":
            return check_timing(Every(ms=duration_ms("every", given["every"], least=1)))
    return check_timing(At(at=moment_ms("at", given["at"])))


def check_timing(timing: Timing) -> Timing:
    """Return a timing that has a meaning, else raise ``InvalidOption``."""
    match timing:
        case Cron():
            if check_cron(timing.expression) != timing.expression:
                raise InvalidOption("cron is to be stored as five fields.", option="cron")
            check_zone(timing.zone)
        case Every():
            if not MIN_EVERY_MS <= timing.ms <= MAX_MS:
                raise InvalidOption(
                    f"every is {timing.ms / 1000} seconds: use 0.1 seconds or more.", option="every"
                )
        case At():
            if not 0 <= timing.at <= LAST_MS:
                raise InvalidOption(
                    "at is too far away: use a moment between 1970 and 2999.", option="at"
                )
    return timing


def note_on(timing: Timing) -> str | None:
    """What surprises about a cron expression, if anything does."""
    if isinstance(timing, Cron) and is_either_day(timing.expression):
        return (
            f"{timing.expression!r} names days of the month and of the week: it is due on each day "
            "that is one of either. For the first Monday of a month write MON#1."
        )
    return None


def warn(definition: ScheduleDefinition) -> None:
    """Warn of what surprises about a cron expression."""
    note = note_on(definition.timing)
    if note is not None:
        warnings.warn(note, stacklevel=4)


def coming(given: Any, count: int) -> list[datetime]:
    """The next due times of what a user wrote, in its time zone."""
    timing = timing_of({name: value for name, value in given.items() if value is not None})
    now = moment_ms("now", datetime.now(UTC))
    times = islice(due_times(timing, now, now), check_count(count))
    return [moment_of(due).astimezone(_zone(timing)) for due in times]


def coming_of(schedule: Schedule, count: int) -> list[datetime]:
    """The next times at which a schedule fires."""
    zone = _zone(schedule.definition.timing)
    return [moment_of(time).astimezone(zone) for time in upcoming(schedule, count)]


def check_count(count: object) -> int:
    return positive("count", count, most=MAX_COMING)


def _zone(timing: Timing) -> Any:
    return zone_of(timing.zone) if isinstance(timing, Cron) else UTC


def _action(given: Any, *, max_body: int) -> Action:
    found = [n for n in ("push", "upsert", "commit", "pause", "resume") if n in given]
    if len(found) != 1:
        raise InvalidOption(
            "a schedule does exactly one of push=Push(...), upsert=Push(...), commit=Commit(...), "
            f"pause='queue' and resume='queue', not {' and '.join(found) or 'none'}.",
            option="push",
        )
    [kind], value = found, given[found[0]]
    if kind in ("push", "upsert"):
        return _push(kind, value, given.get("overlap"), max_body=max_body)
    if "overlap" in given:
        raise InvalidOption(f"overlap goes with push, not with {kind}.", option="overlap")
    if kind == "commit":
        return _commit(value, max_body=max_body)
    queue = writable_queue(value)
    return PauseAction(queue=queue) if kind == "pause" else ResumeAction(queue=queue)


def _push(kind: str, value: object, overlap: object, *, max_body: int) -> PushAction:
    if not isinstance(value, Push):
        raise InvalidOption(
            f"{kind} is {shown(value)}: use Push(queue, payload), or task.as_push(...).",
            option=kind,
        )
    made = document(value, max_body=max_body)
    push_call(value.queue, (made,), mode=value.mode, while_active=value.while_active)
    if made.due is not None:
        raise InvalidOption(
            "the schedule says when its item is due: leave at out; delay is counted from then.",
            option="at",
        )
    if kind == "upsert" or value.mode == "upsert":
        if overlap is not None:
            raise InvalidOption(
                "overlap goes with push; an upsert has while_active.", option="overlap"
            )
        return PushAction(
            queue=value.queue, document=made, overlap=None, while_active=value.while_active
        )
    checked: Overlap = _one_of("overlap", "skip" if overlap is None else overlap, _OVERLAPS)
    if checked == "allow" and made.subject is not None:
        raise InvalidOption(
            "overlap='allow' gives each item a subject of its own: leave subject out, or use another "
            "overlap.",
            option="overlap",
        )
    return PushAction(queue=value.queue, document=made, overlap=checked)


def _commit(value: object, *, max_body: int) -> CommitAction:
    if not isinstance(value, Commit):
        raise InvalidOption(f"commit is {shown(value)}: use Commit(topic, body).", option="commit")
    prepared = prepare_one(value.topic, value.body, value.headers, None, max_body=max_body)
    [part] = prepared.call.parts
    assert isinstance(part, CommitPart)
    return CommitAction(topic=part.topic, body=part.body, headers=part.headers)


def _one_of(option: str, value: Any, known: tuple[str, ...]) -> Any:
    if value in known:
        return value
    raise InvalidOption(
        f"{option} is {shown(value)}: use {', '.join(known[:-1])} or {known[-1]}.", option=option
    )
