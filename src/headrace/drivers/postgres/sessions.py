"""Transactions of several operations on PostgreSQL, ours and the user's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from headrace.contract.blocks import Block, block, during
from headrace.contract.op import Op, Steps
from headrace.contract.shield import finish
from headrace.drivers.postgres import sqlstate
from headrace.drivers.postgres.cancellation import to_the_end
from headrace.drivers.postgres.round_trip import (
    BACKEND,
    asend,
    executions,
    is_unknown,
    may_prepare,
    note_backend,
    send,
)
from headrace.drivers.postgres.transactions import Begun
from headrace.drivers.runner import adrive, drive
from headrace.drivers.sql_common import sqlalchemy_adapter
from headrace.drivers.sql_common.context import DialectTraits, QueueLock
from headrace.drivers.sql_common.joined_transaction import JoinedTransaction
from headrace.drivers.sql_common.session import SessionSend, SqlSession, not_ours
from headrace.drivers.sql_common.statements import Many, Separate, Statement
from headrace.errors import InvalidOption

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

T = TypeVar("T")

_ALCHEMY = (("psycopg", "psycopg_async"), "postgresql+psycopg://")
DATABASE = Statement(
    "database",
    "select oid as database, has_function_privilege('pg_catalog.pg_control_system()', 'execute') "
    "as tells_server from pg_database where datname = current_database()",
    {},
)
SERVER = Statement(
    "server", "select system_identifier as server from pg_catalog.pg_control_system()", {}
)


class DatabaseIdentity(NamedTuple):
    """A database of a server; a field is None if the role may not read it."""

    server: int | None
    database: int


TRAITS = DialectTraits(
    numbers_at_commit=True,
    # Pushes to those channels would wait for the end of the transaction.
    retires_channels=False,
)
# A transaction may last. Only a change of the rules waits for its end: it would otherwise miss
# what the transaction counts.
QUEUE_LOCK = QueueLock(
    enter=lambda sql, name: sql.lock_limits_shared(),
    close=lambda sql, queue: sql.lock_limits_shared(),
)


class PsycopgTransport:
    """A connection of psycopg: the store's own, or the user's."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def library_connection(self) -> Any:
        """psycopg's connection."""
        return self.connection

    def send(self, statements: tuple[Statement | Many, ...]) -> Any:
        return send(self.connection, statements)

    async def asend(self, statements: tuple[Statement | Many, ...]) -> Any:
        return await asend(self.connection, statements)

    async def arun(self, session: PostgresSession, op: Op[T]) -> T:
        return await to_the_end(session.run_async(op), self.connection)


class SqlalchemyTransport:
    """A user's SQLAlchemy session or connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def library_connection(self) -> Any:
        """psycopg's connection."""
        return sqlalchemy_adapter.driver_connection(self.connection)

    def send(self, statements: tuple[Statement | Many, ...]) -> Any:
        driver = sqlalchemy_adapter.driver_connection(self.connection)
        if not isinstance(driver, psycopg.BaseConnection):
            return self._send(statements)
        if is_unknown(driver):
            [[backend]] = self._send((BACKEND,))
            note_backend(driver, backend["pid"])
        threshold = driver.prepare_threshold
        if not may_prepare(driver):
            driver.prepare_threshold = None
        try:
            return self._send(statements)
        finally:
            driver.prepare_threshold = threshold

    def _send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return sqlalchemy_adapter.send(self.connection, statements, executions)

    async def asend(self, statements: tuple[Statement | Many, ...]) -> Any:
        raise AssertionError("SQLAlchemy's async connections are used by run_sync")

    async def arun(self, session: PostgresSession, op: Op[T]) -> T:
        # Read here: later, the event loop would have to wait for it.
        await session.store.awhere()

        def run_in(candidate: Any) -> T:
            # Here the async driver's calls appear blocking; SQLAlchemy switches underneath.
            inner = PostgresSession(session.store, SqlalchemyTransport(candidate), session.joined)
            inner.context.last_rows = session.context.last_rows
            return inner.run(op)

        return await finish(self.connection.run_sync(run_in))


class PostgresSession(SqlSession):
    """Operations on a connection in a transaction."""

    def __init__(
        self,
        store: PostgresStore,
        transport: PsycopgTransport | SqlalchemyTransport,
        joined: JoinedTransaction | None = None,
    ) -> None:
        super().__init__(store, TRAITS, QUEUE_LOCK, joined)
        self.store = store
        self._transport = transport
        self._turn = asyncio.Lock()

    def notifications(self, news: Collection[str]) -> Sequence[Statement]:
        # A trigger numbers records at COMMIT and notifies the waiters of their topics.
        words = sorted(word for word in news if "/" in word)
        return self.store.notifier.notifications(words) if words else ()

    def perform(self, action: Any) -> Any:
        if isinstance(action, Separate):
            return self.store.run(apart(action))
        assert isinstance(action, SessionSend)
        try:
            if self._is_new_guest():
                theirs = drive(place_of(), lambda statement: self._transport.send((statement,))[0])
                self._welcome(theirs, self.store.where())
            return self._transport.send(action.statements)
        except psycopg.Error as error:
            raise self.judge(error) from error

    async def aperform(self, action: Any) -> Any:
        if isinstance(action, Separate):
            return await self.store.arun(apart(action))
        assert isinstance(action, SessionSend)
        try:
            if self._is_new_guest():
                theirs = await adrive(place_of(), self._ask)
                self._welcome(theirs, await self.store.awhere())
            return await self._transport.asend(action.statements)
        except psycopg.Error as error:
            raise self.judge(error) from error

    async def _ask(self, statement: Statement) -> Any:
        [rows] = await self._transport.asend((statement,))
        return rows

    def _is_new_guest(self) -> bool:
        return self.joined is not None and (
            self._transport.library_connection not in self.store.guests
        )

    def _welcome(self, theirs: DatabaseIdentity, ours: DatabaseIdentity) -> None:
        """Refuse, at first use, a connection to another database: its commits would not be ours.

        Also refuse one that cannot encode every text.
        """
        if self._transport.library_connection.info.encoding != "utf-8":
            raise InvalidOption(
                "this connection has another client_encoding than UTF-8, so not every text can be "
                "sent or read by it: connect with client_encoding=utf8.",
                option="connection",
            )
        are_known = None not in (theirs.server, ours.server)
        if theirs.database != ours.database or (are_known and theirs.server != ours.server):
            raise InvalidOption(
                f"this connection is to another database than the client, which is on "
                f"{self.store.address}: both must be the same.",
                option="connection",
            )
        self.store.guests.add(self._transport.library_connection)

    async def arun(self, op: Op[T]) -> T:
        # One after another, because of their savepoints. An operation that has begun runs to its
        # end even if the caller is cancelled: half of it must never be committed.
        op.accept()
        async with self._turn:
            return await self._transport.arun(self, op)

    async def run_async(self, op: Op[T]) -> T:
        """Run an operation on an async connection of psycopg."""
        return await super().arun(op)

    async def aabandon(self, begun: Begun) -> None:
        """Roll back, after the operations of other tasks on this connection."""
        async with self._turn:
            await adrive(self.store.transactions.abandon(begun), self.store.aperform)

    async def acomplete(self, begun: Begun) -> None:
        """Commit, after the operations of other tasks on this connection, and notify waiters."""
        async with self._turn:
            await adrive(self.store.transactions.complete(begun), self.store.aperform)
        self.store.queue_cache.lower_floors(self.announced)
        self.store.notifier.notify(self.announced)

    def judge(self, error: psycopg.Error) -> Exception:
        """Our error for one that ended the user's transaction, which we may not repeat."""
        place = self.store.address
        if sqlstate.is_prepare_trouble(error):
            self.store.connections.do_without_preparing()
        if sqlstate.is_lost(error, self._transport.connection):
            return sqlstate.unavailable(error, place)
        return sqlstate.passing(error, place) or sqlstate.final(error, place)


def place_of() -> Steps[DatabaseIdentity]:
    """Which database of which server this is, independent of host names and aliases.

    Only privileged roles may ask for the server. Others must not try: an error would end the
    transaction.
    """
    [row] = yield DATABASE
    [server] = (yield SERVER) if row["tells_server"] else [{"server": None}]
    return DatabaseIdentity(server["server"], row["database"])


def where() -> Op[DatabaseIdentity]:
    return Op("where", place_of, writes=False)


def apart(action: Separate) -> Op[list[Any]]:
    """Statements as an operation in the store's own transaction."""

    def steps() -> Steps[list[Any]]:
        answers = yield action.statements
        return list(answers[-1])

    return Op("add_topics", steps, repeatable=True)


def check_open(connection: Any) -> None:
    """Refuse a connection in autocommit: it has no transaction to join."""
    status = connection.info.transaction_status
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise InvalidOption(
            "this connection is in autocommit, so there is no transaction to take part in: use it "
            "inside `with connection.transaction():`.",
            option="connection",
        )


def using(store: PostgresStore, connection: Any) -> SqlSession:
    """Operations on the user's open transaction."""
    if isinstance(connection, psycopg.Connection):
        return _joined_psycopg(store, connection)
    if sqlalchemy_adapter.is_sync(connection):
        return _joined_sqlalchemy(store, connection)
    raise not_ours(connection, "a psycopg Connection, or a SQLAlchemy Session or Connection")


def ausing(store: PostgresStore, connection: Any) -> SqlSession:
    """The same for async code."""
    if isinstance(connection, psycopg.AsyncConnection):
        return _joined_psycopg(store, connection)
    if sqlalchemy_adapter.is_async(connection):
        return _joined_sqlalchemy(store, connection)
    raise not_ours(
        connection, "a psycopg AsyncConnection, or a SQLAlchemy AsyncSession or AsyncConnection"
    )


def _joined_psycopg(store: PostgresStore, connection: Any) -> PostgresSession:
    check_open(connection)

    def current() -> object:
        is_idle = connection.info.transaction_status == TransactionStatus.IDLE
        is_closed = connection.closed and not connection.broken
        return None if is_idle or is_closed else True

    return PostgresSession(store, PsycopgTransport(connection), JoinedTransaction(current))


def _joined_sqlalchemy(store: PostgresStore, connection: Any) -> PostgresSession:
    sqlalchemy_adapter.check_library(connection, *_ALCHEMY)
    joined = JoinedTransaction(partial(sqlalchemy_adapter.transaction_of, connection))
    return PostgresSession(store, SqlalchemyTransport(connection), joined)


@block
def own_transaction(store: PostgresStore) -> Block:
    """A transaction on one of the store's connections; commits unless the block raises."""
    borrowed = store.borrow()
    lasting, places = borrowed.pool.lasting_places, borrowed.pool.places
    try:
        begun = drive(store.transactions.begin(), borrowed.perform)
        session = PostgresSession(store, PsycopgTransport(begun.connection))
        try:
            yield from during(session)
            session.check_whole()
        except BaseException:
            drive(store.transactions.abandon(begun), borrowed.perform)
            raise
        drive(store.transactions.complete(begun), borrowed.perform)
        store.queue_cache.lower_floors(session.announced)
        store.notifier.notify(session.announced)
    finally:
        try:
            lasting.left_by(lasting.owners.pop(borrowed, None))
        finally:
            places.left_by(places.owners.pop(borrowed, None))


@asynccontextmanager
async def own_async_transaction(store: PostgresStore) -> AsyncIterator[PostgresSession]:
    """The same for async code."""
    begun = await adrive(store.transactions.begin(), store.aperform)
    session = PostgresSession(store, PsycopgTransport(begun.connection))
    try:
        yield session
    except BaseException:
        await finish(session.aabandon(begun))
        raise
    await finish(session.acomplete(begun))
