"""Dead letters of a queue: items that failed for good, or were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from msgspec import UNSET

from headrace.client.items import AsyncItem, Item
from headrace.client.redriving import Progress, purging, redriving
from headrace.contract.items import DeadGroup
from headrace.core.dead_filters import DeadFilter, filter_of
from headrace.model import refusals
from headrace.model.items import State

if TYPE_CHECKING:
    from headrace.client.queues import AsyncQueue, Queue

Items = list[Item]
AsyncItems = list[AsyncItem]
Groups = list[DeadGroup]


class DeadLetters:
    """The dead items of a queue. Which of them, is said the same way everywhere::

        ids                      these
        fingerprint              those that failed alike: see ``groups``
        subject                  those of this subject
        cause                    ``rejected``, ``killed`` or ``worker lost``
        died_before, died_after  those that died in that time

    >>> for group in mail.dead.groups():
    ...     print(group.count, group.title)
    >>> mail.dead.redrive(fingerprint=group.fingerprint, rate=10)
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def list(self, *, after: int = 0, limit: int = 100, **filter: Unpack[DeadFilter]) -> Items:
        """Dead items by id; go on with ``after`` the last one."""
        call = self._queue._client._queue_calls.dead_items(
            self._queue.name, filter_of(**filter), after, limit
        )
        return [Item(self._queue, dead) for dead in self._queue._ask(call)]

    def groups(self) -> Groups:
        """Dead items by fingerprint, the largest group first."""
        return self._queue._ask(self._queue._client._queue_calls.dead_groups(self._queue.name))

    def show(self, item: int | str) -> Item:
        """One dead item, by id or subject; ``UnknownItem`` if it is not dead."""
        found = self._queue.item(item)
        if found.state != State.DEAD:
            raise refusals.unknown_item(self._queue.name, item)
        return found

    def edit(self, item: int | str, *, payload: Any = UNSET, priority: int | None = None) -> Item:
        """Change a dead item before it runs again."""
        return self._queue.edit(self.show(item).id, payload=payload, priority=priority)

    def count(self, **filter: Unpack[DeadFilter]) -> int:
        """How many there are."""
        calls = self._queue._client._queue_calls
        return self._queue._ask(calls.count_dead(self._queue.name, filter_of(**filter)))

    def redrive(
        self,
        *,
        to: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        """Let dead items run again, with all their attempts before them; returns how many.

        At most ``rate`` a second, as many as the ``limit`` says, in this queue or as new items
        of another. One whose subject is taken by a live item stays. Those that die again while
        this goes on are left alone. ``progress(done, total)`` is called from time to time.
        """
        store = self._queue._client._queue_calls.store
        return self._queue._client._follow(
            redriving(
                store,
                self._queue.name,
                filter_of(**filter),
                to,
                rate=rate,
                limit=limit,
                progress=progress,
            )
        )

    def move(
        self,
        to: str,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        """Move dead items to another queue, where they wait to be claimed; returns how many.

        No item is ever in both or in neither.
        """
        return self.redrive(to=to, limit=limit, progress=progress, **filter)

    def purge(
        self,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        """Remove dead items for good; returns how many."""
        store = self._queue._client._queue_calls.store
        return self._queue._client._follow(
            purging(store, self._queue.name, filter_of(**filter), limit=limit, progress=progress)
        )


class AsyncDeadLetters:
    """``DeadLetters`` for async code."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def list(
        self, *, after: int = 0, limit: int = 100, **filter: Unpack[DeadFilter]
    ) -> AsyncItems:
        call = self._queue._client._queue_calls.dead_items(
            self._queue.name, filter_of(**filter), after, limit
        )
        return [AsyncItem(self._queue, dead) for dead in await self._queue._ask(call)]

    async def groups(self) -> Groups:
        calls = self._queue._client._queue_calls
        return await self._queue._ask(calls.dead_groups(self._queue.name))

    async def show(self, item: int | str) -> AsyncItem:
        found = await self._queue.item(item)
        if found.state != State.DEAD:
            raise refusals.unknown_item(self._queue.name, item)
        return found

    async def edit(
        self, item: int | str, *, payload: Any = UNSET, priority: int | None = None
    ) -> AsyncItem:
        dead = await self.show(item)
        return await self._queue.edit(dead.id, payload=payload, priority=priority)

    async def count(self, **filter: Unpack[DeadFilter]) -> int:
        calls = self._queue._client._queue_calls
        return await self._queue._ask(calls.count_dead(self._queue.name, filter_of(**filter)))

    async def redrive(
        self,
        *,
        to: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        store = self._queue._client._queue_calls.store
        return await self._queue._client._follow(
            redriving(
                store,
                self._queue.name,
                filter_of(**filter),
                to,
                rate=rate,
                limit=limit,
                progress=progress,
            )
        )

    async def move(
        self,
        to: str,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        return await self.redrive(to=to, limit=limit, progress=progress, **filter)

    async def purge(
        self,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        store = self._queue._client._queue_calls.store
        return await self._queue._client._follow(
            purging(store, self._queue.name, filter_of(**filter), limit=limit, progress=progress)
        )
