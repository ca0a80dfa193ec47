"""Claimed items, and the ways to settle one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from headrace.client.items import Error, Item, moment
from headrace.core.outcomes import Then
from headrace.model.queues.items import ItemState
from headrace.model.times import Duration, Moment, moment_of

if TYPE_CHECKING:
    from headrace.client._async.queue import AsyncQueue
    from headrace.client.claim_heartbeats import ClaimKeeper


class AsyncClaimedItem(Item):
    """A claimed item for async code. Each way to settle it raises ``ItemLost`` if the claim is lost,
    and ``ItemGone``, which is one, if its channel was deleted.

    >>> for item in await queue.claim(10):
    ...     send(item.payload)
    ...     await item.complete()

    ``then`` is a list of ``headrace.Commit`` and ``headrace.Push`` that are written in the same
    transaction, or not at all if the item is lost.
    """

    __slots__ = ("__weakref__", "_keeper", "_reference")

    def __init__(self, reference: AsyncQueue, state: ItemState) -> None:
        super().__init__(state, max_body=reference._client._max_body, is_claimed=True)
        self._reference = reference
        self._keeper: ClaimKeeper | None = None

    @property
    def lost(self) -> bool:
        """Whether the heartbeats of its claim have found it lost, or none has succeeded for as long
        as its lease is. Without heartbeats: False."""
        return self._keeper is not None and self._keeper.has_lost(self.id)

    async def complete(self, *, payload: Any = UNSET, then: Then = ()) -> None:
        """It is done; a payload replaces its own in what is kept."""
        await self._reference._settle_one(self.outcome("complete", payload=payload, then=then))

    async def reschedule(
        self,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime:
        """It is done for now and comes again; returns when. Its attempts start again.

        Without a time the queue's ``reschedule_delay`` decides.
        """
        outcome = self.outcome("reschedule", at=at, delay=delay, payload=payload, then=then)
        settled = await self._reference._settle_one(outcome)
        return moment_of(settled.due or 0)

    async def reject(
        self,
        error: Error | None = None,
        *,
        at: Moment | None = None,
        delay: Duration | None = None,
        payload: Any = UNSET,
        then: Then = (),
    ) -> datetime | None:
        """It failed; returns when it comes again, None if it is dead now.

        Without a time the queue's ``reject_delay`` or ``backoff`` decides.
        """
        outcome = self.outcome(
            "reject", error=error, at=at, delay=delay, payload=payload, then=then
        )
        settled = await self._reference._settle_one(outcome)
        return moment(settled.due)

    async def kill(
        self, error: Error | None = None, *, payload: Any = UNSET, then: Then = ()
    ) -> None:
        """It is dead, whatever attempts it had left."""
        outcome = self.outcome("kill", error=error, payload=payload, then=then)
        await self._reference._settle_one(outcome)

    async def drop(self, *, then: Then = ()) -> None:
        """Remove it without a trace; its subject is free again."""
        await self._reference._settle_one(self.outcome("drop", then=then))

    async def release(self) -> None:
        """Release it untouched, as if it had not been claimed."""
        await self._reference._settle_one(self.outcome("release"))

    async def delay_channel(
        self, *, at: Moment | None = None, delay: Duration | None = None, then: Then = ()
    ) -> datetime:
        """Release it, and let nothing of its channel run before a time; returns that.

        For an API that says "retry after": no attempt is counted, and all items of the channel
        wait. An item that is in no channel waits alone.
        """
        outcome = self.outcome("delay_channel", at=at, delay=delay, then=then)
        settled = await self._reference._settle_one(outcome)
        return moment_of(settled.due or 0)

    async def extend(self, lease: Duration | None = None) -> None:
        """Keep it for so long from now; without a time, for as long as the claim was made for."""
        if not await self._reference.extend([self], lease):
            raise await self._reference._lost(self)
