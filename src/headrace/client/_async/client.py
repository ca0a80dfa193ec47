"""The client: data verbs, references to one thing, and nouns for many."""

from __future__ import annotations

# SYNC
# from headrace.contract.blocks import during
# END
import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

from headrace.client._async.admin import AsyncAdmin
from headrace.client._async.counters import AsyncCounters, AsyncSlots
from headrace.client._async.limits import AsyncLimits
from headrace.client._async.live import AsyncLive
from headrace.client._async.locks import AsyncLock, AsyncLocks
from headrace.client._async.operations import AsyncOperations
from headrace.client._async.procs import AsyncClientProcs
from headrace.client._async.queue import AsyncQueue
from headrace.client._async.queue_watch import AsyncQueueWatch
from headrace.client._async.queues import AsyncQueues
from headrace.client._async.schedules import AsyncSchedules
from headrace.client._async.sinks import AsyncSinks
from headrace.client._async.tokens import AsyncTokens
from headrace.client._async.topics import AsyncClientTopics, AsyncTopic
from headrace.client._async.transactions import OVER, AsyncTransaction
from headrace.client._runtime.aio import scope
from headrace.client.async_group_commit import AsyncGroupCommit
from headrace.client.async_lease_keeper import AsyncLeaseKeeper
from headrace.client.claim_heartbeats import ClaimKeepers
from headrace.client.lock_view import DEFAULT_LEASE
from headrace.client.status import Status
from headrace.client.waiters import MAX_POLL_SECONDS, MAX_WAIT_SECONDS, Deadline, Waiters
from headrace.contract.items import Outcome, PushCall, PushFull, PushOutcome, Settled
from headrace.contract.missing_part import noun
from headrace.contract.store import Store
from headrace.contract.values import Capabilities, CommitCall, CommitOutcome
from headrace.core.commits import Entry, Headers
from headrace.core.pushes import PushResult, push_timeout, result_of
from headrace.core.requests import ClosedRequests
from headrace.core.requests.procs import LiveMode
from headrace.core.requests.request import Request
from headrace.core.requests.topics import Commitment, Receipt
from headrace.errors import InvalidOption, StoreError
from headrace.model.fields import shown
from headrace.model.names import check_queue
from headrace.model.queues.settings import capacity_word
from headrace.model.times import Duration

T = TypeVar("T")
CLOSED = ClosedRequests("this client is closed: connect again.")


class AsyncClient(AsyncOperations):
    """Topics, procs and queues for async code."""

    _store: Store
    topics: AsyncClientTopics
    procs: AsyncClientProcs

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._flushes: AsyncGroupCommit[CommitCall, CommitOutcome] = AsyncGroupCommit(self._flush)
        self._pushes: AsyncGroupCommit[PushCall, PushOutcome] = AsyncGroupCommit(self._flush_pushes)
        self._waits = Waiters(store)
        self._claim_keepers = ClaimKeepers(store)
        self._lease_keeper = AsyncLeaseKeeper()
        # ASYNC
        self._callbacks: set[asyncio.Future[Any]] = set()
        # END
        self._references: dict[str, AsyncQueue] = {}
        self._watches: set[AsyncQueueWatch] = set()
        self.topics = AsyncClientTopics(self)
        self.procs = AsyncClientProcs(self)
        self.queues = AsyncQueues(self)
        self.limits = noun(store, "limits", AsyncLimits(self))
        self.locks = noun(store, "locks", AsyncLocks(self))
        self.counters = noun(store, "counters", AsyncCounters(self))
        self.sinks = noun(store, "sinks", AsyncSinks(self))
        self.tokens = noun(store, "tokens", AsyncTokens(self))
        self.schedules = noun(store, "schedules", AsyncSchedules(self))
        self.admin = AsyncAdmin(self)

    @property
    def status(self) -> Status:
        """1 ready, -1 when the last operation failed in the store, 0 after close."""
        return self._status

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do beyond the contract."""
        return self._store.capabilities

    @overload
    async def commit(
        self, topic: str, body: Any, *, headers: Headers | None = None, key: str | None = None
    ) -> str: ...

    @overload
    async def commit(
        self,
        topic: Sequence[Entry],
        body: None = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> list[str]: ...

    async def commit(
        self,
        topic: str | Sequence[Entry],
        body: Any = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> str | list[str]:
        """Append one record to a topic, or a list of ``(topic, body)`` to several.

        Returns the record's id, or the list of ids in the order given. All records of a
        call get one timestamp and are committed together or not at all. A body is a JSON
        object or list. Headers are text; an entry may bring its own as a third element.
        When this returns, the records are durable.

        With a ``key`` the commit counts once: the same key and content within 24 hours
        returns the first ids again and writes nothing, other content raises ``KeyReused``.
        """
        commitment = self._requests.topics.commit(topic, body, headers, key)
        ids: str | list[str] = await self._commit(commitment)
        return ids

    async def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Append many records to one topic, all or none; ``headers`` go with each of them."""
        return await self._commit(self._requests.topics.commit_many(topic, bodies, headers, key))

    def topic(self, name: str) -> AsyncTopic:
        """Refer to a topic: to commit to it and read it, or to follow it into a queue."""
        self._check_open()
        return AsyncTopic(self, name)

    def queue(self, name: str) -> AsyncQueue:
        """Refer to a queue, the same object each time.

        The first push, claim or worker creates the queue with the stored defaults, unless
        ``queues.create`` has. Everything else raises ``UnknownQueue`` if there is none.
        """
        self._check_open()
        found = self._references.get(name) if isinstance(name, str) else None
        return found or self._references.setdefault(check_queue(name), AsyncQueue(self, name))

    def live(self, topic: str, *, mode: LiveMode = "all", count: int = 1) -> AsyncLive:
        """Follow a topic as records arrive: iterate over it, or call it back.

        ``all`` begins with the first record, ``live`` with the next one that is committed.
        It has a proc of its own that is removed an hour after it was last used.
        """
        return AsyncLive(self, self._requests.procs.live(topic, mode, count))

    def lock(
        self,
        key_values: Mapping[str, Any],
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = None,
        heartbeat: bool = True,
        on_lost: Callable[[], object] | None = None,
        session: str | None = None,
    ) -> AsyncLock:
        """A lock named by key-values, to be acquired: in a ``with`` block, or by ``acquire``.

        At most one holder has it, in whichever process. ``wait`` is how many seconds to stand in
        line for it, None for ever. Its holder has a ``lease``, which a heartbeat extends unless it
        is turned off: when the process dies, the next session gets the lock after that time.
        Should it be lost (the process stood still, or the store was away for longer than the
        lease), ``lock.lost`` says so, ``on_lost`` is called by the heartbeat, and ``LockLost`` is
        raised at the end of the block. ``lock.token`` distinguishes old holders from new ones.

        With the ``session`` of a lock that was acquired before, perhaps by a process that is gone,
        it is the same lock, and ``acquire`` goes on with it unless another session has it.
        """
        self._check_open()
        return AsyncLock(
            self,
            key_values,
            lease=lease,
            wait=wait,
            heartbeat=heartbeat,
            on_lost=on_lost,
            session=session,
        )

    def slots(
        self,
        key_values: Mapping[str, Any],
        n: int = 1,
        *,
        lease: Duration = DEFAULT_LEASE,
        wait: float | None = 0.0,
        heartbeat: bool = True,
    ) -> AsyncSlots:
        """Slots to be acquired, in a ``with`` block or by ``acquire``: ``n`` more of some key-values,
        if all limits that apply have so many free.

        For work that is no item of a queue, under the same rules: those without a queue apply, as
        if this were a running item in a channel with these key-values. ``LimitReached`` names the
        limit that has too few, after ``wait`` seconds (None: for ever). Slots have a ``lease``,
        which a heartbeat extends unless it is turned off: when the process dies, they are
        released after that time.
        """
        self._check_open()
        return AsyncSlots(self, key_values, n, lease=lease, wait=wait, heartbeat=heartbeat)

    @scope
    async def transaction(self) -> AsyncIterator[AsyncTransaction]:
        """Several operations, all or none: committed when the block ends.

        An exception rolls everything back, also what the block did before. Commits return
        receipts; ``resolve`` returns the ids when the block has ended. On SQLite the transaction
        holds the write lock, so keep it short.
        """
        self._check_open()
        tx = None
        try:
            async with self._store.atransaction() as session:
                tx = AsyncTransaction(
                    session, max_body=self._max_body, claim_keepers=self._claim_keepers
                )
                try:
                    # ASYNC
                    yield tx
                    # SYNC
                    # yield from during(tx)
                    # END
                finally:
                    # Nothing is called here: a signal cannot come in between.
                    tx._status, tx._requests = Status.UNINITIALISED, OVER
        except BaseException as error:
            if tx is not None:
                tx._decided(error)
            if isinstance(error, StoreError):
                self._note(error)
            raise
        tx._decided(None)
        if self._status is not Status.READY:
            self._note(None)

    def using(self, connection: Any) -> AsyncTransaction:
        """Join your own open transaction, on your own connection.

        A ``sqlite3.Connection``, a psycopg connection, or a SQLAlchemy session or
        connection, to the same database as this client. What is done through the result
        happens when you commit, together with your own statements, or not at all. Call it for each
        transaction: after its end, what it returned raises ``NotConnected``.
        """
        self._check_open()
        return AsyncTransaction(
            self._store.ausing(connection),
            max_body=self._max_body,
            claim_keepers=self._claim_keepers,
        )

    async def resolve(self, receipt: Receipt) -> list[str]:
        """The ids of records committed in a transaction, once it is committed.

        ``NotCommitted`` while it is open, and for ever if it was rolled back.
        """
        if not isinstance(receipt, Receipt):
            raise InvalidOption(f"{shown(receipt)} is not a receipt.", option="receipt")
        if receipt.ids is not None:
            return receipt.ids
        return await self._run(self._requests.topics.resolve(receipt))

    async def close(self) -> None:
        """Finish the commits and pushes under way and release connections.

        Claims that wait are ended, locks that are held last until the end of their lease, and
        every later call raises ``NotConnected``.
        """
        self._status, self._requests = Status.UNINITIALISED, CLOSED
        for watch in list(self._watches):
            await watch.close()
        await self._lease_keeper.close()
        await self._claim_keepers.aclose()
        await self._waits.aend()
        await self._flushes.drain()
        await self._pushes.drain()
        await self._store.aclose()

    async def _flush(
        self, calls: list[CommitCall], since: float | None = None
    ) -> list[CommitOutcome]:
        op = self._store.topics.commit(calls)
        op.since = since
        return await self._run(Request(op))

    async def _commit(self, commitment: Commitment[T]) -> T:
        return commitment.finish(await self._flushes.send(commitment.call))

    async def _flush_pushes(
        self, calls: list[PushCall], since: float | None = None
    ) -> list[PushOutcome]:
        op = self._store.queues.push(calls)
        op.since = since
        return await self._run(Request(op))

    async def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        deadline = None if wait == 0 and wait is not False else Deadline(wait)
        outcome = await self._pushes.send(call)
        if isinstance(outcome, PushFull) and deadline is not None:
            outcome = await self._push_when_free(call, outcome, deadline)
        result = result_of(outcome)
        reference = self._references.get(call.queue)
        if reference is not None and reference._callbacks:
            await reference._emit("pushed", result)
        return result

    async def _push_when_free(
        self, call: PushCall, outcome: PushOutcome, deadline: Deadline
    ) -> PushOutcome:
        """Push once the queue has capacity; ``PushTimeout`` if it has none in time."""
        reference = self.queue(call.queue)
        stops = reference._stops
        with self._waits.listening(capacity_word(call.queue), capacity_key(call)) as waiter:
            while isinstance(outcome, PushFull):
                if deadline.is_over or reference._stops != stops:
                    raise push_timeout(outcome)
                await waiter.await_hint(
                    deadline.at_most(MAX_POLL_SECONDS), deadline.at_most(MAX_WAIT_SECONDS)
                )
                # A closed client says so here.
                self._check_open()
                outcome = await self._pushes.send(call)
        return outcome

    async def _settle(self, call: Request[list[Settled]], given: list[Outcome]) -> list[Settled]:
        if not self._claim_keepers.keepers:
            return await self._run(call)
        with self._claim_keepers.settling(given):
            return await self._run(call)

    @property
    def _open_store(self) -> Store:
        """The store; ``NotConnected`` once the client is closed."""
        self._check_open()
        return self._store


def capacity_key(call: PushCall) -> object:
    """Equal for all pushes that need the same capacity; None where only the store knows whether a
    push needs any."""
    documents = call.documents
    is_named = any(document.subject is not None for document in documents)
    if call.mode != "push" or call.key is not None or is_named:
        return None
    return tuple((document.key_values, document.overrides) for document in documents)
