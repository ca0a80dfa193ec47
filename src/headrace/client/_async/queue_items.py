"""Single items of a queue, to read and to change by hand; its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from headrace.client.items import Item
from headrace.client.workflows import inspection
from headrace.client.workflows.item_edit import cancel_item, edit_item, retry_item
from headrace.contract.items import LoggedError
from headrace.core.requests.items import item_of
from headrace.core.why import Why
from headrace.model.queues.items import State
from headrace.model.times import Duration, Moment

if TYPE_CHECKING:
    from headrace.client._async.queue import AsyncQueue


Items = list[Item]
Errors = list[LoggedError]


class AsyncQueueItems:
    """The items of a queue, for async code."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def get(self, item: int | str) -> Item:
        """An item by id, or the live one (else the last that ended) of a subject.

        ``UnknownItem`` if there is none.
        """
        return self._queue._item(
            await self._queue._client._run(
                self._queue._client._requests.items.item(self._queue.name, item)
            ),
        )

    async def list(
        self, state: State | str = "pending", *, after: int = 0, limit: int = 100
    ) -> Items:
        """Items in a state by id; go on with ``after`` the last one.

        An item may be among the planned ones for a while after it has become due.
        """
        found = await self._queue._client._run(
            self._queue._client._requests.items.items(self._queue.name, state, after, limit)
        )
        return [self._queue._item(one) for one in found]

    async def why(self, item: int | str) -> Why:
        """Why an item, by id or subject, is not running; ``str()`` of it says so in words."""
        store = self._queue._client._requests.store
        return await self._queue._client._follow(
            inspection.explain(store, self._queue.name, item_of(item))
        )

    async def cancel(self, item: int | str) -> Item:
        """Remove a waiting item, or one that has ended and is kept; returns it as it was.

        ``ItemActive`` if it is in flight.
        """
        store = self._queue._client._requests.store
        return self._queue._item(
            await self._queue._client._follow(cancel_item(store, self._queue.name, item)),
        )

    async def retry(self, item: int | str) -> Item:
        """Let a waiting or ended item run now, with all its attempts before it.

        ``ItemActive`` if it is in flight, ``SubjectTaken`` if a live item has its subject.
        """
        store = self._queue._client._requests.store
        return self._queue._item(
            await self._queue._client._follow(retry_item(store, self._queue.name, item)),
        )

    async def edit(
        self,
        item: int | str,
        *,
        payload: Any = UNSET,
        priority: int | None = None,
        at: Moment | None = None,
        delay: Duration | None = None,
    ) -> Item:
        """Change a waiting or ended item; what is not given stays. ``ItemActive`` if in flight."""
        plan = edit_item(
            self._queue._client._requests.store,
            self._queue.name,
            item,
            payload=payload,
            priority=priority,
            at=at,
            delay=delay,
            max_body=self._queue._client._max_body,
        )
        return self._queue._item(await self._queue._client._follow(plan))

    async def errors(
        self, *, item: int | None = None, before: int | None = None, limit: int = 100
    ) -> Errors:
        """What went wrong in the queue, or with one item, newest first.

        Go on with ``before`` the id of the last one.
        """
        return await self._queue._client._run(
            self._queue._client._requests.items.errors(self._queue.name, item, before, limit)
        )
