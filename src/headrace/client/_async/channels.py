"""The channels of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.client.workflows.channel_deletion import delete_channels
from headrace.contract.items import Deleted
from headrace.core.channels import ChannelInfo
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.times import Duration, Moment

if TYPE_CHECKING:
    from headrace.client._async.queue import AsyncQueue


MAX_CHANNELS = 1000

Infos = list[ChannelInfo]
Queries = list[Query]


class AsyncChannels:
    """The channels of a queue, for async code."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def list(
        self,
        select: Query | None = None,
        *,
        after: KeyValues | None = None,
        limit: int = MAX_CHANNELS,
    ) -> Infos:
        """The channels that have items, or those that a query selects, by their form.

        Each with how many of its items wait, and how many are in flight. Go on with ``after`` the
        key-values of the last one.
        """
        call = self._queue._client._requests.channels.listing(
            self._queue.name, select, after, limit
        )
        return await self._queue._client._run(call)

    async def get(self, key_values: Mapping[str, Any]) -> ChannelInfo:
        """One channel; one that does not exist has no items."""
        name = KeyValues.of(key_values, "channel")
        found = await self.list(Query.exactly(name), limit=1)
        if found:
            return found[0]
        return await self._queue._client._run(
            self._queue._client._requests.channels.empty(self._queue.name, name)
        )

    async def delay(
        self,
        key_values: Mapping[str, Any],
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> datetime:
        """Let nothing of a channel run before a time, as an API's "retry after" asks.

        Its items wait, also those that are pushed later; claims that wait get them when the time
        has come. Of two delays the later one counts: returns that. Items in flight are not
        interrupted.
        """
        call = self._queue._client._requests.channels.delay(self._queue.name, key_values, at, delay)
        return await self._queue._client._run(call)

    async def end_delay(self, key_values: Mapping[str, Any]) -> None:
        """End the delay of a channel now."""
        await self._queue._client._run(
            self._queue._client._requests.channels.end_delay(self._queue.name, key_values)
        )

    async def delete(self, select: Query) -> Deleted:
        """Remove all items of the channels that a query selects; how many of both there were.

        Items in flight are removed too: their holders get ``ItemGone`` when one is settled
        or extended. ``Query()`` selects all channels. Each channel is removed as a whole; if this
        ends in the middle, some of them are left.
        """
        store = self._queue._client._requests.store
        return await self._queue._client._follow(delete_channels(store, self._queue.name, select))


class AsyncSelections:
    """The selections that claims of a queue register, for async code."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def register(self, select: Query) -> None:
        """Say that claims will select by a query, so that they need not ask it of every channel.

        What they get is the same. Workers register theirs. A selection that was not registered
        for a day is forgotten.
        """
        await self._queue._client._run(
            self._queue._client._requests.channels.register_selection(self._queue.name, select)
        )

    async def forget(self, select: Query) -> bool:
        """Forget a selection; whether it was registered."""
        return await self._queue._client._run(
            self._queue._client._requests.channels.forget_selection(self._queue.name, select)
        )

    async def list(self) -> Queries:
        """The queries that are registered."""
        return await self._queue._client._run(
            self._queue._client._requests.channels.selections(self._queue.name)
        )
