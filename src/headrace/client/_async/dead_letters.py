"""Dead letters of a queue: items that failed for good, or were killed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from msgspec import UNSET

from headrace.client.items import Item
from headrace.client.workflows.redrive import Progress, purge_dead, redrive_dead
from headrace.contract.items import DeadGroup
from headrace.core.dead_filters import DeadFilter, check_filter_names, filter_of
from headrace.model import error_messages
from headrace.model.queues.items import State

if TYPE_CHECKING:
    from headrace.client._async.queue import AsyncQueue


Items = list[Item]
Groups = list[DeadGroup]


class AsyncDeadLetters:
    """The dead items of a queue. Which of them, is said the same way everywhere::

        ids                      these
        fingerprint              those that failed alike: see ``groups``
        subject                  those of this subject
        cause                    ``rejected``, ``killed`` or ``worker lost``
        died_before, died_after  those that died in that time

    >>> for group in await mail.dead.groups():
    ...     print(group.count, group.title)
    >>> await mail.dead.redrive(fingerprint=group.fingerprint, rate=10)
    """

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue

    async def list(
        self, *, after: int = 0, limit: int = 100, **filter: Unpack[DeadFilter]
    ) -> Items:
        """Dead items by id; go on with ``after`` the last one."""
        call = self._queue._client._requests.items.dead_items(
            self._queue.name, filter_of("list", filter), after, limit
        )
        return [self._queue._item(dead) for dead in await self._queue._client._run(call)]

    async def groups(self) -> Groups:
        """Dead items by fingerprint, the largest group first."""
        requests = self._queue._client._requests
        return await self._queue._client._run(requests.items.dead_groups(self._queue.name))

    async def get(self, item: int | str) -> Item:
        """One dead item, by id or subject; ``UnknownItem`` if it is not dead."""
        found = await self._queue.item(item)
        if found.state != State.DEAD:
            raise error_messages.not_dead(self._queue.name, item, State(found.state).name.lower())
        return found

    async def edit(
        self, item: int | str, *, payload: Any = UNSET, priority: int | None = None
    ) -> Item:
        """Change a dead item before it runs again."""
        dead = await self.get(item)
        return await self._queue.edit(dead.id, payload=payload, priority=priority)

    async def count(self, **filter: Unpack[DeadFilter]) -> int:
        """How many there are."""
        requests = self._queue._client._requests
        return await self._queue._client._run(
            requests.items.count_dead(self._queue.name, filter_of("count", filter))
        )

    async def redrive(
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
        of another. One whose subject a live item has stays dead. Items that die again meanwhile
        are left alone. ``progress(done, total)`` is called from time to time.
        """
        store = self._queue._client._requests.store
        return await self._queue._client._follow(
            redrive_dead(
                store,
                self._queue.name,
                filter_of("redrive", filter),
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
        """Move dead items to another queue, where they wait to be claimed; returns how many.

        No item is ever in both or in neither.
        """
        check_filter_names("move", filter)
        return await self.redrive(to=to, limit=limit, progress=progress, **filter)

    async def purge(
        self,
        *,
        limit: int | None = None,
        progress: Progress | None = None,
        **filter: Unpack[DeadFilter],
    ) -> int:
        """Remove dead items for good; returns how many."""
        store = self._queue._client._requests.store
        return await self._queue._client._follow(
            purge_dead(
                store, self._queue.name, filter_of("purge", filter), limit=limit, progress=progress
            )
        )
