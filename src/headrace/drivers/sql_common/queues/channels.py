"""Channels in SQL: listing, delaying and deleting them."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import ChannelRow, Deleted
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of
from headrace.drivers.sql_common.statements import Many, NoReply, Notify
from headrace.model.queues.channels import selects
from headrace.model.queues.items import State

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

PAGE = 1000


class SqlChannels:
    """The part ``store.channels`` over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock
        selections = context.selections
        self.register_selection = selections.register_selection
        self.forget_selection = selections.forget_selection
        self.selections = selections.selections

    def list(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[builtins.list[ChannelRow]]:
        def steps() -> Steps[list[ChannelRow]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield from self._selected_channels(row, select, after, limit)
            fields = ChannelRow.__struct_fields__
            return [ChannelRow(**{field: row[field] for field in fields}) for row in found]

        return Op("channels.list", steps, writes=False)

    def _selected_channels(
        self, queue: QueueRow, select: str | None, after: str, limit: int
    ) -> Steps[builtins.list[Any]]:
        """The selected channels, by name."""
        found: list[Any] = []
        most = limit if select is None else PAGE
        while len(found) < limit:
            page = yield self.sql.list_channels(
                queue=queue.id, after=after, limit=most, now=queue.now
            )
            found += [row for row in page if select is None or selects(select, row["key_values"])]
            if len(page) < most:
                break
            after = page[-1]["key_values"]
        return found[:limit]

    def delete(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        def steps() -> Steps[Deleted]:
            row = yield from self._context.storage.open_queue(queue)
            found = yield from self._selected_channels(row, select, "", limit)
            if not found:
                return Deleted(0, 0)
            return (yield from self._delete_channels(row, [channel["id"] for channel in found]))

        return Op("channels.delete", steps)

    def _delete_channels(self, queue: QueueRow, channels: Sequence[int]) -> Steps[Deleted]:
        # Items before channels, as ``queues.settle`` locks them; then items again, since some may
        # have been pushed before we had locked the channels.
        yield self.sql.channel_members(channels=channels)
        yield self.sql.lock_channels_exclusive(channels=channels)
        rows = yield self.sql.channel_members(channels=channels)
        items = [item_of(row, queue.name) for row in rows]
        unit = self._context.storage.unit_of_work()
        for item in items:
            unit.move(queue, item, None)
            unit.free(queue, item)
        yield from unit.write()
        out = [
            {"item": item.id, "queue": queue.id, "token": item.token, "at": queue.now}
            for item in items
            if item.state == State.ACTIVE
        ]
        if out:
            yield NoReply((Many.of(self.sql.add_deleted_items, out),))
        yield from self._drop_channels(channels)
        return Deleted(len({item.key_values for item in items}), len(items))

    def _drop_channels(self, channels: Sequence[int]) -> Steps[None]:
        """Remove locked channels that have no items."""
        yield NoReply(
            (self.sql.drop_turns(channels=channels), self.sql.drop_channels(channels=channels))
        )

    def drop_idle_channels(self, queue: QueueRow, at: int, limit: int) -> Steps[None]:
        """Remove channels that had no items for long: lock them first, then check again."""
        idle = yield self.sql.idle_channels(queue=queue.id, at=at, limit=limit)
        if idle:
            yield from self._drop_channels([row["id"] for row in idle])

    def delay(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            row = yield from self._context.storage.open_queue(queue)
            end = until if for_ms is None else row.now + for_ms
            if end is None:
                yield self.sql.end_delay(queue=row.id, key_values=key_values)
                yield Notify(frozenset({f"queue/{queue}"}))
                return None
            rows = yield self.sql.delay_channel(queue=row.id, key_values=key_values, until=end)
            later: int = rows[0]["until"]
            return later

        return Op("channels.delay", steps, repeatable=True)

    def delayed_until(self, queue: str, key_values: str) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            row = yield from self._context.storage.queue_row(queue)
            return (yield from self._context.storage.delayed_until(row, key_values))

        return Op("channels.delayed_until", steps, writes=False)

    def deleted_items(self, queue: str, token: str, items: Sequence[int]) -> Op[builtins.list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self._context.storage.find_queue(queue)
            if row is None:
                return []
            gone = yield from self.went(row, [(item, token) for item in items])
            return [item for item in items if (item, token) in gone]

        return Op("channels.deleted_items", steps, writes=False)

    def went(
        self, queue: QueueRow, claimed: Iterable[tuple[int, str]]
    ) -> Steps[set[tuple[int, str]]]:
        """Which items, each with its token, were deleted with their channel while in flight."""
        wanted = set(claimed)
        rows = yield self.sql.find_deleted_items(
            queue=queue.id, items=sorted({item for item, _ in wanted})
        )
        return wanted & {(row["item"], row["token"]) for row in rows}
