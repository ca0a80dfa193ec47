"""What limits let through, for one claim in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.buckets import Buckets
from headrace.drivers.relational.queues.filing import File
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Insist, Row, Sql
from headrace.model.limiting import Bounds, Limits, Room


class Admission:
    """Counts what a claim takes, under the locks of the totals that it counts in.

    Channels are asked about before anything of them is taken. Those whose totals somebody else
    has locked, while we hold others, are passed over: see ``Buckets``. What was taken waits for
    the disk if who has it ``may_outlive`` a crash of the database, or a rate counts it.
    """

    def __init__(
        self,
        sql: Sql,
        queue: QueueRow,
        limits: Limits,
        *,
        holds_some: bool = False,
        may_outlive: bool = True,
        has_files: bool = False,
    ) -> None:
        # Whether the queue has channels in files: see ``Filing``.
        self.has_files = has_files
        self._queue = queue
        self._limits = limits
        self._may_outlive = may_outlive
        self._buckets = Buckets(sql, queue.now, holds_some=holds_some)
        self._room = Room()

    def _bounds(self, channel: str | None) -> Bounds:
        return self._limits.bounds(self._queue.name, channel, "running")

    def open(self, channels: Iterable[str | None]) -> Steps[set[str | None]]:
        """Lock the totals of channels; those that have room."""
        asked = {channel: self._bounds(channel) for channel in channels}
        wanted = {bucket for bounds in asked.values() for bucket in bounds.buckets}
        self._room.know((yield from self._buckets.lock(wanted)))
        return {
            channel
            for channel, bounds in asked.items()
            if self._buckets.has(bounds.buckets) and self._room.fits(bounds)
        }

    def fits(self, channel: str | None) -> int:
        """How many more items of an open channel."""
        return self._room.fits(self._bounds(channel))

    def file_of(self, channel: str | None) -> File | None:
        """What a channel without room waits for, unless time brings it."""
        for bound in self._bounds(channel).checked:
            if bound.limit == 0:
                return File(0, 0)
            if bound.bucket.period_ms is None and self._room.used[bound.bucket] >= bound.limit:
                id = self._buckets.id_of(bound.bucket)
                return None if id is None else File(id, bound.limit)
        return None

    def has_room(self, file: File) -> bool:
        """Whether a total, as far as it is known, is below a limit."""
        bucket = self._buckets.bucket_of(file.bucket)
        return bucket is None or self._room.used[bucket] < file.most

    def start_again(self) -> None:
        """Nothing was taken after all."""
        self._room.give_back()

    def take(self, channel: str | None, count: int) -> None:
        """So many go out, or (a negative number) do not after all."""
        self._room.take(self._bounds(channel), count)

    def shared_out(self, rows: Sequence[Any], most: int) -> list[Any]:
        """Those of some items, in their order, that there is room for; they are taken."""
        some = rows[:most]
        counts = Counter(row["key_values"] for row in some)
        if self._room.take_all([(self._bounds(name), count) for name, count in counts.items()]):
            return list(some)
        found: list[Any] = []
        for row in rows:
            if len(found) == most:
                break
            if self.fits(row["key_values"]):
                self.take(row["key_values"], 1)
                found.append(row)
        return found

    def close(self, *, is_short: bool) -> Steps[int | None]:
        """Write what was taken; when time brings room to what was held back."""
        if any(
            count and (self._may_outlive or bucket.period_ms is not None)
            for bucket, count in self._room.taken.items()
        ):
            # A slot that a crash gives back while somebody runs would be given twice.
            yield Insist()
        yield from self._buckets.add(self._room.taken)
        if not is_short:
            return None
        yield from self._buckets.wait_for(self._queue, self._room.full)
        return self._buckets.room_at(self._room.full.values())


def channels_of(rows: Iterable[Row]) -> set[str | None]:
    """The channels of some items."""
    return {row["key_values"] for row in rows}
