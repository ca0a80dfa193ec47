"""Times as people write them: a wait, or a moment."""

from __future__ import annotations

from headrace.cli.positions import position
from headrace.errors import InvalidOption


def wait(text: str | None) -> float | str | None:
    """A wait: words like 5m, which the library knows, or a number of seconds."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def moment(option: str, text: str | None) -> int | None:
    """A moment in milliseconds since 1970: such a number, or a time with its zone."""
    if text is None:
        return None
    found = position(text)
    if not (found.isascii() and found.isdecimal()):
        raise InvalidOption(
            f"{option} is {text!r}: write a time like 2026-11-01T10:00Z, or milliseconds since "
            "1970.",
            option=option,
        )
    return int(found)
