"""References to queues: all that can be asked of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from headrace.client import claim_heartbeats
from headrace.client._async.channels import AsyncChannels, AsyncSelections
from headrace.client._async.dead_letters import AsyncDeadLetters
from headrace.client._async.items import AsyncClaimedItem
from headrace.client._async.queue_items import AsyncQueueItems
from headrace.client._async.queue_watch import AsyncQueueWatch
from headrace.client._runtime.aio import undo_if_cancelled
from headrace.client.delegate import delegated
from headrace.client.events import Callback, Emitter
from headrace.client.items import Item
from headrace.client.queue_reference import (
    QueueReference,
    Scope,
    by_claim,
    check_event,
    claim_of,
    kept,
    lost_or_gone,
)
from headrace.client.waiters import MAX_WAIT_SECONDS, Deadline
from headrace.client.workflows.settings_update import UpdateReport, update_settings
from headrace.contract.items import ClaimResponse, FinishedItem, MetricSample, Outcome, Settled
from headrace.contract.missing_part import has_part, noun
from headrace.core.channels import Choice, Order, choice_of
from headrace.core.documents import ItemOptions, SharedItemOptions
from headrace.core.outcomes import outcomes_of
from headrace.core.pushes import PushResult
from headrace.core.queue_settings import QueueOptions, changes_of
from headrace.core.views import QueueReport, QueueStats
from headrace.errors import ItemLost, UnknownQueue
from headrace.model.query.queries import Query
from headrace.model.queues.channels import QUANTUM
from headrace.model.queues.items import ItemState
from headrace.model.queues.settings import QueueInfo, WhileActive
from headrace.model.times import Duration, Moment

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient
    from headrace.worker._async.worker import AsyncWorker
    from headrace.worker.worker_options import WorkerOptions


T = TypeVar("T")


class AsyncQueue(QueueReference):
    """A queue by name, the same object each time a client is asked for it.

    The queue itself is created by the first push, claim or worker, with the stored defaults, or by
    ``hr.queues.create``.

    >>> mail = hr.queue("mail")
    >>> await mail.push({"to": "ann"}, delay="5m")
    >>> for item in await mail.claim(10, wait=None):
    ...     await item.complete()
    """

    def __init__(self, client: AsyncClient, name: str) -> None:
        # ASYNC
        super().__init__(name, is_async=True)
        # SYNC
        # super().__init__(name, is_async=False)
        # END
        self._client = client
        # ASYNC
        self._store_events = Emitter(is_async=True)
        # SYNC
        # self._store_events = Emitter(is_async=False)
        # END
        self._watch = AsyncQueueWatch(self, self._store_events)
        self._items = AsyncQueueItems(self)
        self.dead = AsyncDeadLetters(self)
        self.channels = noun(client._store, "channels", AsyncChannels(self))
        self.selections = noun(client._store, "channels", AsyncSelections(self))

    item = delegated("_items", AsyncQueueItems.get)
    items = delegated("_items", AsyncQueueItems.list)
    why = delegated("_items", AsyncQueueItems.why)
    cancel = delegated("_items", AsyncQueueItems.cancel)
    retry = delegated("_items", AsyncQueueItems.retry)
    edit = delegated("_items", AsyncQueueItems.edit)
    errors = delegated("_items", AsyncQueueItems.errors)

    async def claim(
        self,
        count: int = 1,
        *,
        lease: Duration | None = None,
        wait: float | None = 0.0,
        select: Query | None = None,
        order: Order = "fair",
        quantum: int = QUANTUM,
        heartbeat: bool = False,
        on_lost: Callable[[AsyncClaimedItem], object] | None = None,
    ) -> list[AsyncClaimedItem]:
        """Claim the next items, up to ``count``, in the queue's order.

        ``wait`` is how many seconds to wait for the first of them: 0 not at all, None for ever.
        An empty list when the time is over, or ``stop_waiting`` was called; ``NotConnected`` when
        the client is closed. A planned item is claimed the moment it is due. Settle each
        within its ``lease`` (the queue's ``lease`` unless given), or extend it: after
        that any claim may get it.

        ``select`` claims items of the channels that a query selects only: ``where(os="linux")``,
        or ``Query()`` for all. They alternate then, with up to ``quantum`` items each time;
        ``order="line"`` claims them in the order of the queue, whatever their channel.
        A claim that waits sees channels that are made meanwhile.

        With ``heartbeat`` the leases are extended automatically, each third of them, until the
        items are settled, the client is closed, or the item object is forgotten. If a claim is
        lost all the same, ``item.lost`` is True, it is logged, and ``on_lost`` is called with the
        item, in the thread of the heartbeats (async: on the event loop).
        """
        if heartbeat is not False or on_lost is not None:
            claim_heartbeats.check(heartbeat, on_lost)
        is_plain = select is None and order == "fair" and quantum == QUANTUM
        choice: Choice = {} if is_plain else choice_of(select, order, quantum)
        stops = self._stops
        deadline = None if wait == 0 and wait is not False else Deadline(wait)
        try:
            asked_at, response = monotonic(), await self._claim_now(count, lease, choice)
        except UnknownQueue:
            await self._client.queues.create(self.name, exist_ok=True)
            asked_at, response = monotonic(), await self._claim_now(count, lease, choice)
        if not response.items and deadline is not None:
            with self._client._waits.waiting(self.name, tuple(choice.items())) as waiter:
                while not (response.items or deadline.is_over or self._stops != stops):
                    await waiter.await_hint(
                        deadline.pause(response), deadline.at_most(MAX_WAIT_SECONDS)
                    )
                    asked_at, response = monotonic(), await self._claim_now(count, lease, choice)
        items = [AsyncClaimedItem(self, state) for state in response.items]
        if heartbeat and items:
            # ASYNC
            # In a thread too: a loop that is stuck must not cost the items.
            call = claim_heartbeats.call_on(asyncio.get_running_loop(), self._client._callbacks)
            # SYNC
            # call = claim_heartbeats.call
            # END
            self._client._claim_keepers.keep(items, asked_at, on_lost, call)
        return items

    async def _claim_now(self, count: int, lease: Duration | None, choice: Choice) -> ClaimResponse:
        request = self._client._requests.items.claim(self.name, count, lease, choice)
        # ASYNC
        return await undo_if_cancelled(self._client._run(request), self._release_all)

    async def _release_all(self, response: ClaimResponse) -> None:
        """Release the items of a caller that is gone, before their leases end."""
        outcomes = [
            Outcome(item=state.id, token=state.token or "", kind="release")
            for state in response.items
        ]
        if outcomes:
            await self._client._run(self._client._requests.items.settle(self.name, outcomes))

    # SYNC
    #     return self._client._run(request)
    #
    # END
    async def on(
        self, event: str, callback: Callback, *, scope: Scope = "client"
    ) -> Callable[[], None]:
        """Call back when something happens; returns the function that ends it.

        ``pushed`` brings the ``PushResult`` of a push or an upsert that this client made,
        ``updated`` the ``UpdateReport``, ``paused`` and ``resumed`` the ``QueueInfo``, ``dropped``
        how many live items there were. The events of this client's worker for the queue
        (``data``, ``error``, ``state``, ``lost``) are included. There are no events of what happens
        inside a transaction.

        With ``scope="all"`` it is called back for what any client does from now on, in whichever
        process and also in transactions, with a ``QueueChange``. This client polls the queue
        every second, and sooner where the store can notify, in a thread (async: in a task) that
        ends with the last callback or with the client. One call may stand for several pushes:
        ``count`` is how many items entered the queue, as its ``metrics`` count them.
        """
        check_event(event, scope)
        if scope == "client":
            return self._listen(event, callback)
        remove = self._store_events.add(event, callback)

        def end() -> None:
            remove()
            if not self._store_events.has_callbacks:
                self._watch.end()

        try:
            await self._watch.start()
        except BaseException:
            end()
            raise
        return end

    async def stop_waiting(self) -> None:
        """End all claims of this queue that wait, in whichever thread: they get nothing.

        Pushes that wait for capacity end, too, with ``PushTimeout``.
        """
        self._stops += 1
        self._client._waits.wake(self.name)

    async def settle(self, outcomes: Iterable[Outcome]) -> list[Settled]:
        """Say what became of claimed items, all in one transaction; one answer each, in order.

        Make outcomes with ``item.outcome(...)``. An item whose claim is lost is
        answered ``lost`` and nothing of its outcome is written; the others are not affected.
        """
        return await self._settle(outcomes_of(outcomes))

    async def _settle(self, outcomes: list[Outcome]) -> list[Settled]:
        call = self._client._requests.items.settle(self.name, outcomes)
        if not self._client._claim_keepers.keepers:
            return await self._client._run(call)
        with self._client._claim_keepers.settling(outcomes):
            return await self._client._run(call)

    async def complete(self, items: Iterable[AsyncClaimedItem]) -> list[Settled]:
        """Settle several items as done; one answer each, as in ``settle``."""
        return await self.settle([claim_of(item).outcome("complete") for item in items])

    async def release(self, items: Iterable[AsyncClaimedItem]) -> list[Settled]:
        """Release several items untouched; one answer each, as in ``settle``."""
        return await self.settle([claim_of(item).outcome("release") for item in items])

    async def extend(
        self, items: Iterable[AsyncClaimedItem], lease: Duration | None = None
    ) -> list[int]:
        """Keep items for so long from now; returns the ids of those whose claim still stands.

        Without a time each is kept for as long as its claim was made for.
        """
        ours: list[int] = []
        for (token, lease_ms), ids in by_claim(items, lease).items():
            call = self._client._requests.items.extend(self.name, token, ids, lease_ms)
            still: list[int] = await self._client._run(call)
            ours += still
        return ours

    async def _settle_one(self, outcome: Outcome) -> Settled:
        if self._client._claim_keepers.keepers:
            [settled] = await self._settle([outcome])
        else:
            # Most clients keep none, and this is called for every item.
            [settled] = await self._client._run(
                self._client._requests.items.settle(self.name, [outcome])
            )
        return kept(self.name, settled)

    def _item(self, state: ItemState | FinishedItem) -> Item:
        """An item as it was read."""
        return Item(state, max_body=self._client._max_body)

    async def _lost(self, item: Item) -> ItemLost:
        """The error for an item whose claim is lost."""
        if not has_part(self._client._store, "channels"):
            return lost_or_gone(self.name, item.id, [])
        call = self._client._requests.items.deleted(self.name, item.token or "", [item.id])
        return lost_or_gone(self.name, item.id, await self._client._run(call))

    async def _emit(self, event: str, *values: Any) -> None:
        await self._emitter.aemit(event, *values)

    async def push(
        self,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[ItemOptions],
    ) -> PushResult:
        """The client's ``push``, to this queue."""
        return await self._client.push(self.name, payload, key=key, wait=wait, **fields)

    async def push_many(
        self,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedItemOptions],
    ) -> PushResult:
        """The client's ``push_many``, to this queue."""
        return await self._client.push_many(self.name, documents, key=key, wait=wait, **fields)

    async def upsert(
        self,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[ItemOptions],
    ) -> PushResult:
        """The client's ``upsert``, to this queue."""
        return await self._client.upsert(
            self.name,
            payload,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    async def upsert_many(
        self,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedItemOptions],
    ) -> PushResult:
        """The client's ``upsert_many``, to this queue."""
        return await self._client.upsert_many(
            self.name,
            documents,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    async def start_worker(
        self, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
    ) -> AsyncWorker:
        """The client's ``start_worker``, on this queue."""
        # Workers stand above clients: it is the façade that has them.
        client: Any = self._client
        worker: AsyncWorker = await client.start_worker(self.name, handler, **options)
        return worker

    async def info(self) -> QueueReport:
        """Settings, numbers, workers, throughput and waits of this queue."""
        [report] = await self._client.queues.info(self.name)
        return report

    async def stats(self) -> QueueStats:
        """The numbers of this queue; see ``hr.queues.stats``."""
        [stats] = await self._client.queues.stats(self.name)
        return stats

    async def update(
        self, *, time_limit: float = 10.0, strict: bool = False, **settings: Unpack[QueueOptions]
    ) -> UpdateReport:
        """Change settings while no worker of the queue runs, in whichever process.

        No item is claimed from now on, and its workers are asked to stop. When all with a heartbeat
        in the last 15 seconds have stopped, or after ``time_limit`` seconds, the settings
        change and they start again. The report names those that did not stop in time; with
        ``strict`` nothing is changed then, and ``UpdateRefused`` names them. Without workers it
        is done immediately.
        """
        store = self._client._requests.store
        changes = changes_of(settings)
        report = await self._client._follow(
            update_settings(store, self.name, changes, time_limit, strict=strict)
        )
        await self._emit("updated", report)
        return report

    async def pause(self, *, by: str | None = None) -> QueueInfo:
        """Let nothing be claimed until the queue is resumed; items in flight can be settled.

        ``by`` names the operator, for people; by default this process.
        """
        info = await self._client._run(self._client._requests.queues.pause(self.name, by))
        await self._emit("paused", info)
        return info

    async def resume(self) -> QueueInfo:
        """Let items be claimed again."""
        info = await self._client._run(self._client._requests.queues.resume(self.name))
        await self._emit("resumed", info)
        return info

    async def drop(self, *, keep_data: bool = False) -> int:
        """Remove the queue and all that belongs to it; returns how many live items it had.

        With ``keep_data`` its items stay, and a queue made later with its name finds them.
        """
        request = self._client._requests.queues.drop(self.name, keep_data=keep_data)
        live = await self._client._run(request)
        await self._emit("dropped", live)
        return live

    async def samples(
        self, *, since: Moment | None = None, limit: int = 1000
    ) -> list[MetricSample]:
        """The queue's numbers over time, oldest first: one a minute, while a client maintains the store."""
        return await self._client._run(
            self._client._requests.queues.samples(self.name, since, limit)
        )
