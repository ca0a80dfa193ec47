"""Admission in SQL: the items that limits allow one claim to claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.contract.op import Steps
from headrace.drivers.sql_common.limits.locked_counters import LockedCounters
from headrace.drivers.sql_common.limits.parked_channels import ParkingLane
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import RequireFlush, Row, Statements
from headrace.model.limits.limit_set import ChannelLimits, FreeSlots, LimitSet


class Admission:
    """Counts the items of a claim, while it has locked the counters that they add to.

    A channel is opened before any of its items is claimed. A channel is skipped if another
    transaction has locked its counters while this one has locked others: see ``LockedCounters``.
    The claim is flushed if its worker ``may_outlive`` a crash of the database, or if a rate counts
    it.
    """

    def __init__(
        self,
        sql: Statements,
        queue: QueueRow,
        limits: LimitSet,
        *,
        has_locked: bool = False,
        may_outlive: bool = True,
        has_parking_lanes: bool = False,
    ) -> None:
        # Whether the queue has parked channels: see ``ParkedChannels``.
        self.has_parking_lanes = has_parking_lanes
        self._queue = queue
        self._limits = limits
        self._may_outlive = may_outlive
        self._counters = LockedCounters(sql, queue.now, has_locked=has_locked)
        self._slots = FreeSlots()

    def _bounds(self, channel: str | None) -> ChannelLimits:
        return self._limits.bounds(self._queue.name, channel, "running")

    def open(self, channels: Iterable[str | None]) -> Steps[set[str | None]]:
        """Lock the counters of channels; returns the channels that have capacity."""
        asked = {channel: self._bounds(channel) for channel in channels}
        wanted = {counter for bounds in asked.values() for counter in bounds.counters}
        self._slots.add_counters((yield from self._counters.lock(wanted)))
        return {
            channel
            for channel, bounds in asked.items()
            if self._counters.has(bounds.counters) and self._slots.available(bounds)
        }

    def fits(self, channel: str | None) -> int:
        """How many more items of an open channel may be claimed."""
        return self._slots.available(self._bounds(channel))

    def parking_lane_of(self, channel: str | None) -> ParkingLane | None:
        """The counter that a channel without capacity waits for; None if it waits for a rate."""
        for check in self._bounds(channel).checked:
            if check.limit == 0:
                return ParkingLane(0, 0)
            if check.counter.period_ms is None and self._slots.used[check.counter] >= check.limit:
                id = self._counters.id_of(check.counter)
                return None if id is None else ParkingLane(id, check.limit)
        return None

    def has_free_slots(self, lane: ParkingLane) -> bool:
        """Whether a counter is below its limit, or not known."""
        counter = self._counters.counter_of(lane.counter)
        return counter is None or self._slots.used[counter] < lane.max_used

    def start_again(self) -> None:
        """Forget what was counted: the claim starts again."""
        self._slots.release()

    def acquire(self, channel: str | None, count: int) -> None:
        """Count items of a channel as claimed, or (a negative number) as not claimed after all."""
        self._slots.acquire(self._bounds(channel), count)

    def admit(self, rows: Sequence[Any], count: int) -> list[Any]:
        """The items that there is capacity for, in their order; they are counted as claimed."""
        some = rows[:count]
        counts = Counter(row["key_values"] for row in some)
        if self._slots.acquire_all([(self._bounds(name), count) for name, count in counts.items()]):
            return list(some)
        found: list[Any] = []
        for row in rows:
            if len(found) == count:
                break
            if self.fits(row["key_values"]):
                self.acquire(row["key_values"], 1)
                found.append(row)
        return found

    def close(self, *, is_short: bool) -> Steps[int | None]:
        """Write the counts; returns when a rate that held items back has capacity again."""
        if any(
            count and (self._may_outlive or counter.period_ms is not None)
            for counter, count in self._slots.acquired.items()
        ):
            # A crash could release a slot while its worker still runs: it would be used twice.
            yield RequireFlush()
        yield from self._counters.add(self._slots.acquired)
        if not is_short:
            return None
        yield from self._counters.wait_for(self._queue, self._slots.full)
        return self._counters.free_at(self._slots.full.values())


def channels_of(rows: Iterable[Row]) -> set[str | None]:
    """The channels of some items."""
    return {row["key_values"] for row in rows}
