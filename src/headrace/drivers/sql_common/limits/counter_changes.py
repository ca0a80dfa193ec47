"""How an operation on queues in SQL changes the counters of limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.sql_common.limits.locked_counters import change_limit_counters
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Statements
from headrace.model.limits.limit_set import CounterKey, LimitSet
from headrace.model.limits.rules import Subject


class QueueShifts(NamedTuple):
    """How many more items of a queue are in flight, and live, by channel."""

    queue: QueueRow
    running: Counter[str | None]
    enqueued: Counter[str | None]

    @property
    def by_subject(self) -> tuple[tuple[Subject, Counter[str | None]], ...]:
        return ("running", self.running), ("enqueued", self.enqueued)


class LimitCounterChanges:
    """What an operation adds to counters and subtracts, by channel, until it is written."""

    def __init__(
        self, sql: Statements, limits_of: Callable[[QueueRow], Steps[LimitSet]] | None
    ) -> None:
        self._sql = sql
        self._limits_of = limits_of
        # By queue and the version of its rules.
        self._shifts: dict[tuple[int, int], QueueShifts] = {}
        # The values of the counters that were written.
        self.used: dict[CounterKey, int] = {}

    def shift(
        self, queue: QueueRow, channel: str | None, *, running: int = 0, enqueued: int = 0
    ) -> None:
        """Note how many more items of a channel (or of none) are in flight, and live."""
        if queue.limit_version:
            shifts = self._shifts.get((queue.id, queue.limit_version))
            if shifts is None:
                shifts = self._shifts[queue.id, queue.limit_version] = QueueShifts(
                    queue, Counter(), Counter()
                )
            shifts.running[channel] += running
            shifts.enqueued[channel] += enqueued

    def write(self) -> Steps[set[str]]:
        """Change the counters; returns the topics of queues that wait for slots freed by this."""
        changes: Counter[CounterKey] = Counter()
        for shifts in self._shifts.values():
            assert self._limits_of is not None
            queue = shifts.queue
            limits = yield from self._limits_of(queue)
            for on, numbers in shifts.by_subject:
                for channel, number in numbers.items() if limits.has(queue.name, on) else ():
                    for counter in limits.bounds(queue.name, channel, on).counted if number else ():
                        if counter.period_ms is None:
                            changes[counter] += number
        self._shifts = {}
        changed = yield from change_limit_counters(self._sql, changes)
        self.used |= changed.used
        return {f"queue/{name}" for name in changed.waiting_queues}
