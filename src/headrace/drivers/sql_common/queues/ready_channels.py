"""Places in line, and the turns of channels, in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.contract.op import Steps
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Many, NoReply, Row, Statements


def allocate_positions(sql: Statements, count: int) -> Steps[list[int]]:
    """New places in line, as many as ``count``, ascending."""
    found = yield sql.allocate_positions(count=count)
    last: int = found[-1]["turn"]
    if len(found) == count:
        return [row["turn"] for row in found]
    # The database returns only the last number of its counter.
    return list(range(last - count + 1, last + 1))


class ReadyChannels:
    """The channels that an operation puts items into, by queue and name.

    An operation that puts an item in line locks the channel before that, shared, until its
    transaction ends. An operation that removes an empty channel's turn does so only if no other
    has locked the channel, and checks again when it has locked it. Otherwise an item could be in
    line whose channel never has its turn.
    """

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._ids: dict[tuple[int, str], int] = {}
        self._wanted: dict[int, tuple[QueueRow, set[str]]] = {}
        self._unmarked: set[int] = set()
        # The version of the rules for queues that have just got their first channel.
        self.marked: dict[int, int] = {}
        self._updateable: set[str] = set()
        self.are_updateable = False

    def id_of(self, queue: QueueRow, name: str | None) -> int:
        """The id of a locked channel; 0 for no channel."""
        return 0 if name is None else self._ids[queue.id, name]

    def want(self, queue: QueueRow, name: str | None, *, updateable: bool = False) -> None:
        """Note a channel to lock; ``updateable`` if for an item that newer content may replace."""
        if name is None:
            return
        if updateable:
            self._updateable.add(name)
        if (queue.id, name) not in self._ids:
            self._wanted.setdefault(queue.id, (queue, set()))[1].add(name)

    def note(self, queue: QueueRow) -> None:
        """Note that an item is or was in a channel of the queue, if only within this operation."""
        if not queue.info.has_channels:
            self._unmarked.add(queue.id)

    def lock(self) -> Steps[None]:
        """Find or make the wanted channels, and lock them."""
        sql = self._sql
        for id in sorted(self._unmarked):
            # A change of rules at the same time would miss the queue.
            yield sql.lock_limits_shared()
            [row] = yield sql.mark_channels(queue=id)
            self.marked[id] = row["limit_version"]
        self._unmarked = set()
        for queue, wanted in self._wanted.values():
            names = sorted(wanted)
            rows = yield sql.lock_channels_shared(queue=queue.id, names=names)
            while len(rows) < len(names):
                # Again if another transaction has removed one that we had just found.
                _, rows = yield (
                    sql.add_channels(queue=queue.id, names=names, at=queue.now),
                    sql.lock_channels_shared(queue=queue.id, names=names),
                )
            self._ids |= {(queue.id, row["key_values"]): row["id"] for row in rows}
            self.are_updateable |= any(row["has_updateable"] for row in rows)
            unknown = [
                row["id"]
                for row in rows
                if row["key_values"] in self._updateable and not row["has_updateable"]
            ]
            if unknown:
                yield NoReply((sql.mark_updateable(channels=unknown),))
        self._wanted = {}

    def join(self, coming: Iterable[tuple[QueueRow, str | None]]) -> Steps[None]:
        """Give turns to locked channels that have items in line, in the given order."""
        queues = {self.id_of(queue, name): queue.id for queue, name in coming if name is not None}
        if not queues:
            return
        turns = yield from allocate_positions(self._sql, len(queues))
        rows = [
            {"channel": channel, "queue": queue, "turn": turn}
            for (channel, queue), turn in zip(queues.items(), turns, strict=True)
        ]
        yield NoReply((Many.of(self._sql.add_turns, rows),))

    def retire(self, left: Iterable[tuple[QueueRow, str]]) -> Steps[None]:
        """Remove the turns of channels that items have left and that are empty now."""
        names: dict[int, set[str]] = {}
        for queue, name in left:
            names.setdefault(queue.id, set()).add(name)
        for id, some in names.items():
            empty = yield self._sql.empty_channels(queue=id, names=sorted(some))
            yield from self._drop(empty)

    def retire_known(self, channels: Sequence[int]) -> Steps[None]:
        """The same for channels with known ids: finding them costs less."""
        empty = yield self._sql.emptied_channels(channels=channels)
        yield from self._drop(empty)

    def _drop(self, empty: Sequence[Row]) -> Steps[None]:
        if empty:
            # A statement of its own, so that it sees commits from before we had the lock.
            channels = [row["id"] for row in empty]
            yield NoReply((self._sql.drop_turns(channels=channels),))
