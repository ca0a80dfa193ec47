"""Claiming items of a queue and settling them: one half of a queue reference."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from headrace.client.calls import Call
from headrace.client.emitting import Callback, Emitter
from headrace.client.items import AsyncItem, Item, ItemView
from headrace.client.waiting import Deadline
from headrace.contract.finishing import finish
from headrace.contract.items import Outcome, Settled, Taking
from headrace.core.channels import Choice, Order, choice_of
from headrace.core.times import Duration, duration_ms
from headrace.errors import InvalidOption, ItemLost, UnknownQueue
from headrace.model import refusals
from headrace.model.channels import QUANTUM
from headrace.model.queries import Query

if TYPE_CHECKING:
    from headrace.client.queue_operations import AsyncQueueOperations, QueueOperations

T = TypeVar("T")


WORKER_EVENTS = ("data", "error", "state", "lost")


class Worker(Protocol):
    """What a queue needs of a worker."""

    def on(self, event: Any, callback: Any) -> Callable[[], None]:
        """Hear of an event; returns the function that ends it."""
        ...


class Ear(NamedTuple):
    """One who listens, and how to end it."""

    event: str
    callback: Callback
    offs: list[Callable[[], None]]

    def listen(self, worker: Worker) -> None:
        """Hear a worker, too."""
        if self.event in WORKER_EVENTS:
            self.offs.append(worker.on(self.event, self.callback))


class QueueReference:
    """A queue by name. It lives in the store; this is only a handle."""

    def __init__(self, name: str, *, max_body: int, is_async: bool) -> None:
        self.name = name
        self.max_body = max_body
        # Whether this client has seen it in the store, so that asking again is free.
        self.is_made = False
        self._emitter = Emitter(is_async=is_async)
        self._ears: list[Ear] = []
        self._worker: Worker | None = None
        self._stops = 0

    def on(self, event: str, callback: Callback) -> Callable[[], None]:
        """Call back when something happens; returns the function that ends it.

        ``pushed`` brings the ``PushResult`` of a push or an upsert that this client made,
        ``updated`` the ``UpdateReport``, ``paused`` and ``resumed`` the ``QueueInfo``, ``dropped``
        how many live items there were. The events of this client's worker for the queue
        (``data``, ``error``, ``state``, ``lost``) are heard, too. Nothing is told of what happens
        inside a transaction, nor of other clients.
        """
        ear = Ear(event, callback, [self._emitter.add(event, callback)])
        self._ears.append(ear)
        if self._worker is not None:
            ear.listen(self._worker)

        def end() -> None:
            if ear in self._ears:
                self._ears.remove(ear)
                for off in ear.offs:
                    off()

        return end

    def attach(self, worker: Worker) -> None:
        """Let those who listen to the queue hear its worker."""
        self._worker = worker
        for ear in self._ears:
            ear.listen(worker)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class ItemClaims(QueueReference):
    """Claims for blocking code."""

    _client: QueueOperations

    def claim(
        self,
        count: int = 1,
        *,
        lease: Duration | None = None,
        wait: float | None = 0.0,
        select: Query | None = None,
        order: Order = "fair",
        quantum: int = QUANTUM,
    ) -> list[Item]:
        """Take the next items, up to ``count``, in the queue's order.

        ``wait`` is how many seconds to wait for the first of them: 0 not at all, None for ever.
        An empty list when the time is over, or ``stop_waiting`` was called; ``NotConnected`` when
        the client is closed. A planned item is handed out the moment it is due. Settle each
        within its ``lease`` (the queue's ``lock_duration`` unless given), or extend it: after
        that anybody may get it.

        ``select`` takes items of the channels that a query selects only: ``where(os="linux")``,
        or ``Query()`` for all. They take turns then, and give up to ``quantum`` items each time;
        ``order="line"`` takes them as they stand in the queue's line, whatever their channel.
        A claim that waits sees channels that are made meanwhile.
        """
        choice = choice_of(select, order, quantum)
        stops = self._stops
        deadline = Deadline(wait)
        taking = self._take(count, lease, choice)
        if not taking.items and wait != 0:
            with self._client._waits.waiting(self.name) as waiter:
                # Looked at once more, since something may have come before there was a waiter.
                while not (taking := self._take(count, lease, choice)).items:
                    if deadline.is_over or self._stops != stops:
                        break
                    waiter.wait(deadline.pause(taking))
        return [Item(self, state, is_claimed=True) for state in taking.items]

    def stop_waiting(self) -> None:
        """End all claims of this queue that wait, in whichever thread: they get nothing.

        Pushes that wait for room end, too, with ``PushTimeout``.
        """
        self._stops += 1
        self._client._waits.wake(self.name)

    def settle(self, outcomes: Iterable[Outcome]) -> list[Settled]:
        """Say what became of claimed items, all in one transaction; one answer each, in order.

        Make outcomes with ``item.outcome(...)``. An item whose claim does not stand any more is
        answered ``lost`` and nothing of its outcome is written; the others are not affected.
        """
        return self._ask(self._client._queue_calls.settle(self.name, list(outcomes)))

    def complete(self, items: Iterable[Item]) -> list[Settled]:
        """Settle several items as done; one answer each, as in ``settle``."""
        return self.settle([item.outcome("complete") for item in items])

    def release(self, items: Iterable[Item]) -> list[Settled]:
        """Hand several items back untouched; one answer each, as in ``settle``."""
        return self.settle([item.outcome("release") for item in items])

    def extend(self, items: Iterable[Item], lease: Duration | None = None) -> list[int]:
        """Keep items for so long from now; returns the ids of those that are still ours.

        Without a time each is kept for as long as its claim was made for.
        """
        ours: list[int] = []
        for (token, lease_ms), ids in by_claim(items, lease).items():
            call = self._client._queue_calls.extend(self.name, token, ids, lease_ms)
            still: list[int] = self._ask(call)
            ours += still
        return ours

    def _take(self, count: int, lease: Duration | None, choice: Choice) -> Taking:
        return self._ask(self._client._queue_calls.claim(self.name, count, lease, choice))

    def _settle_one(self, said: Outcome) -> Settled:
        [settled] = self._ask(self._client._queue_calls.settle(self.name, [said]))
        return kept(self.name, settled)

    def _ask(self, call: Call[T]) -> T:
        try:
            return self._client._run(call)
        except UnknownQueue:
            self.is_made = False
            raise

    def _lost(self, item: ItemView) -> ItemLost:
        """Why an item is not ours any more."""
        call = self._client._queue_calls.gone(self.name, item.token or "", [item.id])
        return lost_or_gone(self.name, item.id, self._ask(call))

    def emit(self, event: str, *values: Any) -> None:
        """Tell those who listen of an event of your own."""
        self._emitter.emit(event, *values)


class AsyncItemClaims(QueueReference):
    """Claims for async code."""

    _client: AsyncQueueOperations

    async def claim(
        self,
        count: int = 1,
        *,
        lease: Duration | None = None,
        wait: float | None = 0.0,
        select: Query | None = None,
        order: Order = "fair",
        quantum: int = QUANTUM,
    ) -> list[AsyncItem]:
        choice = choice_of(select, order, quantum)
        stops = self._stops
        deadline = Deadline(wait)
        taking = await self._take(count, lease, choice)
        if not taking.items and wait != 0:
            with self._client._waits.waiting(self.name) as waiter:
                while not (taking := await self._take(count, lease, choice)).items:
                    if deadline.is_over or self._stops != stops:
                        break
                    await waiter.await_hint(deadline.pause(taking))
        return [AsyncItem(self, state, is_claimed=True) for state in taking.items]

    async def stop_waiting(self) -> None:
        self._stops += 1
        self._client._waits.wake(self.name)

    async def settle(self, outcomes: Iterable[Outcome]) -> list[Settled]:
        return await self._ask(self._client._queue_calls.settle(self.name, list(outcomes)))

    async def complete(self, items: Iterable[AsyncItem]) -> list[Settled]:
        return await self.settle([item.outcome("complete") for item in items])

    async def release(self, items: Iterable[AsyncItem]) -> list[Settled]:
        return await self.settle([item.outcome("release") for item in items])

    async def extend(self, items: Iterable[AsyncItem], lease: Duration | None = None) -> list[int]:
        ours: list[int] = []
        for (token, lease_ms), ids in by_claim(items, lease).items():
            call = self._client._queue_calls.extend(self.name, token, ids, lease_ms)
            still: list[int] = await self._ask(call)
            ours += still
        return ours

    async def _take(self, count: int, lease: Duration | None, choice: Choice) -> Taking:
        call = self._client._queue_calls.claim(self.name, count, lease, choice)
        task = asyncio.ensure_future(self._ask(call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._give_back(task)
            raise

    async def _give_back(self, task: asyncio.Future[Taking]) -> None:
        """What was handed out to somebody who is gone must not wait for the end of its lease."""
        # The cancellation goes before whatever else is wrong here; the lease ends anyway.
        with contextlib.suppress(Exception):
            taking = await finish(task)
            said = [
                Outcome(item=state.id, token=state.token or "", kind="release")
                for state in taking.items
            ]
            if said:
                await finish(self._ask(self._client._queue_calls.settle(self.name, said)))

    async def _settle_one(self, said: Outcome) -> Settled:
        [settled] = await self._ask(self._client._queue_calls.settle(self.name, [said]))
        return kept(self.name, settled)

    async def _ask(self, call: Call[T]) -> T:
        try:
            return await self._client._run(call)
        except UnknownQueue:
            self.is_made = False
            raise

    async def _lost(self, item: ItemView) -> ItemLost:
        call = self._client._queue_calls.gone(self.name, item.token or "", [item.id])
        return lost_or_gone(self.name, item.id, await self._ask(call))

    async def emit(self, event: str, *values: Any) -> None:
        await self._emitter.aemit(event, *values)


def by_claim(
    items: Iterable[ItemView], lease: Duration | None
) -> dict[tuple[str, int], Sequence[int]]:
    """Ids by the claim they belong to, and how many milliseconds it shall last."""
    given = None if lease is None else duration_ms("lease", lease, least=1)
    found: dict[tuple[str, int], list[int]] = {}
    for item in items:
        if not isinstance(item, ItemView):
            raise InvalidOption(f"{item!r:.80} is not an item.", option="items")
        if item.token is None:
            raise refusals.item_lost(item.queue, item.id)
        found.setdefault((item.token, given or item.lease_ms), []).append(item.id)
    return dict(found)


def kept(queue: str, settled: Settled) -> Settled:
    """The answer, unless the item was lost."""
    if settled.state == "gone":
        raise refusals.item_gone(queue, settled.item)
    if settled.state == "lost":
        raise refusals.item_lost(queue, settled.item)
    return settled


def lost_or_gone(queue: str, item: int, gone: list[int]) -> ItemLost:
    """What to say of an item that is not ours any more."""
    return refusals.item_gone(queue, item) if item in gone else refusals.item_lost(queue, item)
