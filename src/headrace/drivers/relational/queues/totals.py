"""How an operation on queues in SQL changes the totals of limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.buckets import change_totals
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Sql
from headrace.model.limiting import Bucket, Limits
from headrace.model.limits import Subject


class Totals:
    """What an operation adds to totals and gives back, by channel, until it is written."""

    def __init__(self, sql: Sql, limits_of: Callable[[QueueRow], Steps[Limits]] | None) -> None:
        self._sql = sql
        self._limits_of = limits_of
        self._shifts: dict[tuple[QueueRow, Subject], Counter[str | None]] = {}

    def shift(
        self, queue: QueueRow, channel: str | None, *, running: int = 0, enqueued: int = 0
    ) -> None:
        """So many more items of a channel (or of none) are out, and live."""
        if queue.limits:
            self._shift(queue, "running")[channel] += running
            self._shift(queue, "enqueued")[channel] += enqueued

    def _shift(self, queue: QueueRow, on: Subject) -> Counter[str | None]:
        return self._shifts.setdefault((queue, on), Counter())

    def write(self) -> Steps[set[str]]:
        """Change the totals; the topics of queues in which somebody waits for what is free now."""
        changes: Counter[Bucket] = Counter()
        for (queue, on), shifts in self._shifts.items():
            assert self._limits_of is not None
            limits = yield from self._limits_of(queue)
            for channel, number in shifts.items():
                for bucket in limits.bounds(queue.name, channel, on).counted if number else ():
                    if bucket.period_ms is None:
                        changes[bucket] += number
        self._shifts = {}
        woken = yield from change_totals(self._sql, changes)
        return {f"queue/{name}" for name in woken}
