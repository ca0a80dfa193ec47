"""Rates: how many items were claimed within the last period.

A period is divided into a hundred buckets, each with a count. A bucket counts until its last
moment is a period ago. So a rate is never exceeded, and an item waits at most a hundredth of the
period longer than necessary.
"""

from __future__ import annotations

from collections.abc import Iterable

BUCKETS = 100

Marks = tuple[tuple[int, int], ...]
"""The number of each bucket and its count, the oldest first."""


def read_marks(text: str | None) -> Marks:
    """Marks from the text of ``text_of``."""
    pairs = (pair.split(":") for pair in text.split()) if text else ()
    return tuple((int(bucket), int(count)) for bucket, count in pairs)


def text_of(marks: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{bucket}:{count}" for bucket, count in marks)


def current(marks: Marks, period_ms: int, now: int) -> Marks:
    """The marks that still count."""
    return tuple(mark for mark in marks if _end_of(mark[0], period_ms) > now)


def total(marks: Marks) -> int:
    return sum(count for _, count in marks)


def added(marks: Marks, period_ms: int, now: int, count: int) -> Marks:
    """The marks after ``count`` more claims now."""
    bucket = now // _width(period_ms)
    counts = dict(marks)
    counts[bucket] = counts.get(bucket, 0) + count
    return tuple(sorted(counts.items()))


def free_at(marks: Marks, period_ms: int, limit: int, wanted: int = 1) -> int | None:
    """When there are ``wanted`` free slots; None if the limit is lower than that."""
    left = total(marks)
    for bucket, count in marks:
        left -= count
        if left + wanted <= limit:
            return _end_of(bucket, period_ms)
    return None


def idle_at(marks: Marks, period_ms: int) -> int:
    """When the last mark stops counting; there must be one."""
    return _end_of(marks[-1][0], period_ms)


def _width(period_ms: int) -> int:
    return -(-period_ms // BUCKETS)


def _end_of(bucket: int, period_ms: int) -> int:
    return (bucket + 1) * _width(period_ms) + period_ms
