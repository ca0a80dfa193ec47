"""The channels of a queue: one part of a queue reference."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.client.item_looks import AsyncItemLooks, ItemLooks
from headrace.client.plans import Plan
from headrace.client.running import documented
from headrace.contract.items import Deleted
from headrace.contract.queues import QueueStore
from headrace.core.channels import ChannelInfo, form_of
from headrace.core.times import Duration, Moment
from headrace.model.keyvalues import KeyValues
from headrace.model.names import check_queue
from headrace.model.queries import Query

MOST_CHANNELS = 1000
# Of a few channels at a time, so that nobody waits for long.
CHANNELS_AT_ONCE = 100


class ChannelLooks(ItemLooks):
    """Channels for blocking code."""

    def channels(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_CHANNELS,
    ) -> list[ChannelInfo]:
        """The channels that have items, or those that a query selects, by their form.

        Each with how many of its items wait, and how many are out. Go on with ``after`` the
        key-values of the last one.
        """
        return self._ask(self._client._queue_calls.channels(self.name, select, after, limit))

    def channel(self, key_values: Mapping[str, Any]) -> ChannelInfo:
        """One channel; nothing waits and nothing is out where there is none."""
        name = KeyValues.of(key_values, "channel")
        found = self.channels(Query.exactly(name), limit=1)
        if found:
            return found[0]
        return self._ask(self._client._queue_calls.channel_hold(self.name, name))

    def hold_channel(
        self,
        key_values: Mapping[str, Any],
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> datetime:
        """Let nothing of a channel run before a time, as an API's "retry after" asks.

        Its items wait, also those that are pushed later, and whoever waits for items gets them
        when the time has come. Of two holds the later one counts: returns that. What is out
        already goes on.
        """
        return self._ask(self._client._queue_calls.hold_channel(self.name, key_values, at, delay))

    def end_channel_hold(self, key_values: Mapping[str, Any]) -> None:
        """Let a channel that is held run again, now."""
        self._ask(self._client._queue_calls.end_hold(self.name, key_values))

    def register_selection(self, select: Query) -> None:
        """Say that claims will select by a query, so that they need not ask it of every channel.

        What they get is the same. Workers register theirs. A selection that was not registered
        for a day is forgotten.
        """
        self._ask(self._client._queue_calls.register_selection(self.name, select))

    def forget_selection(self, select: Query) -> bool:
        """Forget a selection; whether it was registered."""
        return self._ask(self._client._queue_calls.forget_selection(self.name, select))

    def selections(self) -> list[Query]:
        """The queries that are registered."""
        return self._ask(self._client._queue_calls.selections(self.name))

    def delete_channels(self, select: Query) -> Deleted:
        """Remove all items of the channels that a query selects; how many of both there were.

        Items that are out are removed too: whoever has one gets ``ItemGone`` when it is settled
        or extended. ``Query()`` selects all channels. Each channel is removed as a whole; if this
        ends in the middle, some of them are left.
        """
        store = self._client._queue_calls.store
        return self._client._follow(deleting(store, self.name, select))


class AsyncChannelLooks(AsyncItemLooks):
    """Channels for async code."""

    async def channels(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MOST_CHANNELS,
    ) -> list[ChannelInfo]:
        call = self._client._queue_calls.channels(self.name, select, after, limit)
        return await self._ask(call)

    async def channel(self, key_values: Mapping[str, Any]) -> ChannelInfo:
        name = KeyValues.of(key_values, "channel")
        found = await self.channels(Query.exactly(name), limit=1)
        if found:
            return found[0]
        return await self._ask(self._client._queue_calls.channel_hold(self.name, name))

    async def hold_channel(
        self,
        key_values: Mapping[str, Any],
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> datetime:
        call = self._client._queue_calls.hold_channel(self.name, key_values, at, delay)
        return await self._ask(call)

    async def end_channel_hold(self, key_values: Mapping[str, Any]) -> None:
        await self._ask(self._client._queue_calls.end_hold(self.name, key_values))

    async def register_selection(self, select: Query) -> None:
        await self._ask(self._client._queue_calls.register_selection(self.name, select))

    async def forget_selection(self, select: Query) -> bool:
        return await self._ask(self._client._queue_calls.forget_selection(self.name, select))

    async def selections(self) -> list[Query]:
        return await self._ask(self._client._queue_calls.selections(self.name))

    async def delete_channels(self, select: Query) -> Deleted:
        store = self._client._queue_calls.store
        return await self._client._follow(deleting(store, self.name, select))


def deleting(store: QueueStore, queue: str, select: Query) -> Plan[Deleted]:
    """Delete channels, some at a time."""
    name, chosen = check_queue(queue), form_of(select)
    channels = items = 0
    while True:
        deleted: Deleted = yield store.delete_channels(name, chosen, CHANNELS_AT_ONCE)
        channels += deleted.channels
        items += deleted.items
        if not deleted.channels:
            return Deleted(channels, items)


documented(AsyncChannelLooks, ChannelLooks)
