"""Positions as people write them: all that the library knows, and times of day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.errors import InvalidPosition

# 2026-11-01 and more; an id has one dash and a longer number before it.
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def position(text: str) -> str:
    """The position, with a time like 2026-11-01T10:00Z turned into a timestamp."""
    if not _DATE.match(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidPosition(
            f"{text!r} is not a time: write one like 2026-11-01T10:00Z.", position=text
        ) from error
    if when.tzinfo is None:
        raise InvalidPosition(
            f"{text!r} has no time zone: write 2026-11-01T10:00Z for UTC, or "
            "2026-11-01T10:00+01:00.",
            position=text,
        )
    if when < _EPOCH:
        raise InvalidPosition(f"{text!r} lies before 1970.", position=text)
    return str((when - _EPOCH) // timedelta(milliseconds=1))
