"""Transactions of several operations on SQLite, ours and the user's own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.contract.blocks import Block, block, during
from headrace.contract.op import Op
from headrace.contract.shield import finish
from headrace.contract.threads import in_pool
from headrace.drivers.reentrancy import (
    has_transaction,
    mark_transaction,
    run_marked,
    would_wait_for_itself,
)
from headrace.drivers.sql_common import sqlalchemy_adapter
from headrace.drivers.sql_common.context import DialectTraits
from headrace.drivers.sql_common.joined_transaction import JoinedTransaction
from headrace.drivers.sql_common.session import SessionSend, SqlSession, not_ours
from headrace.drivers.sql_common.statements import Many, Statement
from headrace.drivers.sqlite.execution import executions, rows_of
from headrace.drivers.sqlite.result_codes import is_busy, translate
from headrace.errors import HeadraceError, InvalidOption, StoreBusy

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore

T = TypeVar("T")

_ALCHEMY = (("pysqlite", "aiosqlite"), "sqlite:///")
_FILE = Statement("file", "PRAGMA database_list", {})


TRAITS = DialectTraits(parks_channels=True)


class Transport(Protocol):
    """How the statements of a session reach the database."""

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        """Execute statements on the connection."""
        ...

    async def arun(self, session: SqliteSession, op: Op[T]) -> T:
        """Run an operation of the session without blocking the event loop."""
        ...


class SqliteSession(SqlSession):
    """Operations on a connection that holds the write lock."""

    def __init__(
        self, store: SqliteStore, transport: Transport, joined: JoinedTransaction | None = None
    ) -> None:
        super().__init__(store, TRAITS, None, joined)
        self._path = store.connections.path
        self._transport = transport

    def perform(self, action: Any) -> Any:
        assert isinstance(action, SessionSend)
        try:
            return self._transport.send(action.statements)
        except sqlite3.Error as error:
            if is_busy(error):
                raise StoreBusy(
                    f"{self._path} was changed since this transaction began to read: roll back "
                    "and start it with BEGIN IMMEDIATE.",
                    path=str(self._path),
                ) from error
            raise translate(error, self._path) from error

    async def arun(self, op: Op[T]) -> T:
        op.accept()
        return await self._transport.arun(self, op)


class WriterTransport:
    """The store's own writer."""

    def __init__(self, store: SqliteStore, writer: sqlite3.Connection) -> None:
        self._threads = store.threads
        self._writer = writer
        # Whether an exception that is not SQLite's interrupted a statement, which may be
        # unfinished.
        self.is_torn = False

    async def arun(self, session: SqliteSession, op: Op[T]) -> T:
        return await in_pool(self._threads.here().transaction, session.run, op)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        try:
            return [rows_of(self._writer, statement) for statement in statements]
        except sqlite3.Error:
            raise
        except BaseException:
            self.is_torn = True
            raise


class DriverTransport:
    """A user's ``sqlite3.Connection``."""

    def __init__(self, store: SqliteStore, connection: sqlite3.Connection) -> None:
        self._threads = store.threads
        self._connection = connection
        check_file(connection, store.connections.path)
        begin(connection)
        note_guest(store.connections.path, connection)

    async def arun(self, session: SqliteSession, op: Op[T]) -> T:
        return await in_pool(self._threads.here().reads, session.run, op)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return [rows_of(self._connection, statement) for statement in statements]


class SqliteSqlalchemyTransport:
    """A user's SQLAlchemy session or connection."""

    def __init__(self, store: SqliteStore, candidate: Any) -> None:
        self._threads = store.threads
        self._candidate = candidate
        driver = sqlalchemy_adapter.driver_connection(candidate)
        check_file(driver, store.connections.path)
        begin(driver)
        note_guest(store.connections.path, driver)

    async def arun(self, session: SqliteSession, op: Op[T]) -> T:
        return await in_pool(self._threads.here().reads, session.run, op)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return sqlalchemy_adapter.send(self._candidate, statements, executions)


class SqliteAsyncSqlalchemyTransport:
    """A user's SQLAlchemy async session or connection."""

    def __init__(self, store: SqliteStore, candidate: Any) -> None:
        self._path = store.connections.path
        self._candidate = candidate
        self._is_begun = False

    async def arun(self, session: SqliteSession, op: Op[T]) -> T:
        def run_in(candidate: Any) -> T:
            # Here the async driver's calls appear blocking; SQLAlchemy switches underneath.
            self._inner = candidate
            if not self._is_begun:
                with _joining(self._path):
                    self._begin(candidate)
                self._is_begun = True
            return session.run(op)

        return await finish(self._candidate.run_sync(run_in))

    def _begin(self, candidate: Any) -> None:
        [[row, *_]] = self.send((_FILE,))
        _same_file(row["file"], self._path)
        driver = sqlalchemy_adapter.driver_connection(candidate)
        self.send((Statement("quiet", "PRAGMA wal_autocheckpoint=0", {}),))
        if not driver.in_transaction:
            self.send((Statement("begin", "BEGIN IMMEDIATE", {}),))

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return sqlalchemy_adapter.send(self._inner, statements, executions)


def begin(connection: sqlite3.Connection) -> None:
    """Make sure that a transaction is open; begin one where the library would."""
    # A connection we write through must not checkpoint either: see connections.py.
    connection.execute("PRAGMA wal_autocheckpoint=0")
    if connection.in_transaction:
        return
    if connection.isolation_level is None and getattr(connection, "autocommit", -1) in (-1, True):
        raise InvalidOption(
            "this connection is in autocommit, so there is no transaction to take part in: "
            "execute BEGIN IMMEDIATE first.",
            option="connection",
        )
    connection.execute("BEGIN IMMEDIATE")


def check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a connection to another file: its commits would not be ours."""
    [row, *_] = rows_of(connection, _FILE)
    _same_file(row["file"], path)


def _same_file(file: str, path: Path) -> None:
    if not file or Path(file).resolve() != path:
        raise InvalidOption(
            f"this connection is to {file or 'a database in memory'}, and the client to {path}: "
            "both must be the same file.",
            option="connection",
        )


# Users' connections through which the current thread or task writes.
guests: ContextVar[tuple[tuple[Path, Any], ...]] = ContextVar("headrace_guests", default=())


def refuse_if_open(path: Path) -> None:
    """Refuse a plain operation that would wait for its own thread's transaction."""
    if has_transaction(path) or (guests.get() and path in _guest_paths()):
        raise would_wait_for_itself(str(path))


def note_guest(path: Path, connection: Any) -> None:
    """Remember that the current thread or task writes through this user's connection."""
    _guest_paths()
    guests.set((*guests.get(), (path, connection)))


def _guest_paths() -> set[Path]:
    """Files with an open transaction of a user; forgets those that ended."""
    living = tuple((path, guest) for path, guest in guests.get() if _is_writing(guest))
    guests.set(living)
    return {path for path, _ in living}


def _is_writing(connection: Any) -> bool:
    try:
        return bool(connection.in_transaction)
    except sqlite3.ProgrammingError:
        return False  # closed


@block
def own_transaction(store: SqliteStore) -> Block:
    """A transaction on the store's writer; commits unless the block raises."""
    path = store.connections.path
    refuse_if_open(path)
    yield from run_marked(path, _transact(store, time.monotonic() + store.patience))


@asynccontextmanager
async def own_async_transaction(store: SqliteStore) -> AsyncIterator[SqliteSession]:
    """The same for async code: entered and left in a thread, so that the loop continues."""
    path = store.connections.path
    refuse_if_open(path)
    threads = store.threads.here()
    give_up = time.monotonic() + store.patience
    try:
        async with asyncio.timeout(store.patience):
            await threads.turn.acquire()
    except TimeoutError:
        raise store.busy_with_others() from None
    try:
        context = _Block(store, give_up)
        try:
            session = await in_pool(threads.transaction, context.enter)
            with mark_transaction(path):
                yield session
        except BaseException as error:
            # Also if it was cancelled while it began: that is awaited.
            await finish(in_pool(threads.transaction, context.leave, error))
            raise
        await finish(in_pool(threads.transaction, context.leave, None))
    finally:
        threads.turn.release()


class _Block:
    """A transaction that the caller enters and leaves explicitly."""

    def __init__(self, store: SqliteStore, give_up: float) -> None:
        self._context = _begun(store, give_up)
        self._is_entered = False

    def enter(self) -> SqliteSession:
        session: SqliteSession = self._context.__enter__()
        self._is_entered = True
        return session

    def leave(self, error: BaseException | None) -> None:
        """Commit, or roll back after an error; nothing if it was never entered."""
        if not self._is_entered:
            return
        if error is None:
            self._context.__exit__(None, None, None)
            return
        try:
            self._context.__exit__(type(error), error, error.__traceback__)
        except BaseException as raised:
            # The caller raises the block's error; not every exception can cross threads.
            if raised is not error:
                raise


@block
def _begun(store: SqliteStore, give_up: float) -> Block:
    yield from _transact(store, give_up)


def _transact(store: SqliteStore, give_up: float) -> Block:
    connections = store.connections
    gate = connections.gate
    mine: list[bool] = []
    try:
        connections.wait_for_turn(gate, mine, "transaction", give_up)
        writer = store.persevere(lambda: connections.writer(give_up=give_up), give_up)
        is_torn = True
        transport = WriterTransport(store, writer)
        try:
            store.persevere(lambda: connections.begin(writer, give_up), give_up)
            session = SqliteSession(store, transport)
            try:
                yield from during(session)
            except BaseException:
                # The block raised it, unless it interrupted one of our statements.
                is_torn = transport.is_torn
                raise
            session.check_whole()
            store.probe("transaction", "commit")
            try:
                connections.commit(writer, "transaction")
            except sqlite3.Error as error:
                raise store.failure(error) from error
            store.probe("transaction", "committed")
            connections.checkpoint_if_due(writer)
            is_torn = transport.is_torn
        except HeadraceError:
            is_torn = transport.is_torn
            raise
        finally:
            connections.is_torn = is_torn
            writer.rollback()
    finally:
        if True in mine:
            gate.lock.release()
    store.notifier.notify(session.announced)


def using(store: SqliteStore, connection: Any) -> SqliteSession:
    """Operations on the user's open transaction."""
    if isinstance(connection, sqlite3.Connection):
        return _joined_driver(store, connection)
    if sqlalchemy_adapter.is_sync(connection):
        sqlalchemy_adapter.check_library(connection, *_ALCHEMY)
        with _joining(store.connections.path):
            transport = SqliteSqlalchemyTransport(store, connection)
            return SqliteSession(store, transport, _joined_sqlalchemy(connection))
    raise not_ours(connection, "a sqlite3.Connection, or a SQLAlchemy Session or Connection")


def ausing(store: SqliteStore, connection: Any) -> SqliteSession:
    """The same for async code."""
    if isinstance(connection, sqlite3.Connection):
        return _joined_driver(store, connection)
    if sqlalchemy_adapter.is_async(connection):
        sqlalchemy_adapter.check_library(connection, *_ALCHEMY)
        transport = SqliteAsyncSqlalchemyTransport(store, connection)
        return SqliteSession(store, transport, _joined_sqlalchemy(connection))
    raise not_ours(
        connection, "a sqlite3.Connection, or a SQLAlchemy AsyncSession or AsyncConnection"
    )


def _joined_driver(store: SqliteStore, connection: sqlite3.Connection) -> SqliteSession:
    def current() -> object:
        return True if _is_writing(connection) else None

    with _joining(store.connections.path):
        transport = DriverTransport(store, connection)
        return SqliteSession(store, transport, JoinedTransaction(current))


def _joined_sqlalchemy(candidate: Any) -> JoinedTransaction:
    return JoinedTransaction(partial(sqlalchemy_adapter.transaction_of, candidate))


@contextmanager
def _joining(path: Path) -> Iterator[None]:
    """Raise our errors for SQLite's when the user's transaction is begun."""
    try:
        yield
    except sqlite3.ProgrammingError as error:
        # Closed, or in use by another thread.
        raise InvalidOption(
            f"this connection cannot be used here: {str(error).rstrip('.')}.", option="connection"
        ) from error
    except sqlite3.Error as error:
        if is_busy(error):
            raise StoreBusy(
                f"others keep {path} locked: nothing was written; try again.", path=str(path)
            ) from error
        raise translate(error, path) from error
