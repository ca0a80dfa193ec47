"""Transactions of several operations on PostgreSQL, ours and the user's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from headrace.contract.finishing import finish
from headrace.contract.op import Op, Steps
from headrace.drivers.postgres import failures
from headrace.drivers.postgres.sending import asend, executions, send
from headrace.drivers.relational import alchemy
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.drivers.relational.session import Session, Tell, not_ours
from headrace.drivers.relational.sql import Apart, Statement
from headrace.drivers.running import adrive, drive
from headrace.errors import InvalidOption

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

T = TypeVar("T")


class PostgresSession(Session):
    """Operations on a connection in a transaction."""

    # Whoever pushes to those channels would wait for the end of the transaction.
    retires = False

    def __init__(self, store: PostgresStore, connection: Any) -> None:
        super().__init__(
            name=store.name,
            capabilities=store.capabilities,
            sql=store.sql,
            keys=store.keys,
            clock=store.clock,
        )
        self.probe = store.probe
        self._home = store
        self._connection = connection

    def entered_queue(self, name: str) -> Steps[QueueRow | None]:
        # Rules wait for our end: otherwise they would miss what we do.
        sql = self.sql
        _, found = yield sql.enter_limits(), sql.find_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        return queue if queue is not None and queue.is_live else None

    def close_queue(self, queue: QueueRow) -> Steps[None]:
        yield self.sql.enter_limits()

    def notifications(self, news: Collection[str]) -> Sequence[Statement]:
        # Records get their numbers by a trigger at COMMIT, which tells of their topics.
        words = sorted(word for word in news if "/" in word)
        return self._home.notifications(words) if words else ()

    def perform(self, action: Any) -> Any:
        if isinstance(action, Apart):
            return self._home.run(apart(action))
        assert isinstance(action, Tell)
        try:
            return self.send(action)
        except psycopg.Error as error:
            raise self.judge(error) from error

    async def aperform(self, action: Any) -> Any:
        if isinstance(action, Apart):
            return await self._home.arun(apart(action))
        assert isinstance(action, Tell)
        try:
            return await self.asend(action)
        except psycopg.Error as error:
            raise self.judge(error) from error

    def send(self, action: Tell) -> Any:
        return send(self._connection, action.statements)

    async def asend(self, action: Tell) -> Any:
        return await finish(asend(self._connection, action.statements))

    def judge(self, error: psycopg.Error) -> Exception:
        """Our error for one that ended the user's transaction, which we may not repeat."""
        place = self._home.address
        if failures.is_lost(error, self._connection):
            return failures.unavailable(error, place)
        return failures.passing(error, place) or failures.final(error, place)


class AlchemySession(PostgresSession):
    """The user's transaction on a SQLAlchemy session or connection."""

    def send(self, action: Tell) -> Any:
        return alchemy.send(self._connection, action.statements, executions)

    async def arun(self, op: Op[T]) -> T:
        return await finish(self._connection.run_sync(self._run_in, op))

    def _run_in(self, candidate: Any, op: Op[T]) -> T:
        # Here the async driver's calls look blocking; SQLAlchemy switches underneath.
        inner = AlchemySession(self._home, candidate)
        inner._last_rows = self._last_rows
        return inner.run(op)


def apart(action: Apart) -> Op[list[Any]]:
    """Statements as an operation of the store's own."""

    def steps() -> Steps[list[Any]]:
        answers = yield action.statements
        return list(answers[-1])

    return Op("add_topics", steps, repeatable=True)


def check_open(connection: Any) -> None:
    """Refuse a connection in autocommit: there is no transaction to take part in."""
    status = connection.info.transaction_status
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise InvalidOption(
            "this connection is in autocommit, so there is no transaction to take part in: use it "
            "inside `with connection.transaction():`.",
            option="connection",
        )


def using(store: PostgresStore, connection: Any) -> Session:
    """Operations on the user's open transaction."""
    if isinstance(connection, psycopg.Connection):
        check_open(connection)
        return PostgresSession(store, connection)
    if alchemy.is_sync(connection):
        return AlchemySession(store, connection)
    raise not_ours(connection, "a psycopg Connection, or a SQLAlchemy Session or Connection")


def ausing(store: PostgresStore, connection: Any) -> Session:
    """The same for async code."""
    if isinstance(connection, psycopg.AsyncConnection):
        check_open(connection)
        return PostgresSession(store, connection)
    if alchemy.is_async(connection):
        return AlchemySession(store, connection)
    raise not_ours(
        connection, "a psycopg AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection"
    )


@contextmanager
def own_transaction(store: PostgresStore) -> Iterator[PostgresSession]:
    """A transaction on a connection of the store's; commits unless the block raises."""
    begun = drive(store.begin(), store.perform)
    session = PostgresSession(store, begun.connection)
    try:
        yield session
    except BaseException:
        drive(store.abandon(begun), store.perform)
        raise
    drive(store.complete(begun), store.perform)
    store.known.lower_floors(session.announced)
    store.wakes.ring(session.announced)


@asynccontextmanager
async def own_async_transaction(store: PostgresStore) -> AsyncIterator[PostgresSession]:
    """The same for async code."""
    begun = await adrive(store.begin(), store.aperform)
    session = PostgresSession(store, begun.connection)
    try:
        yield session
    except BaseException:
        await finish(adrive(store.abandon(begun), store.aperform))
        raise
    await finish(adrive(store.complete(begun), store.aperform))
    store.known.lower_floors(session.announced)
    store.wakes.ring(session.announced)
