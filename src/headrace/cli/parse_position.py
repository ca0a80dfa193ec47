"""Positions in a topic as people write them: the library's forms, and times of day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.errors import InvalidPosition

# Matches 2026-11-01 and longer; an id has one dash and a longer number before it.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_position(text: str) -> str:
    """The position; a time like 2026-11-01T10:00Z becomes a timestamp."""
    if not _DATE.match(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidPosition(
            f"{text!r} is not a time: write one like 2026-11-01T10:00Z.", parse_position=text
        ) from error
    if when.tzinfo is None:
        raise InvalidPosition(
            f"{text!r} has no time zone: write 2026-11-01T10:00Z for UTC, or "
            "2026-11-01T10:00+01:00.",
            parse_position=text,
        )
    if when < _EPOCH:
        raise InvalidPosition(f"{text!r} lies before 1970.", parse_position=text)
    return str((when - _EPOCH) // timedelta(milliseconds=1))
