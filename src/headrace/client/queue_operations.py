"""Queues: what a client can do with them, beside pushing."""

from __future__ import annotations

from typing import Unpack

from headrace.client.calls import Call
from headrace.client.coalescing import AsyncCoalescer, Coalescer
from headrace.client.item_claims import AsyncItemClaims, ItemClaims
from headrace.client.items import AsyncItem, Item
from headrace.client.operations import documented
from headrace.client.pushing import AsyncPushing, Pushing
from headrace.client.queue_calls import same
from headrace.client.queues import AsyncQueue, Queue
from headrace.client.waiting import Waits
from headrace.contract.items import PushCall, PushOutcome
from headrace.contract.store import Store
from headrace.core.pushes import PushResult, result_of
from headrace.core.queue_settings import Settings


class QueueOperations(Pushing):
    """Queues for blocking code."""

    _store: Store

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._pushes: Coalescer[PushCall, PushOutcome] = Coalescer(self._flush_pushes)
        self._waits = Waits(store)
        self._references: dict[str, Queue] = {}

    def queue(self, name: str, **settings: Unpack[Settings]) -> Queue:
        """Refer to a queue, and make it if there is none of that name.

        The same object each time. Settings that are given are stored, on an existing queue
        too, at once: ``update`` stops its workers first. A new queue has the stored defaults
        otherwise.
        """
        reference = self._refer(name)
        if settings or not reference.is_made:
            self._run(self._queue_calls.create(name, settings, is_new=False))
            reference.is_made = True
        return reference

    def ref(self, name: str, **settings: Unpack[Settings]) -> Queue:
        """``queue`` by FetchQ's name."""
        return self.queue(name, **settings)

    def create(self, name: str, **settings: Unpack[Settings]) -> Queue:
        """Make a queue with the stored defaults and some settings; ``QueueExists`` if it is there."""
        self._run(self._queue_calls.create(name, settings, is_new=True))
        reference = self._refer(name)
        reference.is_made = True
        return reference

    def _refer(self, name: str) -> Queue:
        _ = self._calls
        max_body = self._built.max_body
        return self._references.get(name) or self._references.setdefault(
            name, Queue(self, name, max_body=max_body)
        )

    def _flush_pushes(self, calls: list[PushCall]) -> list[PushOutcome]:
        return self._run(Call(self._built_for_queues.store.push(calls), same))

    def _push(self, call: PushCall) -> PushResult:
        result = result_of(self._pushes.send(call))
        if call.queue in self._references:
            self._references[call.queue].emit("pushed", result)
        return result


class AsyncQueueOperations(AsyncPushing):
    """Queues for async code."""

    _store: Store

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._pushes: AsyncCoalescer[PushCall, PushOutcome] = AsyncCoalescer(self._flush_pushes)
        self._waits = Waits(store)
        self._references: dict[str, AsyncQueue] = {}

    async def queue(self, name: str, **settings: Unpack[Settings]) -> AsyncQueue:
        reference = self._refer(name)
        if settings or not reference.is_made:
            await self._run(self._queue_calls.create(name, settings, is_new=False))
            reference.is_made = True
        return reference

    async def ref(self, name: str, **settings: Unpack[Settings]) -> AsyncQueue:
        return await self.queue(name, **settings)

    async def create(self, name: str, **settings: Unpack[Settings]) -> AsyncQueue:
        await self._run(self._queue_calls.create(name, settings, is_new=True))
        reference = self._refer(name)
        reference.is_made = True
        return reference

    def _refer(self, name: str) -> AsyncQueue:
        _ = self._calls
        max_body = self._built.max_body
        return self._references.get(name) or self._references.setdefault(
            name, AsyncQueue(self, name, max_body=max_body)
        )

    async def _flush_pushes(self, calls: list[PushCall]) -> list[PushOutcome]:
        return await self._run(Call(self._built_for_queues.store.push(calls), same))

    async def _push(self, call: PushCall) -> PushResult:
        result = result_of(await self._pushes.send(call))
        if call.queue in self._references:
            await self._references[call.queue].emit("pushed", result)
        return result


documented(AsyncQueueOperations, QueueOperations)
documented(AsyncItemClaims, ItemClaims)
documented(AsyncQueue, Queue)
documented(AsyncItem, Item)
