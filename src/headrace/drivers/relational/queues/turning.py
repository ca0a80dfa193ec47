"""Places in line, and the turns of channels, in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.contract.op import Steps
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Finally, Many, Row, Sql


def take_turns(sql: Sql, count: int) -> Steps[list[int]]:
    """As many new places in line, rising."""
    found = yield sql.take_turns(count=count)
    last: int = found[-1]["turn"]
    if len(found) == count:
        return [row["turn"] for row in found]
    # A counter that says only where it has come to.
    return list(range(last - count + 1, last + 1))


class Channels:
    """The channels that an operation puts items into, by queue and name.

    Whoever puts something in line holds the channel from before until the end of the
    transaction; whoever takes an empty one out of the turns does so only if nobody holds it,
    and looks once more when it is locked. Otherwise an item could be in line whose channel never
    has its turn.
    """

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._ids: dict[tuple[int, str], int] = {}
        self._wanted: dict[int, tuple[QueueRow, set[str]]] = {}
        self._unmarked: set[int] = set()
        # By which rules the items of queues count that have just got their first channel.
        self.marked: dict[int, int] = {}
        self._updateable: set[str] = set()
        self.are_updateable = False

    def id_of(self, queue: QueueRow, name: str | None) -> int:
        """The number of a channel that is held; 0 for none."""
        return 0 if name is None else self._ids[queue.id, name]

    def want(self, queue: QueueRow, name: str | None, *, updateable: bool = False) -> None:
        """A channel is to be held; perhaps for an item that gives its place to newer ones."""
        if name is None:
            return
        if updateable:
            self._updateable.add(name)
        if (queue.id, name) not in self._ids:
            self._wanted.setdefault(queue.id, (queue, set()))[1].add(name)

    def note(self, queue: QueueRow) -> None:
        """An item is or was in a channel of the queue, if only within this operation."""
        if not queue.info.has_channels:
            self._unmarked.add(queue.id)

    def hold(self) -> Steps[None]:
        """Find those that are wanted, or make them."""
        sql = self._sql
        for id in sorted(self._unmarked):
            # Rules that change meanwhile would miss the queue.
            yield sql.enter_limits()
            marked = yield sql.mark_channels(queue=id)
            if marked:
                self.marked[id] = marked[0]["limits"]
        self._unmarked = set()
        for queue, wanted in self._wanted.values():
            names = sorted(wanted)
            rows = yield sql.hold_channels(queue=queue.id, names=names)
            while len(rows) < len(names):
                # Again if somebody has removed one just when we found that it is there.
                _, rows = yield (
                    sql.add_channels(queue=queue.id, names=names, at=queue.now),
                    sql.hold_channels(queue=queue.id, names=names),
                )
            self._ids |= {(queue.id, row["key_values"]): row["id"] for row in rows}
            self.are_updateable |= any(row["has_updateable"] for row in rows)
            unknown = [
                row["id"]
                for row in rows
                if row["key_values"] in self._updateable and not row["has_updateable"]
            ]
            if unknown:
                yield Finally((sql.mark_updateable(channels=unknown),))
        self._wanted = {}

    def join(self, coming: Iterable[tuple[QueueRow, str | None]]) -> Steps[None]:
        """Let channels that are held, and have something in line, take turns in that order."""
        queues = {self.id_of(queue, name): queue.id for queue, name in coming if name is not None}
        if not queues:
            return
        turns = yield from take_turns(self._sql, len(queues))
        rows = [
            {"channel": channel, "queue": queue, "turn": turn}
            for (channel, queue), turn in zip(queues.items(), turns, strict=True)
        ]
        yield Finally((Many.of(self._sql.add_turns, rows),))

    def retire(self, left: Iterable[tuple[QueueRow, str]]) -> Steps[None]:
        """Take channels that something has left, and that are empty now, out of the turns."""
        names: dict[int, set[str]] = {}
        for queue, name in left:
            names.setdefault(queue.id, set()).add(name)
        for id, some in names.items():
            empty = yield self._sql.empty_channels(queue=id, names=sorted(some))
            yield from self._drop(empty)

    def retire_known(self, channels: Sequence[int]) -> Steps[None]:
        """The same for channels whose numbers are known: they are found with less."""
        empty = yield self._sql.emptied_channels(channels=channels)
        yield from self._drop(empty)

    def _drop(self, empty: Sequence[Row]) -> Steps[None]:
        if empty:
            # A statement of its own: what was committed before we had the lock is seen now.
            channels = [row["id"] for row in empty]
            yield Finally((self._sql.drop_turns(channels=channels),))
