"""Single items of a queue, to look at and to change by hand; its past: a part of a reference."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from headrace.client import looks
from headrace.client.editing import cancelling, editing, retrying
from headrace.client.item_claims import AsyncItemClaims, ItemClaims
from headrace.client.items import AsyncItem, Item
from headrace.client.queue_calls import item_of
from headrace.contract.items import LoggedError, Sample
from headrace.core.times import Duration, Moment
from headrace.core.why import Why
from headrace.model.items import State


class ItemLooks(ItemClaims):
    """Items for blocking code."""

    def item(self, item: int | str) -> Item:
        """An item by id, or the live one (else the last that ended) of a subject.

        ``UnknownItem`` if there is none. What is only looked at cannot be settled.
        """
        return Item(self, self._ask(self._client._queue_calls.item(self.name, item)))

    def items(
        self, state: State | str = "pending", *, after: int = 0, limit: int = 100
    ) -> list[Item]:
        """Items in a state by id; go on with ``after`` the last one.

        An item may be among the planned ones for a while after it has become due.
        """
        found = self._ask(self._client._queue_calls.items(self.name, state, after, limit))
        return [Item(self, one) for one in found]

    def why(self, item: int | str) -> Why:
        """Why an item, by id or subject, is not running; ``str()`` of it says so in words."""
        store = self._client._queue_calls.store
        return self._client._follow(looks.explaining(store, self.name, item_of(item)))

    def cancel(self, item: int | str) -> Item:
        """Remove a waiting item; returns it as it was. ``ItemActive`` if it is in flight."""
        store = self._client._queue_calls.store
        return Item(self, self._client._follow(cancelling(store, self.name, item)))

    def retry(self, item: int | str) -> Item:
        """Let a waiting or ended item run now, with all its attempts before it.

        ``ItemActive`` if it is in flight, ``SubjectTaken`` if a live item has its subject.
        """
        store = self._client._queue_calls.store
        return Item(self, self._client._follow(retrying(store, self.name, item)))

    def edit(
        self,
        item: int | str,
        *,
        payload: Any = UNSET,
        priority: int | None = None,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> Item:
        """Change a waiting or ended item; what is not given stays. ``ItemActive`` if in flight."""
        plan = editing(
            self._client._queue_calls.store,
            self.name,
            item,
            payload=payload,
            priority=priority,
            at=at,
            delay=delay,
            max_body=self.max_body,
        )
        return Item(self, self._client._follow(plan))

    def errors(
        self, *, item: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[LoggedError]:
        """What went wrong in the queue, or with one item, newest first.

        Go on with ``before`` the id of the last one.
        """
        return self._ask(self._client._queue_calls.errors(self.name, item, before, limit))

    def samples(self, *, since: Moment | None = None, limit: int = 1000) -> list[Sample]:
        """The queue's numbers over time, oldest first: one a minute, while somebody maintains."""
        return self._ask(self._client._queue_calls.samples(self.name, since, limit))


class AsyncItemLooks(AsyncItemClaims):
    """Items for async code."""

    async def item(self, item: int | str) -> AsyncItem:
        return AsyncItem(self, await self._ask(self._client._queue_calls.item(self.name, item)))

    async def items(
        self, state: State | str = "pending", *, after: int = 0, limit: int = 100
    ) -> list[AsyncItem]:
        found = await self._ask(self._client._queue_calls.items(self.name, state, after, limit))
        return [AsyncItem(self, one) for one in found]

    async def why(self, item: int | str) -> Why:
        store = self._client._queue_calls.store
        return await self._client._follow(looks.explaining(store, self.name, item_of(item)))

    async def cancel(self, item: int | str) -> AsyncItem:
        store = self._client._queue_calls.store
        return AsyncItem(self, await self._client._follow(cancelling(store, self.name, item)))

    async def retry(self, item: int | str) -> AsyncItem:
        store = self._client._queue_calls.store
        return AsyncItem(self, await self._client._follow(retrying(store, self.name, item)))

    async def edit(
        self,
        item: int | str,
        *,
        payload: Any = UNSET,
        priority: int | None = None,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> AsyncItem:
        plan = editing(
            self._client._queue_calls.store,
            self.name,
            item,
            payload=payload,
            priority=priority,
            at=at,
            delay=delay,
            max_body=self.max_body,
        )
        return AsyncItem(self, await self._client._follow(plan))

    async def errors(
        self, *, item: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[LoggedError]:
        return await self._ask(self._client._queue_calls.errors(self.name, item, before, limit))

    async def samples(self, *, since: Moment | None = None, limit: int = 1000) -> list[Sample]:
        return await self._ask(self._client._queue_calls.samples(self.name, since, limit))
