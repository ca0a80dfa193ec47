"""What gopq's constructors return: a queue, and a queue with acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from time import monotonic
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from headrace._async.headrace import AsyncHeadrace
from headrace.client._async import queue as references
from headrace.client._async.items import AsyncClaimedItem
from headrace.client._runtime.aio import call, sleep
from headrace.client.items import Error
from headrace.compat.gopq_values import (
    AckOpts,
    FailureCallback,
    HeldMessage,
    Location,
    Msg,
    Timeout,
    checked_item,
    db_locked,
    no_items_waiting,
    not_held,
)
from headrace.contract.shield import finish
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    ItemLost,
    StoreBusy,
    SubjectTaken,
)
from headrace.model.fields import shown
from headrace.model.queues.fingerprint import digest
from headrace.model.queues.items import ItemState

_log = logging.getLogger("headrace")
T = TypeVar("T")


class AsyncQueue:
    """A queue whose items are processed once they are dequeued: first in, first out.

    Methods that begin with ``try_`` make one attempt. The others wait for a locked database, and
    ``dequeue`` for an item; ``timeout`` says for how many seconds, None for ever. ``queue`` is the
    same queue with Headrace's own methods.
    """

    def __init__(
        self,
        client: AsyncHeadrace,
        queue: references.AsyncQueue,
        place: Location,
        *,
        is_unique: bool,
    ) -> None:
        self.queue = queue
        self._client = client
        self._place = place
        self._is_unique = is_unique

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.queue.name

    async def enqueue(self, item: bytes, *, timeout: float | None = None) -> None:
        """Add an item at the end. A unique queue ignores an item which it has already.

        ``ErrDBLocked`` if the database is locked until the timeout.
        """
        await retried(lambda _: self._enqueue(item), timeout)

    async def try_enqueue(self, item: bytes) -> None:
        """``enqueue`` in one attempt: ``ErrDBLocked`` if the database is locked."""
        await self.enqueue(item, timeout=0)

    async def dequeue(self, *, timeout: float | None = None) -> Msg:
        """Remove the next item and return it; wait for one if there is none.

        ``ErrNoItemsWaiting`` if there is none until the timeout.
        """
        return await retried(self._dequeue, timeout)

    async def try_dequeue(self) -> Msg:
        """``dequeue`` in one attempt: ``ErrNoItemsWaiting`` if there is no item."""
        return await self.dequeue(timeout=0)

    async def len(self) -> int:
        """Count the items that could be dequeued now.

        Items in flight do not count until their ack deadline, nor items that wait for a retry.
        """
        request = self._client._requests.queues.due(self.name)
        return await retried(lambda _: self._client._run(request), None)

    async def close(self) -> None:
        """Close the connection. A queue in memory that has no name is gone then."""
        if self._place.is_private and self._client.status:
            await self.queue.drop()
        await self._client.close()

    async def _enqueue(self, item: bytes) -> None:
        content = checked_item(item)
        await self.queue.push(content, subject=digest(content) if self._is_unique else None)

    async def _dequeue(self, wait: float | None) -> Msg:
        timeout = Timeout(wait)
        while items := await self.queue.claim(wait=timeout.left):
            # ASYNC
            completing = asyncio.ensure_future(items[0].complete())
            # END
            try:
                # ASYNC
                await asyncio.shield(completing)
                # SYNC
                # items[0].complete()
                # END
            except ItemLost:
                continue  # its lease ended meanwhile: another claim has it now
            # ASYNC
            except asyncio.CancelledError:
                await finish(self._put_back(items[0], completing))
                raise
            # END
            return Msg(items[0].id, items[0].payload)
        raise no_items_waiting(self.name)

    # ASYNC
    async def _put_back(self, item: AsyncClaimedItem, completing: asyncio.Future[Any]) -> None:
        """Return an item that was completed for a caller which is gone: to the end of the queue."""
        try:
            await completing
        except HeadraceError:
            return  # not completed here: it is delivered again when its lease ends
        try:
            await self._undo(item._state)
        except HeadraceError as error:
            # The cancellation is raised whatever else is wrong.
            _log.error(
                "item %s of queue %r was dequeued by a call that was cancelled, and could not be "
                "put back: %s",
                item.id,
                self.name,
                error,
                extra={"action": "dequeue"},
            )

    async def _undo(self, state: ItemState) -> None:
        """Undo the completion of a claim; the item keeps all that it has."""
        client = self._client
        try:
            await client._run(client._requests.items.undo(self.name, state))
        except SubjectTaken:
            # Another item has its subject by now: where that is the content, nothing is missing.
            if not self._is_unique:
                bare = replace(state, subject=None)
                await client._run(client._requests.items.undo(self.name, bare))

    # END

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"


class AsyncAcknowledgeableQueue(AsyncQueue):
    """A queue whose items are delivered again unless they are acknowledged in time.

    ``ack``, ``nack`` and ``expire_ack`` get the id of a message that this object dequeued, and
    raise ``ItemLost`` if its ack deadline has expired. A message that has failed goes to the dead
    letter queues; without any, it is kept in ``queue.dead``.
    """

    def __init__(
        self,
        client: AsyncHeadrace,
        queue: references.AsyncQueue,
        place: Location,
        *,
        is_unique: bool,
        opts: AckOpts | None = None,
    ) -> None:
        super().__init__(client, queue, place, is_unique=is_unique)
        self._held: dict[int, HeldMessage] = {}
        self._callbacks = [] if opts is None else list(opts.failure_callbacks)

    async def ack(self, id: int, *, timeout: float | None = None) -> None:
        """Acknowledge a message: it is processed.

        ``ErrDBLocked`` if the database is locked until the timeout.
        """
        claim = self._claim(id)
        await retried(lambda _: claim.complete(), timeout)
        self._held.pop(id, None)

    async def try_ack(self, id: int) -> None:
        """``ack`` in one attempt: ``ErrDBLocked`` if the database is locked."""
        await self.ack(id, timeout=0)

    async def nack(
        self, id: int, *, error: Error | None = None, timeout: float | None = None
    ) -> None:
        """Say that a message failed. It is delivered again after ``retry_backoff``, at the front,
        or it has failed for good: then the failure callbacks are called.

        ``error`` is kept with the item. ``ErrDBLocked`` if the database is locked until the
        timeout.
        """
        claim = self._claim(id)
        again = await retried(lambda _: claim.reject(error), timeout)
        self._held.pop(id, None)
        if again is None:
            await self._fail(Msg(id, claim.payload))

    async def try_nack(self, id: int, *, error: Error | None = None) -> None:
        """``nack`` in one attempt: ``ErrDBLocked`` if the database is locked."""
        await self.nack(id, error=error, timeout=0)

    async def expire_ack(self, id: int) -> None:
        """End the ack deadline of a message now: it is delivered again, which counts as a retry."""
        claim = self._claim(id)
        await retried(lambda _: self._expire(claim), None)
        self._held.pop(id, None)

    def register_on_failure_callback(self, callback: FailureCallback) -> None:
        """Call back with each message that this object nacks for the last time.

        In the caller of ``nack``, after the message has left the queue, in the order of
        registration. All callbacks are called; then their errors are raised in an
        ``ExceptionGroup``.
        """
        if not callable(callback):
            raise InvalidOption(f"{shown(callback)} cannot be called back.", option="callback")
        self._callbacks.append(callback)

    def register_behaviour_on_failure(self, callback: FailureCallback) -> None:
        """``register_on_failure_callback`` under gopq's other name."""
        self.register_on_failure_callback(callback)

    async def register_dead_letter_queue(self, queue: Any) -> None:
        """Send messages that have failed to another queue, too; several may be registered.

        To a queue of the same store they move in one transaction, whichever object or process
        finds that they have failed: the registration is stored in the settings of this queue.
        For a queue elsewhere, or any object with ``enqueue``, it is a failure callback.
        """
        if isinstance(queue, AsyncQueue) and queue._place.url == self._place.url:
            request = self._client._requests.queues.add_dead_queue(self.name, queue.name)
            await retried(lambda _: self._client._run(request), None)
        elif callable(getattr(queue, "enqueue", None)):
            self.register_on_failure_callback(lambda message: queue.enqueue(message.item))
        else:
            raise InvalidOption(
                f"{shown(queue)} is not a dead letter queue: it has no enqueue.", option="queue"
            )

    async def _dequeue(self, wait: float | None) -> Msg:
        for claim in await self.queue.claim(wait=wait):
            self._hold(claim)
            return Msg(claim.id, claim.payload)
        raise no_items_waiting(self.name)

    def _hold(self, claim: AsyncClaimedItem) -> None:
        """Remember a claim, and forget the oldest ones if their leases are over."""
        now = monotonic()
        for id, held in list(islice(self._held.items(), 2)):
            if held.until < now:
                self._held.pop(id, None)
        self._held.pop(claim.id, None)
        self._held[claim.id] = HeldMessage(claim, now + claim.lease_ms / 1000)

    def _claim(self, id: int) -> AsyncClaimedItem:
        held = self._held.get(id) if type(id) is int else None
        if held is None:
            raise not_held(self.name, id)
        claim: AsyncClaimedItem = held.claim
        return claim

    async def _expire(self, claim: AsyncClaimedItem) -> None:
        requests = self._client._requests.items
        lease = requests.extend(self.name, claim.token or "", [claim.id], 0)
        if not await self._client._run(lease):
            raise not_held(self.name, claim.id)
        await self._client._run(requests.expire(self.name))

    async def _fail(self, message: Msg) -> None:
        problems = []
        for callback in list(self._callbacks):
            try:
                await call(callback, message)
            except Exception as problem:
                # The others are called first; then it is raised.
                problems.append(problem)
        if problems:
            raise ExceptionGroup(f"failure callbacks of queue {shown(self.name)}", problems)


async def retried(act: Callable[[float | None], Awaitable[T]], timeout: float | None) -> T:
    """Do something, with the seconds that are left for it, until the database is not locked."""
    limit = Timeout(timeout)
    while True:
        try:
            return await act(limit.left)
        except StoreBusy as error:
            if limit.is_over:
                raise db_locked(error) from error
            await sleep(limit.pause())
