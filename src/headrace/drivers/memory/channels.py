"""Channels in memory: inspection and deletion."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import ChannelRow, Deleted, SelectionRow
from headrace.contract.op import Op
from headrace.drivers.memory.candidates import was_gone
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model.queues.channels import MAX_SELECTIONS, selects, selects_all
from headrace.model.queues.items import State

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryChannels:
    """The part ``store.channels``."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def register_selection(self, queue: str, select: str) -> Op[None]:
        def act() -> None:
            data, _ = self._context.storage.queue(queue)
            if selects_all(select):
                return
            if select not in data.selections:
                oldest = sorted(data.selections, key=data.selections.__getitem__)
                for known in oldest[: max(len(oldest) + 1 - MAX_SELECTIONS, 0)]:
                    self._context.storage.set_entry(data.selections, known, None)
                self._changed(data)
            self._context.storage.set_entry(data.selections, select, self.now())

        return immediate("channels.register_selection", act)

    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        def act() -> bool:
            data, _ = self._context.storage.queue(queue)
            if select not in data.selections:
                return False
            self._context.storage.set_entry(data.selections, select, None)
            self._changed(data)
            return True

        return immediate("channels.forget_selection", act)

    def selections(self, queue: str) -> Op[builtins.list[SelectionRow]]:
        def act() -> list[SelectionRow]:
            data, _ = self._context.storage.queue(queue)
            return [
                SelectionRow(select=select, seen_at=at)
                for select, at in sorted(data.selections.items())
            ]

        return immediate("channels.selections", act, writes=False)

    def _changed(self, queue: QueueData) -> None:
        assert queue.info is not None
        self._context.storage.change(
            queue, info=replace(queue.info, version=queue.info.version + 1)
        )

    def list(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[builtins.list[ChannelRow]]:
        def act() -> list[ChannelRow]:
            data, _ = self._context.storage.queue(queue)
            found = [channel for channel in _selected(data, select) if channel > after]
            return [_row(data, channel, self.now()) for channel in found[:limit]]

        return immediate("channels.list", act, writes=False)

    def delete(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        def act() -> Deleted:
            data, _ = self._context.storage.queue(queue)
            found = _selected(data, select)[:limit]
            items = [data.items[id] for channel in found for id in sorted(data.channels[channel])]
            for item in items:
                if item.state == State.ACTIVE:
                    self._context.storage.set_entry(data.gone, item.id, (self.now(), item.token))
                self._context.storage.remove(data, item)
                self._context.storage.free(data, item)
            return Deleted(len(found), len(items))

        return immediate("channels.delete", act)

    def delay(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        def act() -> int | None:
            data, _ = self._context.storage.queue(queue)
            end = until if for_ms is None else self.now() + for_ms
            if end is not None:
                return self._context.storage.delay_channel(data, key_values, end)
            self._context.storage.set_entry(data.delays, key_values, None)
            self._context.storage.announce(queue)
            return None

        return immediate("channels.delay", act)

    def delayed_until(self, queue: str, key_values: str) -> Op[int | None]:
        def act() -> int | None:
            data, _ = self._context.storage.queue(queue)
            return _delayed_until(data, key_values, self.now())

        return immediate("channels.delayed_until", act, writes=False)

    def deleted_items(self, queue: str, token: str, items: Sequence[int]) -> Op[builtins.list[int]]:
        def act() -> list[int]:
            data = self.data.queues.get(queue)
            return [] if data is None else [id for id in items if was_gone(data, id, token)]

        return immediate("channels.deleted_items", act, writes=False)


def _selected(queue: QueueData, select: str | None) -> list[str]:
    return sorted(
        channel for channel in queue.channels if select is None or selects(select, channel)
    )


def _row(queue: QueueData, channel: str, now: int) -> ChannelRow:
    ids = queue.channels[channel]
    active = sum(queue.items[id].state == State.ACTIVE for id in ids)
    return ChannelRow(
        key_values=channel,
        waiting=len(ids) - active,
        active=active,
        delayed_until=_delayed_until(queue, channel, now),
    )


def _delayed_until(queue: QueueData, channel: str, now: int) -> int | None:
    return queue.delays[channel] if queue.is_delayed(channel, now) else None
