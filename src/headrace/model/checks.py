"""Numbers and times as people give them."""

from __future__ import annotations

from datetime import timedelta

from headrace.errors import InvalidOption


def milliseconds(option: str, value: timedelta | float | None) -> int | None:
    """A positive time (a timedelta, or seconds) in milliseconds; None stays None."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0.001 <= seconds <= 10**9:
        raise InvalidOption(
            f"{option} is {value!r}: use a timedelta or seconds above zero, or None for never.",
            option=option,
        )
    return round(seconds * 1000)


def positive(option: str, value: object) -> int:
    """A whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOption(f"{option} is {value!r}: use a whole number from 1 on.", option=option)
    return value


def seconds(option: str, value: object) -> float:
    """A number of seconds, zero included."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise InvalidOption(f"{option} is {value!r}: use seconds from 0 on.", option=option)
    return float(value)


def seconds_of(milliseconds: int | None) -> float | None:
    """Milliseconds as seconds; None stays None."""
    return None if milliseconds is None else milliseconds / 1000
