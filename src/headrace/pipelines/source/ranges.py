"""Stretches of topics, and how they are shared out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

# Fewer records than this are not worth a task of their own.
SMALLEST = 50_000
# With more than this a lost task costs too much, however few the cores are.
LARGEST = 2_000_000


@dataclass(frozen=True)
class SeqRange:
    """The records ``first`` to ``last`` of a topic."""

    topic: str
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def split(ranges: Iterable[SeqRange], partitions: int | None) -> list[SeqRange]:
    """Cut ranges into parts of about the same size: so many, or as many as seem right.

    Empty ranges go; the others keep at least one part each, and their order.
    """
    ranges = [part for part in ranges if part.count > 0]
    total = sum(part.count for part in ranges)
    wanted = partitions or _reasonable(total)
    return [
        piece
        for part in ranges
        for piece in _pieces(part, max(1, round(wanted * part.count / total)))
    ]


def _reasonable(total: int) -> int:
    cores = os.cpu_count() or 1
    return max(1, min(total // SMALLEST, max(cores, total // LARGEST)))


def _pieces(part: SeqRange, wanted: int) -> list[SeqRange]:
    wanted = min(wanted, part.count)
    cuts = [part.first + part.count * number // wanted for number in range(wanted + 1)]
    return [SeqRange(part.topic, low, high - 1) for low, high in pairwise(cuts)]


def share(waiting: Mapping[str, int], most: int) -> dict[str, int]:
    """Allow each topic some of ``most`` records: equal parts, and what one leaves to the others."""
    shares: dict[str, int] = {}
    left = most
    for number, topic in enumerate(sorted(waiting, key=lambda name: waiting[name])):
        # At least one each: a topic must not wait for ever behind busier ones.
        fair = max(1, left // (len(waiting) - number))
        shares[topic] = min(waiting[topic], fair)
        left = max(0, left - shares[topic])
    return shares
