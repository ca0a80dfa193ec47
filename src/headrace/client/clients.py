"""The two clients, blocking and async. Names and signatures are the same; a test compares."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar, overload

from headrace.client.calls import Call, Commitment, LiveMode, Receipt, Timeout
from headrace.client.chores import DEFAULT_MIN_AGE, keep_op, maintenance
from headrace.client.coalescing import AsyncCoalescer, Coalescer
from headrace.client.counter_operations import AsyncCounterOperations, CounterOperations
from headrace.client.following import AsyncFollower, AsyncReplay, Follower, Replay
from headrace.client.live import AsyncLive, Live
from headrace.client.running import Status, documented
from headrace.client.sinks import AsyncSink, Sink
from headrace.client.topics import AsyncTopic, Topic
from headrace.client.transactions import AsyncTransaction, Transaction
from headrace.contract.sinks import SinkInfo
from headrace.contract.store import Store
from headrace.contract.values import Capabilities, CommitCall, CommitOutcome, Finding
from headrace.core.commits import Entry, Headers
from headrace.model.collecting import MaintenanceReport
from headrace.model.record import TopicInfo

T = TypeVar("T")


def _as_is(answer: T) -> T:
    return answer


class Client(CounterOperations):
    """Topics, procs and queues for blocking code. Any number of threads may share one."""

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._flushes: Coalescer[CommitCall, CommitOutcome] = Coalescer(self._flush)

    def status(self) -> Status:
        """1 ready, -1 when the last operation failed in the store, 0 after close."""
        return self._status

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do beyond the contract."""
        return self._store.capabilities

    def _flush(self, calls: list[CommitCall]) -> list[CommitOutcome]:
        return self._run(Call(self._store.commit(calls), _as_is))

    def _commit(self, commitment: Commitment[T]) -> T:
        return commitment.finish(self._flushes.send(commitment.call))

    @overload
    def commit(
        self, topic: str, body: Any, *, headers: Headers | None = None, key: str | None = None
    ) -> str: ...
    @overload
    def commit(
        self,
        topic: Sequence[Entry],
        body: None = None,
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> list[str]: ...
    def commit(
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
        return self._commit(self._calls.commit(topic, body, headers, key))  # type: ignore[no-any-return]  # str or list by the form of the call

    def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> list[str]:
        """Append many records to one topic, all or none; ``headers`` go with each of them."""
        return self._commit(self._calls.commit_many(topic, bodies, headers, key))

    def topic(self, name: str) -> Topic:
        """Refer to a topic: to follow it into a queue, or to replay a range of it."""
        _ = self._calls
        return Topic(self, name)

    def sink(self, name: str) -> Sink:
        """Refer to a sink: to see what a streaming query has written, or to reset it."""
        _ = self._calls
        return Sink(self, name)

    def sinks(self) -> list[SinkInfo]:
        """All sinks that streaming queries have written to, by name."""
        _ = self._calls
        return self._run(Call(self._store.sinks(), _as_is))

    def live(self, topic: str, *, mode: LiveMode = "all", count: int = 1) -> Live:
        """Follow a topic as records arrive: iterate over it, or call it back.

        ``all`` begins with the first record, ``live`` with the next one that is committed.
        It has a proc of its own that is removed an hour after it was last used.
        """
        return Live(self, self._calls.live(topic, mode, count))

    def keep(
        self, topic: str, *, min_age: Timeout = DEFAULT_MIN_AGE, max_age: Timeout = None
    ) -> TopicInfo:
        """Let a topic's old records be collected, which by default they never are.

        Those older than ``min_age`` go once every proc has passed them, disabled ones
        included, and is two claims further. Those older than ``max_age`` go in any case, and
        a proc that had not passed them gets ``ProcOvertaken`` until it is sought. None for
        both ends collection. ``maintain`` does the work.
        """
        _ = self._calls
        info: TopicInfo = self._run(Call(keep_op(self._store, topic, min_age, max_age), _as_is))
        return info

    def maintain(self, *, force: bool = False) -> MaintenanceReport:
        """Collect old records, tend queues, and remove procs, keys and clients that ran out.

        Done by one client at a time and at most every 30 s, by whoever asks first;
        ``force`` does it now. Live procs ask by themselves.
        """
        _ = self._calls
        return self._follow(maintenance(self._store, force=force))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Several operations, all or none: committed when the block ends.

        An exception rolls everything back, also what the block did before. Commits return
        receipts; ``ids`` tells the ids when the block has ended. On SQLite the transaction
        holds the write lock, so keep it short.
        """
        _ = self._calls
        with self._store.transaction() as session:
            tx = Transaction(session, max_body=self._built.max_body)
            try:
                yield tx
            finally:
                tx.end()

    def using(self, connection: Any) -> Transaction:
        """Take part in your own open transaction, on your own connection.

        A ``sqlite3.Connection``, a psycopg connection, or a SQLAlchemy session or
        connection, to the same database as this client. What is done through the result
        happens when you commit, together with your own statements, or not at all.
        """
        _ = self._calls
        return Transaction(self._store.using(connection), max_body=self._built.max_body)

    def ids(self, receipt: Receipt) -> list[str]:
        """The ids of records committed in a transaction, once it is committed.

        ``NotCommitted`` while it is open, and for ever if it was rolled back.
        """
        if receipt.ids is not None:
            return receipt.ids
        return self._run(self._calls.resolve(receipt))

    def diagnose(self, *, deep: bool = False) -> list[Finding]:
        """Look at the database: its version, durability, clock, open transactions, size.

        One finding per check, ``ok``, ``warn`` or ``fail``, with the next step. Changes
        nothing. ``deep`` also reads the whole of a SQLite file, which takes its time.
        """
        _ = self._calls
        return self._run(Call(self._store.diagnose(deep), _as_is))

    def close(self) -> None:
        """Finish the commits and pushes under way and release connections.

        Claims that wait are ended, locks that are held last until the end of their lease, and
        every later call raises ``NotConnected``.
        """
        self._status = Status.UNINITIALISED
        self._beats.close()
        self._waits.end()
        self._flushes.drain()
        self._pushes.drain()
        self._store.close()


class AsyncClient(AsyncCounterOperations):
    """Topics, procs and queues for async code: ``Client`` with ``await``."""

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self._flushes: AsyncCoalescer[CommitCall, CommitOutcome] = AsyncCoalescer(self._flush)

    def status(self) -> Status:
        return self._status

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do beyond the contract."""
        return self._store.capabilities

    async def _flush(self, calls: list[CommitCall]) -> list[CommitOutcome]:
        return await self._run(Call(self._store.commit(calls), _as_is))

    async def _commit(self, commitment: Commitment[T]) -> T:
        return commitment.finish(await self._flushes.send(commitment.call))

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
        return await self._commit(self._calls.commit(topic, body, headers, key))

    async def commit_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        headers: Headers | None = None,
        key: str | None = None,
    ) -> list[str]:
        return await self._commit(self._calls.commit_many(topic, bodies, headers, key))

    def topic(self, name: str) -> AsyncTopic:
        _ = self._calls
        return AsyncTopic(self, name)

    def sink(self, name: str) -> AsyncSink:
        _ = self._calls
        return AsyncSink(self, name)

    async def sinks(self) -> list[SinkInfo]:
        _ = self._calls
        return await self._run(Call(self._store.sinks(), _as_is))

    def live(self, topic: str, *, mode: LiveMode = "all", count: int = 1) -> AsyncLive:
        return AsyncLive(self, self._calls.live(topic, mode, count))

    async def keep(
        self, topic: str, *, min_age: Timeout = DEFAULT_MIN_AGE, max_age: Timeout = None
    ) -> TopicInfo:
        _ = self._calls
        return await self._run(Call(keep_op(self._store, topic, min_age, max_age), _as_is))

    async def maintain(self, *, force: bool = False) -> MaintenanceReport:
        _ = self._calls
        return await self._follow(maintenance(self._store, force=force))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncTransaction]:
        _ = self._calls
        async with self._store.atransaction() as session:
            tx = AsyncTransaction(session, max_body=self._built.max_body)
            try:
                yield tx
            finally:
                tx.end()

    def using(self, connection: Any) -> AsyncTransaction:
        _ = self._calls
        return AsyncTransaction(self._store.ausing(connection), max_body=self._built.max_body)

    async def ids(self, receipt: Receipt) -> list[str]:
        if receipt.ids is not None:
            return receipt.ids
        return await self._run(self._calls.resolve(receipt))

    async def diagnose(self, *, deep: bool = False) -> list[Finding]:
        _ = self._calls
        return await self._run(Call(self._store.diagnose(deep), _as_is))

    async def close(self) -> None:
        self._status = Status.UNINITIALISED
        await self._beats.close()
        await self._waits.aend()
        await self._flushes.drain()
        await self._pushes.drain()
        await self._store.aclose()


documented(AsyncClient, Client)
documented(AsyncLive, Live)
documented(AsyncTopic, Topic)
documented(AsyncFollower, Follower)
documented(AsyncReplay, Replay)
documented(AsyncSink, Sink)
