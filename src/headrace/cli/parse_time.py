"""Times as people write them: a delay, or a moment."""

from __future__ import annotations

from headrace.cli.parse_position import parse_position
from headrace.errors import InvalidOption


def parse_delay(text: str | None) -> float | str | None:
    """A delay in seconds, or the text for the library to parse, such as 5m."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def parse_moment(option: str, text: str | None) -> int | None:
    """A moment in milliseconds since 1970, from such a number or a time with its zone."""
    if text is None:
        return None
    position = parse_position(text)
    if not (position.isascii() and position.isdecimal()):
        raise InvalidOption(
            f"{option} is {text!r}: write a time like 2026-11-01T10:00Z, or milliseconds since "
            "1970.",
            option=option,
        )
    return int(position)
