"""Channels in SQL: to look at, and to delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.contract.items import ChannelRow, Deleted
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.rows import QueueRow, item_of
from headrace.drivers.relational.sql import Announce, Finally, Many
from headrace.model.channels import selects
from headrace.model.items import State

PAGE = 1000


class ChannelLooks(QueueBase):
    """What people do with channels."""

    def channels(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[list[ChannelRow]]:
        def steps() -> Steps[list[ChannelRow]]:
            row = yield from self.queue_row(queue)
            found = yield from self._selected_channels(row, select, after, limit)
            fields = ChannelRow.__struct_fields__
            return [ChannelRow(**{field: row[field] for field in fields}) for row in found]

        return Op("channels", steps, writes=False)

    def _selected_channels(
        self, queue: QueueRow, select: str | None, after: str, limit: int
    ) -> Steps[list[Any]]:
        """Channels that are selected, by name."""
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

    def delete_channels(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        def steps() -> Steps[Deleted]:
            row = yield from self.open_queue(queue)
            found = yield from self._selected_channels(row, select, "", limit)
            if not found:
                return Deleted(0, 0)
            return (yield from self._delete_channels(row, [channel["id"] for channel in found]))

        return Op("delete_channels", steps)

    def _delete_channels(self, queue: QueueRow, channels: Sequence[int]) -> Steps[Deleted]:
        # Items before channels, as those who settle do it; then once more, since something may
        # have been pushed before we had the channels.
        yield self.sql.channel_members(channels=channels)
        yield self.sql.lock_channels(channels=channels)
        rows = yield self.sql.channel_members(channels=channels)
        items = [item_of(row, queue.name) for row in rows]
        ledger = self.ledger()
        for item in items:
            ledger.move(queue, item, None)
            ledger.free(queue, item)
        yield from ledger.write()
        out = [
            {"item": item.id, "queue": queue.id, "token": item.token, "at": queue.now}
            for item in items
            if item.state == State.ACTIVE
        ]
        if out:
            yield Finally((Many.of(self.sql.add_gone, out),))
        yield from self._drop_channels(channels)
        return Deleted(len({item.key_values for item in items}), len(items))

    def _drop_channels(self, channels: Sequence[int]) -> Steps[None]:
        """Remove locked channels that have no items."""
        yield Finally(
            (self.sql.drop_turns(channels=channels), self.sql.drop_channels(channels=channels))
        )

    def drop_idle_channels(self, queue: QueueRow, at: int, limit: int) -> Steps[None]:
        """Forget channels that had no items for long; locked first, and looked at again then."""
        idle = yield self.sql.idle_channels(queue=queue.id, at=at, limit=limit)
        if idle:
            yield from self._drop_channels([row["id"] for row in idle])

    def hold_channel(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            row = yield from self.open_queue(queue)
            end = until if for_ms is None else row.now + for_ms
            if end is None:
                yield self.sql.end_hold(queue=row.id, key_values=key_values)
                yield Announce(frozenset({f"queue/{queue}"}))
                return None
            held = yield self.sql.hold_channel(queue=row.id, key_values=key_values, until=end)
            later: int = held[0]["until"]
            return later

        return Op("hold_channel", steps, repeatable=True)

    def channel_hold(self, queue: str, key_values: str) -> Op[int | None]:
        def steps() -> Steps[int | None]:
            row = yield from self.queue_row(queue)
            return (yield from self.held_until(row, key_values))

        return Op("channel_hold", steps, writes=False)

    def gone_items(self, queue: str, token: str, items: Sequence[int]) -> Op[list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self.find_queue(queue)
            if row is None:
                return []
            gone = yield from self.went(row, [(item, token) for item in items])
            return [item for item in items if (item, token) in gone]

        return Op("gone_items", steps, writes=False)

    def went(self, queue: QueueRow, held: Iterable[tuple[int, str]]) -> Steps[set[tuple[int, str]]]:
        """Which items, each with its token, went with their channel while they were out."""
        wanted = set(held)
        rows = yield self.sql.find_gone(queue=queue.id, items=sorted({item for item, _ in wanted}))
        return wanted & {(row["item"], row["token"]) for row in rows}
