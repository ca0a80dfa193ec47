"""When a schedule is due: by a cron expression, at an interval, or once.

All times are milliseconds since 1970. Due times are strictly increasing, also where clocks are set
back, and the same whatever moment one asks from.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.schedules.zones import UTC_NAME, zone_of

if TYPE_CHECKING:
    from cronsim import CronSim

MINUTE_MS = 60_000
MAX_COUNTED = 10_000
"""How many missed times of one outage are counted at most, since each costs some 30 µs."""
FIRST_MS = 0
LAST_MS = 32_503_680_000_000
"""Schedules are for the years 1970 to 2999."""

WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""What crontabs write in place of five fields."""
CRON_FIELDS = 5


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """The minutes that a cron expression names, on the clocks of a time zone."""

    expression: str
    zone: str = UTC_NAME


class Every(msgspec.Struct, frozen=True, tag="every"):
    """At a fixed interval."""

    ms: int


class At(msgspec.Struct, frozen=True, tag="at"):
    """Once."""

    at: int


Timing = Cron | Every | At


def due_after(timing: Timing, after: int, anchor: int) -> int | None:
    """The first due time later than ``after``; None if there is none.

    Intervals are counted from ``anchor``, which is no due time itself.
    """
    match timing:
        case Every():
            steps = max((after - anchor) // timing.ms + 1, 1)
            due = anchor + steps * timing.ms
        case At():
            due = timing.at if timing.at > after else LAST_MS + 1
        case Cron():
            due = next(_cron_times(timing, after), LAST_MS + 1)
    return due if due <= LAST_MS else None


def due_times(timing: Timing, after: int, anchor: int) -> Iterator[int]:
    """All due times later than ``after``, one by one."""
    if isinstance(timing, Cron):
        yield from _cron_times(timing, after)
        return
    due = due_after(timing, after, anchor)
    while due is not None:
        yield due
        due = due_after(timing, due, anchor)


def last_due(timing: Timing, first: int, until: int, anchor: int) -> int:
    """The last due time from ``first`` on, which is one itself, up to ``until``."""
    if isinstance(timing, Every):
        return max(first, anchor + (until - anchor) // timing.ms * timing.ms)
    # Not backwards: there is one rule about clocks that are set back, and it looks ahead.
    window = 2 * MINUTE_MS
    while True:
        start = max(first, until - window)
        found = first
        for due in due_times(timing, start, anchor):
            if due > until:
                break
            found = due
        if found > first or start == first:
            return found
        window *= 8


def count_due(timing: Timing, first: int, before: int, anchor: int) -> int:
    """How many due times there are from ``first`` on, which is one itself, before ``before``.

    ``MAX_COUNTED`` stands for that many or more, unless it is simple to know.
    """
    if first >= before:
        return 0
    if isinstance(timing, Every):
        return (before - 1 - first) // timing.ms + 1
    count = 1
    for due in islice(due_times(timing, first, anchor), MAX_COUNTED - 1):
        if due >= before:
            break
        count += 1
    return count


def check_cron(expression: object) -> str:
    """Return the five fields of a cron expression, else raise ``InvalidOption``."""
    if not isinstance(expression, str):
        raise _bad_cron(expression, "use text")
    words = expression.split()
    if len(words) == 1 and words[0].startswith("@"):
        known = WORDS.get(words[0].lower())
        if known is None:
            raise _bad_cron(expression, f"of such words there are {', '.join(sorted(WORDS))}")
        return known
    if len(words) == CRON_FIELDS + 1:
        raise _bad_cron(
            expression,
            "six fields are refused, since programs disagree on which one has the seconds",
        )
    if len(words) != CRON_FIELDS:
        raise _bad_cron(expression, f"it has {len(words)} fields")
    from cronsim import CronSimError

    fields = " ".join(words)
    try:
        made = _cron_sim(fields, datetime.fromtimestamp(0, zone_of(UTC_NAME)))
    except CronSimError as error:
        raise _bad_cron(expression, str(error).lower()) from error
    if next(made, None) is None:
        raise _bad_cron(expression, "no day fits it")
    return fields


def is_either_day(expression: str) -> bool:
    """Whether a cron expression names days of the month and of the week: either suffices."""
    _, _, day, _, weekday = expression.split()
    return not day.startswith("*") and not weekday.startswith("*")


def _bad_cron(expression: object, why: str) -> InvalidOption:
    return InvalidOption(
        f"cron is {shown(expression)}: {why}; use five fields (minute, hour, day of the month, month, "
        "day of the week) like '30 2 * * MON-FRI', or a word like '@daily'; for seconds use every=.",
        option="cron",
    )


def _cron_times(timing: Cron, after: int) -> Iterator[int]:
    zone = zone_of(timing.zone)
    for moment in _cron_sim(timing.expression, datetime.fromtimestamp(after / 1000, zone)):
        due = round(moment.timestamp() * 1000)
        # Where clocks were set back, it may begin with the first of two equal times.
        if due > after:
            after = due
            yield due


def _cron_sim(expression: str, start: datetime) -> CronSim:
    from cronsim import CronSim

    return CronSim(expression, start)
