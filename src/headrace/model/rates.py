"""Rates: how much happened within the last so many milliseconds.

A period is divided into a hundred slots, and what happened is counted by slot. A slot counts
until the last moment of it is a period ago: so a rate is never exceeded, and what could run
again waits a hundredth of the period longer at the most.
"""

from __future__ import annotations

from collections.abc import Iterable

SLOTS = 100

Marks = tuple[tuple[int, int], ...]
"""Slots and how much happened in each, the oldest first."""


def read_marks(text: str | None) -> Marks:
    """Marks from what ``text_of`` made of them."""
    pairs = (pair.split(":") for pair in text.split()) if text else ()
    return tuple((int(slot), int(count)) for slot, count in pairs)


def text_of(marks: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{slot}:{count}" for slot, count in marks)


def standing(marks: Marks, period_ms: int, now: int) -> Marks:
    """Those that still count."""
    return tuple(mark for mark in marks if _end_of(mark[0], period_ms) > now)


def total(marks: Marks) -> int:
    return sum(count for _, count in marks)


def with_more(marks: Marks, period_ms: int, now: int, count: int) -> Marks:
    """So many more happened now."""
    slot = now // _width(period_ms)
    counts = dict(marks)
    counts[slot] = counts.get(slot, 0) + count
    return tuple(sorted(counts.items()))


def room_at(marks: Marks, period_ms: int, limit: int, wanted: int = 1) -> int | None:
    """When there is room for so many more, if time brings it."""
    left = total(marks)
    for slot, count in marks:
        left -= count
        if left + wanted <= limit:
            return _end_of(slot, period_ms)
    return None


def idle_at(marks: Marks, period_ms: int) -> int:
    """When none of them counts any more; there must be some."""
    return _end_of(marks[-1][0], period_ms)


def _width(period_ms: int) -> int:
    return -(-period_ms // SLOTS)


def _end_of(slot: int, period_ms: int) -> int:
    return (slot + 1) * _width(period_ms) + period_ms
