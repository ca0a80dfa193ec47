"""How an operation on queues in SQL changes the totals of limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.buckets import change_totals
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Sql
from headrace.model.limiting import Bucket, Limits
from headrace.model.limits import Subject


class Shifts(NamedTuple):
    """How many more items of a queue are out, and live, by channel."""

    queue: QueueRow
    running: Counter[str | None]
    enqueued: Counter[str | None]

    @property
    def by_subject(self) -> tuple[tuple[Subject, Counter[str | None]], ...]:
        return ("running", self.running), ("enqueued", self.enqueued)


class Totals:
    """What an operation adds to totals and gives back, by channel, until it is written."""

    def __init__(self, sql: Sql, limits_of: Callable[[QueueRow], Steps[Limits]] | None) -> None:
        self._sql = sql
        self._limits_of = limits_of
        # By queue and the version of its rules.
        self._shifts: dict[tuple[int, int], Shifts] = {}

    def shift(
        self, queue: QueueRow, channel: str | None, *, running: int = 0, enqueued: int = 0
    ) -> None:
        """So many more items of a channel (or of none) are out, and live."""
        if queue.limits:
            shifts = self._shifts.get((queue.id, queue.limits))
            if shifts is None:
                shifts = self._shifts[queue.id, queue.limits] = Shifts(queue, Counter(), Counter())
            shifts.running[channel] += running
            shifts.enqueued[channel] += enqueued

    def write(self) -> Steps[set[str]]:
        """Change the totals; the topics of queues in which somebody waits for what is free now."""
        changes: Counter[Bucket] = Counter()
        for shifts in self._shifts.values():
            assert self._limits_of is not None
            queue = shifts.queue
            limits = yield from self._limits_of(queue)
            for on, numbers in shifts.by_subject:
                for channel, number in numbers.items() if limits.has(queue.name, on) else ():
                    for bucket in limits.bounds(queue.name, channel, on).counted if number else ():
                        if bucket.period_ms is None:
                            changes[bucket] += number
        self._shifts = {}
        woken = yield from change_totals(self._sql, changes)
        return {f"queue/{name}" for name in woken}
