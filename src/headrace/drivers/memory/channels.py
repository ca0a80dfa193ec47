"""Channels in memory: to look at, and to delete."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.contract.items import ChannelRow, Deleted, SelectionRow
from headrace.contract.op import Op
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.drivers.memory.turns import was_gone
from headrace.model.channels import MOST_SELECTIONS, selects, selects_all
from headrace.model.items import State


class MemoryChannels(MemoryItems):
    """What people do with channels."""

    def register_selection(self, queue: str, select: str) -> Op[None]:
        def act() -> None:
            data, _ = self.queue(queue)
            if selects_all(select):
                return
            if select not in data.selections:
                oldest = sorted(data.selections, key=data.selections.__getitem__)
                for known in oldest[: max(len(oldest) + 1 - MOST_SELECTIONS, 0)]:
                    self.set_entry(data.selections, known, None)
                self._changed(data)
            self.set_entry(data.selections, select, self.now())

        return immediate("register_selection", act)

    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        def act() -> bool:
            data, _ = self.queue(queue)
            if select not in data.selections:
                return False
            self.set_entry(data.selections, select, None)
            self._changed(data)
            return True

        return immediate("forget_selection", act)

    def selections(self, queue: str) -> Op[list[SelectionRow]]:
        def act() -> list[SelectionRow]:
            data, _ = self.queue(queue)
            return [
                SelectionRow(select=select, seen_at=at)
                for select, at in sorted(data.selections.items())
            ]

        return immediate("selections", act, writes=False)

    def _changed(self, queue: QueueData) -> None:
        assert queue.info is not None
        self.change(queue, info=replace(queue.info, version=queue.info.version + 1))

    def channels(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[list[ChannelRow]]:
        def act() -> list[ChannelRow]:
            data, _ = self.queue(queue)
            found = [channel for channel in _selected(data, select) if channel > after]
            return [_row(data, channel, self.now()) for channel in found[:limit]]

        return immediate("channels", act, writes=False)

    def delete_channels(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        def act() -> Deleted:
            data, _ = self.queue(queue)
            found = _selected(data, select)[:limit]
            items = [data.items[id] for channel in found for id in sorted(data.channels[channel])]
            for item in items:
                if item.state == State.ACTIVE:
                    self.set_entry(data.gone, item.id, (self.now(), item.token))
                self.remove(data, item)
                self.free(data, item)
            return Deleted(len(found), len(items))

        return immediate("delete_channels", act)

    def hold_channel(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        def act() -> int | None:
            data, _ = self.queue(queue)
            end = until if for_ms is None else self.now() + for_ms
            if end is not None:
                return self.hold(data, key_values, end)
            self.set_entry(data.holds, key_values, None)
            self.announce(queue)
            return None

        return immediate("hold_channel", act)

    def channel_hold(self, queue: str, key_values: str) -> Op[int | None]:
        def act() -> int | None:
            data, _ = self.queue(queue)
            return _hold(data, key_values, self.now())

        return immediate("channel_hold", act, writes=False)

    def gone_items(self, queue: str, token: str, items: Sequence[int]) -> Op[list[int]]:
        def act() -> list[int]:
            data = self.data.queues.get(queue)
            return [] if data is None else [id for id in items if was_gone(data, id, token)]

        return immediate("gone_items", act, writes=False)


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
        held_until=_hold(queue, channel, now),
    )


def _hold(queue: QueueData, channel: str, now: int) -> int | None:
    return queue.holds[channel] if queue.is_waiting(channel, now) else None
