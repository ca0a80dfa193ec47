"""What a client and a transaction have in common: data verbs, and running operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar, Unpack

from headrace.client._async.procs import AsyncProc, AsyncProcs
from headrace.client._async.topics import AsyncTopics
from headrace.client._runtime.aio import sleep
from headrace.client.status import Status
from headrace.client.workflows import Plan
from headrace.contract.items import Outcome, PushCall, Settled
from headrace.contract.op import Op
from headrace.contract.shield import finish
from headrace.contract.store import Session, Store
from headrace.core.documents import ItemOptions, SharedItemOptions
from headrace.core.outcomes import outcomes_of
from headrace.core.pushes import PushResult
from headrace.core.requests import Requests
from headrace.core.requests.request import Request
from headrace.errors import StoreError
from headrace.model.queues.settings import WhileActive
from headrace.model.times import Duration
from headrace.model.topics.records import Record

T = TypeVar("T")


class AsyncOperations:
    """A store or a transaction of it for async code, and whether it works."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self._store = store
        self._requests = Requests(store, max_body=max_body)
        self._max_body = max_body
        self._status = Status.READY
        self.topics = AsyncTopics(self)
        self.procs = AsyncProcs(self)

    def proc(self, name: str) -> AsyncProc:
        """Refer to a proc; ``procs.create`` makes one."""
        self._check_open()
        return AsyncProc(self, name)

    async def range(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Record]:
        """Read records in order.

        An end is a full id ``1518951480106-7``, a timestamp in milliseconds
        ``1518951480106`` (the whole millisecond), a sequence number ``:7`` (which must
        exist), or nothing. ``exclusive`` leaves out both ends, but no timestamps. No
        limit, or one below 1, reads all: use ``iterate`` for what does not fit in memory. With
        ``reverse`` records are read backwards: ``start`` is the high end, ``end`` the low one.
        """
        records = self._scan(topic, start, end, exclusive, limit, descending=reverse)
        # ASYNC
        return [record async for record in records]
        # SYNC
        # return list(records)
        # END

    def iterate(
        self,
        topic: str,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[Record]:
        """Stream a range in constant memory, page by page.

        It ends where the topic ended when it began. With ``reverse`` the ends are as in
        ``range``. No transaction stays open between pages.
        """
        return self._scan(topic, start, end, exclusive, limit, descending=reverse)

    def _scan(
        self,
        topic: str,
        start: str | None,
        end: str | None,
        exclusive: bool,
        limit: int | None,
        *,
        descending: bool,
    ) -> AsyncIterator[Record]:
        scan = self._requests.topics.scan(topic, start, end, exclusive, limit, descending)

        async def pages() -> AsyncIterator[Record]:
            while scan.query is not None:
                page = await self._run(self._requests.topics.read(scan))
                # ASYNC
                for record in page:
                    yield record
                # SYNC
                # yield from page
                # END

        return pages()

    async def push(
        self,
        queue: str,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[ItemOptions],
    ) -> PushResult:
        """Put an item into a queue, unless a live one has its subject: then it is skipped.

        A queue that does not exist is made with the stored defaults. The payload is any JSON
        value, or bytes. Item options::

            subject         its identity in the queue; none: it is like no other
            priority        higher goes first, where the queue's discipline is ``priority``
            at, delay       when it is due: a moment, or a wait; neither: now
            headers         text beside the payload
            max_attempts    how often it is claimed before it is dead; -1: no limit
            retry_position  ``back`` or ``front``: where it stands when it comes back
            updateable      False: no upsert changes it; True: what is pushed behind it in its
                            channel takes its place
            channel         key-values: the line inside the queue that it stands in
            lease           how long a claim on it lasts

        With a ``key`` the push counts once: the same key and content within 24 hours returns
        the first result again and writes nothing, other content raises ``KeyReused``.

        A queue or channel at its capacity raises ``QueueFull``. With ``wait`` the push waits so
        many seconds for free slots, None for ever: ``PushTimeout`` when the time is over, or
        ``stop_waiting`` was called.
        """
        return await self._push(self._requests.items.push_one(queue, payload, fields, key), wait)

    async def push_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedItemOptions],
    ) -> PushResult:
        """Put many items into a queue, all or none, in this order.

        A document is a payload, with the ``fields`` given here, or a ``headrace.Doc`` with its
        own. ``wait`` is how long to wait for capacity for all of them, as in ``push``.
        """
        return await self._push(self._requests.items.push_many(queue, documents, fields, key), wait)

    async def upsert(
        self,
        queue: str,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[ItemOptions],
    ) -> PushResult:
        """Put an item into a queue, or replace what the live item of its subject carries.

        Payload, headers, priority, due time and the item's own settings are replaced; its id
        and attempts stay. An item in flight is left alone, or with ``while_active="next"`` this
        becomes what comes after it. With ``debounce`` it waits until it has not been upserted
        for so long, but no longer than ``max_wait`` in all. An update needs no capacity;
        ``wait`` is how long a new one waits for it, as in ``push``.
        """
        requests = self._requests
        return await self._push(
            requests.items.push_one(
                queue,
                payload,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    async def upsert_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedItemOptions],
    ) -> PushResult:
        """``upsert`` many documents, all or none; see ``push_many``."""
        requests = self._requests
        return await self._push(
            requests.items.push_many(
                queue,
                documents,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    async def settle(self, queue: str, outcomes: Iterable[Outcome]) -> list[Settled]:
        """Say what became of claimed items, all in one transaction; one answer each, in order.

        Make outcomes with ``item.outcome(...)``. An item whose claim is lost is
        answered ``lost`` and nothing of its outcome is written; the others are not affected.
        """
        given = outcomes_of(outcomes)
        call = self._requests.items.settle(queue, given)
        return await self._settle(call, given)

    async def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        raise NotImplementedError  # a client groups pushes, a transaction cannot wait

    async def _settle(self, call: Request[list[Settled]], given: list[Outcome]) -> list[Settled]:
        raise NotImplementedError  # heartbeats end now, or when the transaction is committed

    def _check_open(self) -> None:
        """Raise ``NotConnected`` once it is closed."""
        _ = self._requests.store

    def _note(self, error: Exception | None) -> None:
        if self._status is not Status.UNINITIALISED:
            is_failing = isinstance(error, StoreError)
            self._status = Status.FAILING if is_failing else Status.READY

    async def _run(self, call: Request[T]) -> T:
        try:
            answer = await self._store.arun(call.op)
        except Exception as error:
            self._note(error)
            raise
        if self._status is not Status.READY:
            self._note(None)
        if call.finish is None:
            result: T = answer
            return result
        return call.finish(answer)

    async def _follow(self, plan: Plan[T]) -> T:
        """Do what a plan says; ``headrace.client.workflows``."""
        answer: Any = None
        error: BaseException | None = None
        # ASYNC
        is_cancelled = False
        # END
        while True:
            # ASYNC
            is_cancelled = is_cancelled or isinstance(error, asyncio.CancelledError)
            # END
            try:
                step = plan.send(answer) if error is None else plan.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = error = None
            try:
                if isinstance(step, Op):
                    # ASYNC
                    running = self._run(Request[Any](step))
                    # What is tidied up after a cancellation is not cut short by another one.
                    answer = await (finish(running) if is_cancelled else running)
                    # SYNC
                    # answer = self._run(Request(step))
                    # END
                else:
                    await sleep(step)
            except BaseException as problem:
                # The plan decides what is to be tidied up, and raises it again.
                error = problem
