"""Queues: what a client can do with them, beside pushing."""

from __future__ import annotations

from typing import Unpack

from headrace.client.calls import Call
from headrace.client.coalescing import AsyncCoalescer, Coalescer
from headrace.client.dead_letters import AsyncDeadLetters, DeadLetters
from headrace.client.item_claims import AsyncItemClaims, ItemClaims
from headrace.client.item_looks import AsyncItemLooks, ItemLooks
from headrace.client.items import AsyncItem, Item
from headrace.client.queue_calls import same
from headrace.client.queue_looks import AsyncQueueLooks, QueueLooks
from headrace.client.queues import AsyncQueue, Queue
from headrace.client.running import documented
from headrace.client.updating import UpdateReport, updating
from headrace.client.waiting import LONGEST_LOOK, Deadline, Waits
from headrace.contract.items import PushCall, PushFull, PushOutcome
from headrace.contract.store import Store
from headrace.core.pushes import PushResult, no_room, result_of
from headrace.core.queue_settings import Settings, changes_of
from headrace.model.queues import QueueInfo, room_word


class QueueOperations(QueueLooks):
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

    def update(
        self,
        name: str,
        *,
        time_limit: float = 10.0,
        strict: bool = False,
        **settings: Unpack[Settings],
    ) -> UpdateReport:
        """Change settings of a queue while no worker of it runs, in whichever process.

        Nothing is handed out from now on, and its workers are told to stop. When all that were
        heard of in the last 15 seconds stand still, or after ``time_limit`` seconds, the settings
        change and they start again. The report names those that did not stop in time; with
        ``strict`` nothing is changed then, and ``UpdateRefused`` names them. Without workers it
        is done at once.
        """
        store = self._queue_calls.store
        changes = changes_of(settings)
        report = self._follow(updating(store, name, changes, time_limit, strict=strict))
        self._tell(name, "updated", report)
        return report

    def pause(self, name: str, *, by: str | None = None) -> QueueInfo:
        """Hand out nothing until the queue is resumed; what is out can be settled.

        ``by`` says who did it, for people; by default this process.
        """
        info = self._run(self._queue_calls.pause(name, by))
        self._tell(name, "paused", info)
        return info

    def resume(self, name: str) -> QueueInfo:
        """Hand out items again."""
        info = self._run(self._queue_calls.resume(name))
        self._tell(name, "resumed", info)
        return info

    def drop(self, name: str, *, keep_data: bool = False) -> int:
        """Remove a queue and all that belongs to it; returns how many live items it had.

        With ``keep_data`` its items stay, and a queue made later with its name finds them.
        """
        live = self._run(self._queue_calls.drop(name, keep_data=keep_data))
        if name in self._references:
            self._references[name].is_made = False
        self._tell(name, "dropped", live)
        return live

    def _tell(self, name: str, event: str, value: object) -> None:
        if name in self._references:
            self._references[name].emit(event, value)

    def _refer(self, name: str) -> Queue:
        _ = self._calls
        max_body = self._built.max_body
        return self._references.get(name) or self._references.setdefault(
            name, Queue(self, name, max_body=max_body)
        )

    def _flush_pushes(self, calls: list[PushCall]) -> list[PushOutcome]:
        return self._run(Call(self._built_for_queues.store.push(calls), same))

    def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        deadline = Deadline(wait)
        outcome = self._pushes.send(call)
        if isinstance(outcome, PushFull) and wait != 0:
            reference = self._refer(call.queue)
            stops = reference._stops
            with self._waits.listening(room_word(call.queue)) as waiter:
                # Tried once more, since somebody may have gone before there was a waiter.
                while isinstance(outcome := self._pushes.send(call), PushFull):
                    # A closed client says so here.
                    _ = self._calls
                    if deadline.is_over or reference._stops != stops:
                        raise no_room(outcome)
                    waiter.wait(deadline.at_most(LONGEST_LOOK))
        result = result_of(outcome)
        self._tell(call.queue, "pushed", result)
        return result


class AsyncQueueOperations(AsyncQueueLooks):
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

    async def update(
        self,
        name: str,
        *,
        time_limit: float = 10.0,
        strict: bool = False,
        **settings: Unpack[Settings],
    ) -> UpdateReport:
        store = self._queue_calls.store
        changes = changes_of(settings)
        report = await self._follow(updating(store, name, changes, time_limit, strict=strict))
        await self._tell(name, "updated", report)
        return report

    async def pause(self, name: str, *, by: str | None = None) -> QueueInfo:
        info = await self._run(self._queue_calls.pause(name, by))
        await self._tell(name, "paused", info)
        return info

    async def resume(self, name: str) -> QueueInfo:
        info = await self._run(self._queue_calls.resume(name))
        await self._tell(name, "resumed", info)
        return info

    async def drop(self, name: str, *, keep_data: bool = False) -> int:
        live = await self._run(self._queue_calls.drop(name, keep_data=keep_data))
        if name in self._references:
            self._references[name].is_made = False
        await self._tell(name, "dropped", live)
        return live

    async def _tell(self, name: str, event: str, value: object) -> None:
        if name in self._references:
            await self._references[name].emit(event, value)

    def _refer(self, name: str) -> AsyncQueue:
        _ = self._calls
        max_body = self._built.max_body
        return self._references.get(name) or self._references.setdefault(
            name, AsyncQueue(self, name, max_body=max_body)
        )

    async def _flush_pushes(self, calls: list[PushCall]) -> list[PushOutcome]:
        return await self._run(Call(self._built_for_queues.store.push(calls), same))

    async def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        deadline = Deadline(wait)
        outcome = await self._pushes.send(call)
        if isinstance(outcome, PushFull) and wait != 0:
            reference = self._refer(call.queue)
            stops = reference._stops
            with self._waits.listening(room_word(call.queue)) as waiter:
                while isinstance(outcome := await self._pushes.send(call), PushFull):
                    # A closed client says so here.
                    _ = self._calls
                    if deadline.is_over or reference._stops != stops:
                        raise no_room(outcome)
                    await waiter.await_hint(deadline.at_most(LONGEST_LOOK))
        result = result_of(outcome)
        await self._tell(call.queue, "pushed", result)
        return result


documented(AsyncQueueOperations, QueueOperations)
documented(AsyncItemClaims, ItemClaims)
documented(AsyncItemLooks, ItemLooks)
documented(AsyncDeadLetters, DeadLetters)
documented(AsyncQueue, Queue)
documented(AsyncItem, Item)
