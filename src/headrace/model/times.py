"""Moments and durations as users write them, in milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.errors import InvalidOption
from headrace.model.fields import shown

Moment = datetime | int | str
"""An aware datetime, milliseconds since 1970, or ISO text with an offset."""

Duration = timedelta | float | str
"""A timedelta, seconds, or words: ``"5m"``, ``"+1s"``, ``"2 days"``, ``"1h 30m"``. A year has 365
days."""

MAX_MS = 10**12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = -62_135_596_800_000
_LAST_MS = 253_402_300_799_999

_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "w": 604_800_000,
    "week": 604_800_000,
    "y": 31_536_000_000,
    "yr": 31_536_000_000,
    "year": 31_536_000_000,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*")
_WORDS = re.compile(rf"[+-]?\s*(?:{_PART.pattern})+")


def moment_ms(option: str, value: Moment) -> int:
    """When, in milliseconds since 1970."""
    at: datetime | int | None = None
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
    elif isinstance(value, (datetime, int)) and not isinstance(value, bool):
        at = value
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidOption(
                f"{option} is {shown(value)}, which has no time zone: give it one, "
                "as in datetime.now(UTC).",
                option=option,
            )
        at = (at - _EPOCH) // timedelta(milliseconds=1)
    if at is None or not _FIRST_MS <= at <= _LAST_MS:
        raise InvalidOption(
            f"{option} is {shown(value)}: use an aware datetime, milliseconds since 1970, or ISO text "
            "like '2030-01-31T12:00:00Z'.",
            option=option,
        )
    return at


def duration_ms(option: str, value: Duration, *, least: int = 0) -> int:
    """How long, in milliseconds: ``least`` or more."""
    ms = _in_ms(value)
    if ms is None or not least <= ms <= MAX_MS:
        bound = "above zero" if least else "from zero on"
        raise InvalidOption(
            f"{option} is {shown(value)}: use a timedelta, seconds, or words like '5m' or '2 days', "
            f"{bound}.",
            option=option,
        )
    return ms


def optional_ms(option: str, value: Duration | None) -> int | None:
    """How long, in milliseconds above zero; None stays None."""
    return None if value is None else duration_ms(option, value, least=1)


def delay_ms(option: str, value: Duration) -> int:
    """How long until something is due, in milliseconds.

    Words may point to the past, as FetchQ's ``"-1y"`` does: that is due now.
    """
    if isinstance(value, str) and value.lstrip().startswith("-") and is_duration(value):
        return 0
    return duration_ms(option, value)


def is_duration(value: object) -> bool:
    """Whether a text is a duration rather than a moment."""
    return isinstance(value, str) and _in_words(value) is not None


def moment_of(ms: int) -> datetime:
    """Milliseconds since 1970 as an aware datetime."""
    # By position: with names it takes four times as long, and answers have many of them.
    return _EPOCH + timedelta(0, 0, 0, ms)


def _in_ms(value: object) -> int | None:
    if isinstance(value, str):
        return _in_words(value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Written this way round, the comparison is false for NaN.
        return round(value * 1000) if abs(value) <= MAX_MS else None
    return None


def _in_words(text: str) -> int | None:
    plain = text.strip().lower()
    if not _WORDS.fullmatch(plain):
        return None
    total = 0.0
    for number, unit in _PART.findall(plain):
        size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if size is None:
            return None
        total += float(number) * size
    ms = round(min(total, MAX_MS + 1))
    return -ms if plain.startswith("-") else ms
