"""Ready-made kinds of queues, as gopq has them, blocking and async."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headrace.client.item_claims import QueueReference
from headrace.client.items import AsyncItem, Error, Item
from headrace.client.kinds import Callback, Message, Patience, digest, nothing
from headrace.client.queues import AsyncQueue, Queue
from headrace.errors import ItemLost, StoreBusy
from headrace.model import refusals
from headrace.model.failures import Failure

T = TypeVar("T")


class SimpleQueue:
    """First in, first out; an item is processed once it is handed out.

    Methods that begin with ``try_`` make one attempt. The others wait: for an item, and for a
    database that others have locked; ``wait`` says for how many seconds, None for ever.
    """

    def __init__(self, queue: Queue, *, is_unique: bool) -> None:
        self.queue = queue
        self.is_unique = is_unique

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.queue.name

    def enqueue(self, item: Any, *, wait: float | None = None) -> int | None:
        """Put an item at the end; its id, or None if it is a duplicate and was left out."""
        return self._persist(lambda _: self.try_enqueue(item), wait)

    def try_enqueue(self, item: Any) -> int | None:
        """``enqueue`` in one attempt; ``StoreBusy`` if the database is locked."""
        subject = digest(item) if self.is_unique else None
        result = self.queue.push(item, subject=subject)
        return result.id if result.pushed else None

    def dequeue(self, *, wait: float | None = None) -> Message[Item]:
        """Take the next item, and wait for one; ``NoItemsWaiting`` when the time is over."""
        return self._persist(self._next, wait)

    def try_dequeue(self) -> Message[Item]:
        """``dequeue`` without waiting: ``NoItemsWaiting`` if there is nothing."""
        return self._next(0.0)

    def len(self) -> int:
        """How many items wait; what is handed out and not acknowledged does not count."""
        stats = self.queue.stats()
        return stats.pending + stats.planned

    def _next(self, wait: float | None) -> Message[Item]:
        patience = Patience(wait)
        while items := self.queue.claim(wait=patience.left):
            try:
                items[0].complete()
            except ItemLost:
                continue  # so slow that it was taken away: it is somebody else's now
            return Message(items[0])
        raise nothing(self.name)

    def _persist(self, act: Callable[[float | None], T], wait: float | None) -> T:
        patience = Patience(wait)
        while True:
            try:
                return act(patience.left)
            except StoreBusy:
                if patience.is_over:
                    raise
                time.sleep(patience.pause())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class AckQueue(SimpleQueue):
    """First in, first out; an item that is not acknowledged in time is handed out again.

    A message that has failed as often as it may is dead: it goes to the dead letter queues, or
    else it is kept in ``queue.dead``.
    """

    def __init__(self, queue: Queue, *, is_unique: bool) -> None:
        super().__init__(queue, is_unique=is_unique)
        self._callbacks: list[Callback] = []

    def ack(self, message: Message[Item], *, wait: float | None = None) -> None:
        """The message is processed; ``ItemLost`` if it is not ours any more."""
        self._persist(lambda _: self.try_ack(message), wait)

    def try_ack(self, message: Message[Item]) -> None:
        """``ack`` in one attempt; ``StoreBusy`` if the database is locked."""
        message._claimed.complete()

    def nack(
        self, message: Message[Item], error: Error | None = None, *, wait: float | None = None
    ) -> bool:
        """The message failed; whether it comes again. ``ItemLost`` if it is not ours any more.

        It is hidden for ``retry_backoff`` and then the next one.
        """
        comes_again = self._persist(lambda _: self._reject(message, error), wait)
        if not comes_again:
            self._fail(message, error)
        return comes_again

    def try_nack(self, message: Message[Item], error: Error | None = None) -> bool:
        """``nack`` in one attempt; ``StoreBusy`` if the database is locked."""
        comes_again = self._reject(message, error)
        if not comes_again:
            self._fail(message, error)
        return comes_again

    def expire_ack(self, message: Message[Item]) -> None:
        """End the time for the acknowledgement now: the message is handed out again.

        It counts as a retry. ``ItemLost`` if it is not ours any more.
        """
        client, item = self.queue._client, message._claimed
        call = client._queue_calls.extend(self.name, item.token or "", [item.id], 0)
        if not client._run(call):
            raise refusals.item_lost(self.name, item.id)
        client._run(client._queue_calls.expire(self.name))

    def on_failure(self, callback: Callback) -> Callable[[], None]:
        """Call back with each message that this object nacks for the last time, and its error.

        After the message is dead, in the caller of ``nack``, in the order in which callbacks
        came; all are called, and what they raise is raised as an ``ExceptionGroup``. Messages
        that die because nobody acknowledged them in time are not told of. Returns the function
        that ends it.
        """
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def register_dead_letter_queue(self, queue: SimpleQueue | Queue | str) -> None:
        """Let messages that failed go to another queue of the same store, in one transaction.

        Several may be registered; each gets a copy. They may have dead letter queues of their
        own. It is a setting of the queue (``dead_to``): it counts for all clients.
        """
        client = self.queue._client
        client._run(client._queue_calls.add_dead_queue(self.name, name_of(queue)))

    def _next(self, wait: float | None) -> Message[Item]:
        for item in self.queue.claim(wait=wait):
            return Message(item)
        raise nothing(self.name)

    def _reject(self, message: Message[Item], error: Error | None) -> bool:
        return message._claimed.reject(error) is not None

    def _fail(self, message: Message[Item], error: Error | None) -> None:
        problems = []
        for callback in list(self._callbacks):
            try:
                callback(message, words(error))
            except Exception as problem:
                # The others hear of it first; then it is raised.
                problems.append(problem)
        complain(self.name, problems)


class AsyncSimpleQueue:
    """``SimpleQueue`` for async code."""

    def __init__(self, queue: AsyncQueue, *, is_unique: bool) -> None:
        self.queue = queue
        self.is_unique = is_unique

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.queue.name

    async def enqueue(self, item: Any, *, wait: float | None = None) -> int | None:
        return await self._persist(lambda _: self.try_enqueue(item), wait)

    async def try_enqueue(self, item: Any) -> int | None:
        subject = digest(item) if self.is_unique else None
        result = await self.queue.push(item, subject=subject)
        return result.id if result.pushed else None

    async def dequeue(self, *, wait: float | None = None) -> Message[AsyncItem]:
        return await self._persist(self._next, wait)

    async def try_dequeue(self) -> Message[AsyncItem]:
        return await self._next(0.0)

    async def len(self) -> int:
        stats = await self.queue.stats()
        return stats.pending + stats.planned

    async def _next(self, wait: float | None) -> Message[AsyncItem]:
        patience = Patience(wait)
        while items := await self.queue.claim(wait=patience.left):
            try:
                await items[0].complete()
            except ItemLost:
                continue  # so slow that it was taken away: it is somebody else's now
            return Message(items[0])
        raise nothing(self.name)

    async def _persist(self, act: Callable[[float | None], Awaitable[T]], wait: float | None) -> T:
        patience = Patience(wait)
        while True:
            try:
                return await act(patience.left)
            except StoreBusy:
                if patience.is_over:
                    raise
                await asyncio.sleep(patience.pause())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class AsyncAckQueue(AsyncSimpleQueue):
    """``AckQueue`` for async code. Callbacks may be coroutines."""

    def __init__(self, queue: AsyncQueue, *, is_unique: bool) -> None:
        super().__init__(queue, is_unique=is_unique)
        self._callbacks: list[Callback] = []

    async def ack(self, message: Message[AsyncItem], *, wait: float | None = None) -> None:
        await self._persist(lambda _: self.try_ack(message), wait)

    async def try_ack(self, message: Message[AsyncItem]) -> None:
        await message._claimed.complete()

    async def nack(
        self,
        message: Message[AsyncItem],
        error: Error | None = None,
        *,
        wait: float | None = None,
    ) -> bool:
        comes_again = await self._persist(lambda _: self._reject(message, error), wait)
        if not comes_again:
            await self._fail(message, error)
        return comes_again

    async def try_nack(self, message: Message[AsyncItem], error: Error | None = None) -> bool:
        comes_again = await self._reject(message, error)
        if not comes_again:
            await self._fail(message, error)
        return comes_again

    async def expire_ack(self, message: Message[AsyncItem]) -> None:
        client, item = self.queue._client, message._claimed
        call = client._queue_calls.extend(self.name, item.token or "", [item.id], 0)
        if not await client._run(call):
            raise refusals.item_lost(self.name, item.id)
        await client._run(client._queue_calls.expire(self.name))

    def on_failure(self, callback: Callback) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    async def register_dead_letter_queue(self, queue: AsyncSimpleQueue | AsyncQueue | str) -> None:
        client = self.queue._client
        await client._run(client._queue_calls.add_dead_queue(self.name, name_of(queue)))

    async def _next(self, wait: float | None) -> Message[AsyncItem]:
        for item in await self.queue.claim(wait=wait):
            return Message(item)
        raise nothing(self.name)

    async def _reject(self, message: Message[AsyncItem], error: Error | None) -> bool:
        return await message._claimed.reject(error) is not None

    async def _fail(self, message: Message[AsyncItem], error: Error | None) -> None:
        problems = []
        for callback in list(self._callbacks):
            try:
                result = callback(message, words(error))
                if inspect.isawaitable(result):
                    await result
            except Exception as problem:
                # The others hear of it first; then it is raised.
                problems.append(problem)
        complain(self.name, problems)


def name_of(queue: SimpleQueue | AsyncSimpleQueue | QueueReference | str) -> str:
    """A queue given by name or by reference."""
    return queue if isinstance(queue, str) else queue.name


def words(error: Error | None) -> str:
    """What a failure callback is told of the error."""
    if isinstance(error, Failure):
        return error.message
    return "" if error is None else str(error)


def complain(queue: str, problems: list[Exception]) -> None:
    """Raise what failure callbacks raised."""
    if problems:
        raise ExceptionGroup(f"failure callbacks of queue {queue!r}", problems)
