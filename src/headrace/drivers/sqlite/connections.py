"""Connections to one SQLite file: a writer, readers, and the checkpoint rule.

SQLite up to 3.51.2 can corrupt a database when a commit resets the write-ahead log while
another connection checkpoints it. Here that cannot happen: no connection of ours ever
checkpoints by itself, and ``checkpoint`` runs only while we hold the write lock, so that
nobody can commit meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from headrace.drivers.own_transactions import is_holding
from headrace.drivers.relational.sql import Many, Statement
from headrace.drivers.sqlite import forks
from headrace.errors import StoreError, StoreUnavailable, UnsupportedStore

OLDEST = (3, 35, 0)
WAL_BYTES = 4 * 1024 * 1024
BUSY_MS = 5_000
IDLE_READERS = 8
FORK_SECONDS = 5.0

# Connections that a fork left in the child: they must be neither used nor closed there.
_left_by_fork: list[object] = []


class Gate:
    """The write lock of one file inside this process.

    SQLite makes writers wait by sleeping, which is unfair and slow between threads; they
    queue here first.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # The thread that holds the lock for the moment of a fork.
        self.forker: int | None = None


_gates: WeakValueDictionary[tuple[int, str], Gate] = WeakValueDictionary()
_gates_lock = threading.Lock()


def gate(path: Path) -> Gate:
    """The gate of a file, the same for all stores of this process."""
    with _gates_lock:
        key = (os.getpid(), str(path))
        found = _gates.get(key)
        if found is None:
            found = _gates[key] = Gate()
        return found


class Connections:
    """All connections of one store to its file."""

    def __init__(self, path: Path, *, is_safe: bool) -> None:
        self.path = path.resolve()
        self.is_safe = is_safe
        self._wal = f"{self.path}-wal"
        self._start()
        forks.guard(self)

    def _start(self) -> None:
        self._pid = os.getpid()
        self._gate = gate(self.path)
        self._writer: sqlite3.Connection | None = None
        self._is_synced = True
        self._checkpointer: sqlite3.Connection | None = None
        self._checkpoint_at = WAL_BYTES
        self._readers: list[sqlite3.Connection] = []
        self._reading = 0
        self._readers_lock = threading.Condition(threading.Lock())

    def _begin_anew(self) -> None:
        """This is the child of a fork."""
        _left_by_fork.append((self._writer, self._checkpointer, self._readers))
        self._start()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writer connection, for one thread at a time, outside of a transaction."""
        writer = self.take_writer(relaxed=False)
        try:
            yield writer
        finally:
            self.put_writer_back(writer)

    def take_writer(self, *, relaxed: bool, durable: bool = False) -> sqlite3.Connection:
        """The writer connection for this thread alone, until it is put back."""
        if self._pid != os.getpid():
            self._begin_anew()
        self._gate.lock.acquire()
        try:
            writer = self._writer
            if writer is None:
                writer = self._writer = self.open()
            is_synced = durable or (self.is_safe and not relaxed)
            if is_synced != self._is_synced:
                self._sync(writer, is_synced)
        except BaseException:
            self._gate.lock.release()
            raise
        return writer

    def put_writer_back(self, writer: sqlite3.Connection) -> None:
        """Leave the writer to others, without a transaction."""
        try:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        finally:
            self._gate.lock.release()

    def _sync(self, connection: sqlite3.Connection, is_synced: bool) -> None:
        connection.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
        self._is_synced = is_synced

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A reader connection; as many at once as there are readers."""
        if self._pid != os.getpid():
            self._begin_anew()
        with self._readers_lock:
            self._reading += 1
            reader = self._readers.pop() if self._readers else None
        is_good = False
        try:
            if reader is None:
                reader = self.open()
                reader.execute("PRAGMA query_only=on")
            is_good = True
            yield reader
        except sqlite3.Error:
            is_good = False
            raise
        finally:
            self._put_back(reader, is_good=is_good)

    @contextmanager
    def looking(self) -> Iterator[sqlite3.Connection]:
        """A connection for a first look at a file that may not be ours: it changes nothing,
        not even the journal mode."""
        connection = None
        try:
            address = f"{self.path.as_uri()}?mode=ro"
            connection = sqlite3.connect(address, uri=True, timeout=BUSY_MS / 1000)
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            if connection is not None:
                connection.close()

    def _put_back(self, reader: sqlite3.Connection | None, *, is_good: bool) -> None:
        with self._readers_lock:
            self._reading -= 1
            self._readers_lock.notify_all()
            if is_good and reader is not None and len(self._readers) < IDLE_READERS:
                self._readers.append(reader)
                return
        if reader is not None:
            reader.close()

    @contextmanager
    def closed_for_fork(self) -> Iterator[None]:
        """No connection is open in the block, so that a child cannot inherit any.

        SQLite keeps account of its locks in memory. A child inherits the account but not the
        locks, and would believe itself protected. Who forks inside a transaction of its own
        must not use the client in the child.
        """
        # Another client of the same file may have taken the gate for this very fork.
        is_ours = self._gate.forker == threading.get_ident()
        if is_holding(self.path) or not (is_ours or self._gate.lock.acquire(timeout=FORK_SECONDS)):
            yield
            return
        self._gate.forker = threading.get_ident()
        try:
            with self._readers_lock:
                self._readers_lock.wait_for(lambda: self._reading == 0, FORK_SECONDS)
                if not (self._writer is not None and self._writer.in_transaction):
                    self._close_all()
                yield
        finally:
            if not is_ours:
                self._gate.forker = None
                self._gate.lock.release()

    def checkpoint_if_due(self, writer: sqlite3.Connection) -> None:
        """Move the log into the file when the log has grown; call it inside ``writing``.

        Costs one stat otherwise. Readers that hold old snapshots only delay it.
        """
        try:
            size = os.stat(self._wal).st_size  # noqa: PTH116  # a Path would cost as much again
        except FileNotFoundError:
            return
        if size <= self._checkpoint_at:
            return
        try:
            is_complete = self.checkpoint(writer)
        except (sqlite3.Error, StoreError):
            # The commit before us is done and safe in the log; a later one tries again, and
            # if the disk is at fault it will say so itself.
            return
        # A reader of an old snapshot is in the way: wait for the log to grow some more.
        self._checkpoint_at = WAL_BYTES if is_complete else size + WAL_BYTES

    def checkpoint(self, writer: sqlite3.Connection) -> bool:
        """Checkpoint while ``writer`` holds the write lock; whether all of the log is done."""
        if self._checkpointer is None:
            self._checkpointer = self.open()
        writer.execute("BEGIN IMMEDIATE")
        try:
            row = self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            writer.execute("ROLLBACK")
        return bool(row[1] == row[2])

    def open(self) -> sqlite3.Connection:
        """Open one more connection, with the settings all of ours have."""
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000
            )
        except sqlite3.DatabaseError as error:
            raise translate(error, self.path) from error
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA wal_autocheckpoint=0")
            connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}")
            [mode] = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.DatabaseError as error:
            raise translate(error, self.path) from error
        if mode != "wal":
            raise UnsupportedStore(
                f"{self.path} cannot be used in WAL mode (it says {mode!r}): "
                "put the file on a local disk.",
                path=str(self.path),
            )

    def close(self) -> None:
        """Close all connections; SQLite tidies the log up when the last one goes."""
        if self._pid != os.getpid():
            return
        with self._gate.lock, self._readers_lock:
            self._close_all()

    def _close_all(self) -> None:
        for connection in (*self._readers, self._checkpointer, self._writer):
            if connection is not None:
                connection.close()
        self._readers = []
        self._checkpointer = self._writer = None
        self._is_synced = True


def as_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as SQLite takes them: lists travel as JSON text."""
    for value in parameters.values():
        if type(value) is list:
            break
    else:
        return parameters
    return {
        name: msgspec.json.encode(value).decode() if isinstance(value, list) else value
        for name, value in parameters.items()
    }


def rows_of(connection: sqlite3.Connection, statement: Statement | Many) -> list[sqlite3.Row]:
    """Execute a statement and fetch its rows, whatever row factory the connection has."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    if not isinstance(statement, Many):
        if statement.as_stored:
            return _rows_as_stored(cursor, statement)
        return cursor.execute(statement.text, as_parameters(statement.parameters)).fetchall()
    if "returning" not in statement.text:
        cursor.executemany(statement.text, statement.rows)
        return []
    return [row for one in statement.rows for row in cursor.execute(statement.text, one)]


def _rows_as_stored(cursor: sqlite3.Cursor, statement: Statement) -> list[sqlite3.Row]:
    connection = cursor.connection
    before, connection.text_factory = connection.text_factory, bytes
    try:
        return cursor.execute(statement.text, statement.parameters).fetchall()
    finally:
        connection.text_factory = before


def executions(statement: Statement | Many) -> list[dict[str, Any]]:
    """The parameters of a statement, once for each time that it has to be executed."""
    if isinstance(statement, Many):
        return [dict(row) for row in statement.rows]
    return [as_parameters(statement.parameters)]


def check_version() -> None:
    """Refuse a SQLite without the features the statements use."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise UnsupportedStore(
            f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or newer is needed. "
            "It comes with Python; use a newer Python."
        )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else held the lock for longer than we wait at a time."""
    # The low byte is the primary code; SQLITE_BUSY_RECOVERY and its kin are variations.
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def translate(error: sqlite3.Error, path: Path) -> Exception:
    """Our error for one of SQLite's; the original if it is a mistake of ours."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_busy(error):
        return error
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(
            f"cannot open {path}: check that its folder exists and may be written to.",
            path=str(path),
        )
    if code == sqlite3.SQLITE_NOTADB:
        return UnsupportedStore(f"{path} is not a SQLite database: choose another file.")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"no space left for {path}: nothing was written.", path=str(path))
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(f"{path} may not be written to: check its rights.", path=str(path))
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(
            f"{path} is damaged ({error}): stop all writers and restore it from a backup, "
            "or try sqlite3's .recover.",
            path=str(path),
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"the disk under {path} failed: {error}.", path=str(path))
    return error
