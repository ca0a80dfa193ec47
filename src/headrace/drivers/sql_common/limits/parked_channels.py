"""Parked channels: channels that wait for free slots, out of the way of claims.

A claim scans channels in the order of their turns. If many channels waited there for a full counter,
every claim would scan them all. So a claim that meets many of them *parks* them: it moves them to a
*parking lane*, a lane with a number below zero, one for each pair of counter and limit. Later claims
scan a parking lane only while it is open: while its counter is below that limit.

A transaction that releases slots has nothing to do here: each claim reads from the counter whether
a parking lane is open. A channel leaves it when its turn comes. A change of rules empties all of
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Many, NoReply, Row, Statement, Statements
from headrace.model.queues.channels import selects

# Fewer channels behind the same counter are not parked. A parking lane that has fewer than half as
# many left, which the first page of a scan shows, is removed.
MIN_CHANNELS = 100


class ParkingLane(NamedTuple):
    """What its channels wait for: a counter (0 if their limit admits nothing) below its limit."""

    counter: int
    max_used: int


class ParkedChannels:
    """The parked channels of a queue that one claim scans, and those that it parks."""

    def __init__(
        self, sql: Statements, queue: QueueRow, select: str, *, has_parking_lanes: bool
    ) -> None:
        self._sql = sql
        self._queue = queue
        self._select = select
        self._has_parking_lanes = has_parking_lanes
        self._is_begun = False
        # What each open parking lane waits for, by its number, and the ids of those no longer needed.
        self._open: dict[int, ParkingLane] = {}
        self._over: list[int] = []
        # The lane of each parked channel that was met, and the channels that leave in any case.
        self._met: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._blocked: dict[int, ParkingLane] = {}

    def lanes(self) -> Steps[list[int]]:
        """The numbers of the open parking lanes."""
        if self._has_parking_lanes:
            found = yield self._sql.open_parking_lanes(queue=self._queue.id)
            self._open = {-row["id"]: ParkingLane(row["counter"], row["max_used"]) for row in found}
        return list(self._open)

    def still_open(
        self, lanes: Sequence[int], has_free_slots: Callable[[ParkingLane], bool]
    ) -> Sequence[int]:
        """``lanes`` without those whose counter this claim has filled."""
        if not self._open:
            return lanes
        return [lane for lane in lanes if lane >= 0 or has_free_slots(self._open[lane])]

    def start_again(self) -> None:
        """Forget which channels to park: the claim starts again."""
        self._blocked = {}

    def strays(
        self, rows: Sequence[Row], lanes: Sequence[int], pages: Sequence[Sequence[Row]]
    ) -> Collection[int]:
        """Which channels are parked ones that the claim does not select."""
        parking = [(lane, page) for lane, page in zip(lanes, pages, strict=True) if lane < 0]
        if not self._is_begun:
            # Few or no channels are left in these: they need no longer be parked.
            short = [(lane, page) for lane, page in parking if len(page) < MIN_CHANNELS // 2]
            self._leaving |= {row["channel"] for _, page in short for row in page}
            self._over = [-lane for lane, _ in short]
            self._is_begun = True
        parked = {row["channel"]: lane for lane, page in parking for row in page}
        self._met |= parked
        found = {
            row["channel"]
            for row in rows
            if row["channel"] in parked and not selects(self._select, row["key_values"])
        }
        # They have capacity again: claims that select them find them among the others.
        self._leaving |= found
        return found

    def note(self, channel: int, lane: ParkingLane | None) -> None:
        """Note that a channel has no capacity, and for which counter it waits."""
        if lane is not None and self._open.get(self._met.get(channel, 0)) != lane:
            self._blocked[channel] = lane

    def write(self, served: Iterable[int], *, is_short: bool) -> Steps[None]:
        """Park channels without capacity, and return others to the turns.

        The claim's items are counted by then.
        """
        sql, queue = self._sql, self._queue.id
        sizes = Counter(self._blocked.values())
        lanes = {lane for lane, size in sizes.items() if size >= MIN_CHANNELS}
        leaving = self._leaving | {channel for channel in served if channel in self._met}
        statements: list[Statement | Many] = []
        if leaving:
            statements.append(sql.unpark_channels(channels=sorted(leaving)))
        if self._over:
            statements.append(sql.drop_parking_lanes(ids=self._over))
        if lanes:
            rows = [
                {"channel": channel, "queue": queue, **lane._asdict()}
                for channel, lane in self._blocked.items()
                if lane in lanes
            ]
            new = [{"queue": queue, **lane._asdict()} for lane in sorted(lanes)]
            statements += [Many.of(sql.add_parking_lanes, new), Many.of(sql.park_channels, rows)]
        if is_short and self._has_parking_lanes:
            # The claim did not scan channels behind full counters, but has to wait for them, too.
            statements += [
                sql.register_parked_waiter(queue=queue),
                sql.await_parked_counters(queue=queue),
            ]
        if statements:
            yield NoReply(tuple(statements))
