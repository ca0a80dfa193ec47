"""Transactions of several operations on SQLite, ours and the user's own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.contract.finishing import finish
from headrace.contract.op import Op
from headrace.drivers.own_transactions import holding, is_holding, would_wait_for_itself
from headrace.drivers.relational import alchemy
from headrace.drivers.relational.session import Session, Tell, not_ours
from headrace.drivers.relational.sql import Many, Statement
from headrace.drivers.sqlite.connections import executions, is_busy, rows_of, translate
from headrace.errors import InvalidOption, StoreBusy

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore

T = TypeVar("T")

_FILE = Statement("file", "PRAGMA database_list", {})


class SqliteSession(Session):
    """Operations on a connection that holds the write lock."""

    files = True

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(
            name=store.name,
            capabilities=store.capabilities,
            sql=store.sql,
            keys=store.keys,
            clock=store.clock,
        )
        self.probe = store.probe
        self._path = store.connections.path

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        """Execute statements on the connection."""
        raise NotImplementedError

    def perform(self, action: Any) -> Any:
        assert isinstance(action, Tell)
        try:
            return self.send(action.statements)
        except sqlite3.Error as error:
            if is_busy(error):
                raise StoreBusy(
                    f"{self._path} was changed since this transaction began to read: roll back "
                    "and start it with BEGIN IMMEDIATE.",
                    path=str(self._path),
                ) from error
            raise translate(error, self._path) from error

    async def arun(self, op: Op[T]) -> T:
        return await finish(asyncio.to_thread(self.run, op))


class OwnSession(SqliteSession):
    """A transaction on the store's writer."""

    def __init__(self, store: SqliteStore, writer: sqlite3.Connection) -> None:
        super().__init__(store)
        self._writer = writer

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return [rows_of(self._writer, statement) for statement in statements]


class DriverSession(SqliteSession):
    """The user's transaction on a ``sqlite3.Connection``."""

    def __init__(self, store: SqliteStore, connection: sqlite3.Connection) -> None:
        super().__init__(store)
        self._connection = connection
        check_file(connection, store.connections.path)
        begin(connection)
        note_guest(store.connections.path, connection)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return [rows_of(self._connection, statement) for statement in statements]


class AlchemySession(SqliteSession):
    """The user's transaction on a SQLAlchemy session or connection."""

    def __init__(self, store: SqliteStore, candidate: Any) -> None:
        super().__init__(store)
        self._candidate = candidate
        driver = alchemy.driver_connection(candidate)
        check_file(driver, store.connections.path)
        begin(driver)
        note_guest(store.connections.path, driver)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return alchemy.send(self._candidate, statements, executions)


class AsyncAlchemySession(SqliteSession):
    """The user's transaction on SQLAlchemy's async session or connection."""

    def __init__(self, store: SqliteStore, candidate: Any) -> None:
        super().__init__(store)
        self._home = store
        self._candidate = candidate
        self._is_begun = False

    async def arun(self, op: Op[T]) -> T:
        return await finish(self._candidate.run_sync(self._run_in, op))

    def _run_in(self, candidate: Any, op: Op[T]) -> T:
        # Here the async driver's calls look blocking; SQLAlchemy switches underneath.
        self._inner = candidate
        if not self._is_begun:
            [[row, *_]] = self.send((_FILE,))
            _same_file(row["file"], self._home.connections.path)
            driver = alchemy.driver_connection(candidate)
            self.send((Statement("quiet", "PRAGMA wal_autocheckpoint=0", {}),))
            if not driver.in_transaction:
                self.send((Statement("begin", "BEGIN IMMEDIATE", {}),))
            self._is_begun = True
        return self.run(op)

    def send(self, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
        return alchemy.send(self._inner, statements, executions)


def begin(connection: sqlite3.Connection) -> None:
    """Make sure that a transaction is open; where the library would open one, open it."""
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
    """Refuse a connection to another file: what it commits would not be ours."""
    [row, *_] = rows_of(connection, _FILE)
    _same_file(row["file"], path)


def _same_file(file: str, path: Path) -> None:
    if not file or Path(file).resolve() != path:
        raise InvalidOption(
            f"this connection is to {file or 'a database in memory'}, and the client to {path}: "
            "both must be the same file.",
            option="connection",
        )


# Connections of the user's own through which the current thread or task writes.
guests: ContextVar[tuple[tuple[Path, Any], ...]] = ContextVar("headrace_guests", default=())


def refuse_if_open(path: Path) -> None:
    """Raise where a plain operation would wait for its own thread's transaction."""
    if is_holding(path) or (guests.get() and path in _guest_paths()):
        raise would_wait_for_itself(str(path))


def note_guest(path: Path, connection: Any) -> None:
    """Remember that the current thread or task writes through this connection of its own."""
    _guest_paths()
    guests.set((*guests.get(), (path, connection)))


def _guest_paths() -> set[Path]:
    """Files on which a guest's transaction is still open; forgets those that ended."""
    living = tuple((path, guest) for path, guest in guests.get() if _is_writing(guest))
    guests.set(living)
    return {path for path, _ in living}


def _is_writing(connection: Any) -> bool:
    try:
        return bool(connection.in_transaction)
    except sqlite3.ProgrammingError:
        return False  # closed


@contextmanager
def own_transaction(store: SqliteStore) -> Iterator[OwnSession]:
    """A transaction on the store's writer; commits unless the block raises."""
    path = store.connections.path
    refuse_if_open(path)
    with _begun(store) as session, holding(path):
        yield session


@asynccontextmanager
async def own_async_transaction(store: SqliteStore) -> AsyncIterator[OwnSession]:
    """The same for async code: entered and left in threads, so that the loop goes on."""
    path = store.connections.path
    refuse_if_open(path)
    context = _begun(store)
    session = await finish(asyncio.to_thread(context.__enter__))
    try:
        with holding(path):
            yield session
    except BaseException as error:
        trace = error.__traceback__
        await finish(asyncio.to_thread(context.__exit__, type(error), error, trace))
        raise
    else:
        await finish(asyncio.to_thread(context.__exit__, None, None, None))


@contextmanager
def _begun(store: SqliteStore) -> Iterator[OwnSession]:
    with store.connections.writing() as writer:
        try:
            writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise (store.busy() if is_busy(error) else error) from error
        session = OwnSession(store, writer)
        yield session
        store.probe("transaction", "commit")
        writer.execute("COMMIT")
        store.probe("transaction", "committed")
        store.connections.checkpoint_if_due(writer)
    store.wakes.ring(session.announced)


def using(store: SqliteStore, connection: Any) -> SqliteSession:
    """Operations on the user's open transaction."""
    if isinstance(connection, sqlite3.Connection):
        return DriverSession(store, connection)
    if alchemy.is_sync(connection):
        return AlchemySession(store, connection)
    raise not_ours(connection, "a sqlite3.Connection, or a SQLAlchemy Session or Connection")


def ausing(store: SqliteStore, connection: Any) -> SqliteSession:
    """The same for async code."""
    if isinstance(connection, sqlite3.Connection):
        return DriverSession(store, connection)
    if alchemy.is_async(connection):
        return AsyncAlchemySession(store, connection)
    raise not_ours(
        connection, "a sqlite3.Connection, or a SQLAlchemy AsyncSession or AsyncConnection"
    )
