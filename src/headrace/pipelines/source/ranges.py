"""Ranges of topics, and how they are divided among tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

# Fewer records than this are not worth a separate task.
MIN_PARTITION_RECORDS = 50_000
# With more than this a lost task costs too much, even on few cores.
MAX_PARTITION_RECORDS = 2_000_000


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
    """Divide ranges into about ``partitions`` parts of similar size; None chooses the number.

    Empty ranges are dropped; the others get at least one part each, and keep their order.
    """
    ranges = [part for part in ranges if part.count > 0]
    total = sum(part.count for part in ranges)
    count = partitions or _default_partitions(total)
    return [
        partition
        for part in ranges
        for partition in _cut(part, max(1, round(count * part.count / total)))
    ]


def _default_partitions(total: int) -> int:
    cores = os.cpu_count() or 1
    return max(1, min(total // MIN_PARTITION_RECORDS, max(cores, total // MAX_PARTITION_RECORDS)))


def _cut(part: SeqRange, count: int) -> list[SeqRange]:
    count = min(count, part.count)
    cuts = [part.first + part.count * number // count for number in range(count + 1)]
    return [SeqRange(part.topic, low, high - 1) for low, high in pairwise(cuts)]


def share(pending: Mapping[str, int], limit: int) -> dict[str, int]:
    """Allow each topic some of ``most`` records: equal parts, and what one leaves to the others."""
    shares: dict[str, int] = {}
    left = limit
    for number, topic in enumerate(sorted(pending, key=lambda name: pending[name])):
        # At least one each: a topic must not wait for ever behind busier ones.
        fair = max(1, left // (len(pending) - number))
        shares[topic] = min(pending[topic], fair)
        left = max(0, left - shares[topic])
    return shares
