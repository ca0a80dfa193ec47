"""Numbers of Willow's JSON: times in nanoseconds, which are milliseconds here, and ids."""

from __future__ import annotations

from headrace.model.times import MAX_MS

NS_PER_MS = 1_000_000


def milliseconds(nanoseconds: int) -> int:
    """Nanoseconds as milliseconds; a part of one counts as one."""
    return min(-(-nanoseconds // NS_PER_MS), MAX_MS)


def read_number(text: str, most: int) -> int:
    """A number that is a part of an id: 1 to ``most``, or 0 if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return 0
    return int(text) if int(text) <= most else 0


def nanoseconds(milliseconds: int) -> int:
    """Milliseconds as nanoseconds."""
    return milliseconds * NS_PER_MS
