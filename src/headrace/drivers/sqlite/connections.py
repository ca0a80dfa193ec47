"""Connections to one SQLite file: a writer, readers, and the checkpoint rule.

SQLite up to 3.51.2 can corrupt a database when a commit resets the write-ahead log while
another connection checkpoints it. Here that cannot happen: no connection of ours ever
checkpoints automatically, and ``checkpoint`` runs only while we hold the write lock, so that
no other connection can commit meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from headrace.drivers.reentrancy import has_transaction
from headrace.drivers.sqlite import forks
from headrace.drivers.sqlite.gate import ConnectionGate, gate
from headrace.drivers.sqlite.result_codes import primary_code, translate
from headrace.errors import (
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    UnsupportedStore,
)
from headrace.model.forks import renew_in_child

OLDEST = (3, 35, 0)
WAL_BYTES = 4 * 1024 * 1024
BUSY_MS = 1_500
"""How long SQLite waits for a lock at a time, unless patience is shorter. Then a call is tried
again, or ends: at most this much after its patience."""
BUSY_SLACK = 0.1
"""Seconds by which that may differ from the remaining patience: setting it costs a statement."""
IDLE_READERS = 8
FORK_SECONDS = 5.0

_WITHOUT_WAITING = (False,)

# Connections that a child inherited in a fork: the child must neither use nor close them.
_left_by_fork: list[object] = []


class Connections:
    """All connections of one store to its file."""

    def __init__(self, path: Path, *, is_safe: bool, patience: float) -> None:
        self.path = path.resolve()
        self._patience = patience
        self._busy_seconds = min(BUSY_MS / 1000, patience)
        self.is_safe = is_safe
        self._name = str(self.path)
        self._wal = f"{self.path}-wal"
        self._start()
        forks.guard(self)
        renew_in_child(self, Connections._start_again)

    def _start(self) -> None:
        self._gate = gate(self.path)
        self._writer: sqlite3.Connection | None = None
        # How long the writer waits for a lock at a time; None if unknown.
        self._busy_limit: float | None = None
        # Whether an exception that is not one of ours interrupted the use of the writer.
        self.is_torn = False
        # The file and the log that the writer writes to; None until they are read.
        self._inode: int | None = None
        self._device: int | None = None
        self._log_inode: int | None = None
        self._is_gone = False
        self._is_synced: bool | None = True
        self._checkpointer: sqlite3.Connection | None = None
        self._checkpoint_at = WAL_BYTES
        # The size of the log before the last commit that checked it.
        self._log_size = 0
        self._readers: list[sqlite3.Connection] = []
        # One mark for each running read.
        self.readings: dict[object, None] = {}
        self._readers_lock = threading.Lock()

    def _start_again(self) -> None:
        """Start over in the child of a fork."""
        _left_by_fork.append((self._writer, self._checkpointer, self._readers))
        self._start()

    @property
    def gate(self) -> ConnectionGate:
        """The gate for all writers of the file in this process."""
        return self._gate

    def wait_for_turn(
        self, gate: ConnectionGate, mine: list[bool], operation: str, give_up: float | None
    ) -> float | None:
        """Wait until it is this thread's turn to write; ``StoreBusy`` if that takes too long.

        ``give_up`` is when the caller's patience ends; None if it begins now. Returns the same, or
        when it ends if there was a wait.

        An exception from a signal handler may come behind every call, even behind the one that
        acquired the lock. So the same call in C notes in ``mine`` that it was acquired, and the
        caller writes ``finally: if True in mine: gate.lock.release()``.
        """
        mine.extend(map(gate.lock.acquire, _WITHOUT_WAITING))
        if not mine[0]:
            now = time.monotonic()
            if give_up is None:
                give_up = now + self._patience
            seconds = min(max(give_up - now, 0), threading.TIMEOUT_MAX)
            mine.extend(map(gate.lock.acquire, (True,), (seconds,)))
            if not mine[1]:
                raise self._in_use(*gate.holder)
        gate.holder = (operation, get_ident())
        return give_up

    def _in_use(self, operation: str, ident: int) -> StoreBusy:
        names = [thread.name for thread in threading.enumerate() if thread.ident == ident]
        thread = f"thread {names[0]!r}" if names else "a thread that has ended,"
        holder = "a transaction" if operation == "transaction" else f"{operation!r}"
        return StoreBusy(
            f"{self.path} was in use for {self._patience:g} s, at last by {holder} in {thread} of "
            "this process: nothing was written; keep transactions short, and look for a long "
            "write transaction in another program.",
            path=str(self.path),
        )

    def writer(
        self, *, relaxed: bool = False, durable: bool = False, give_up: float | None = None
    ) -> sqlite3.Connection:
        """The writer connection, outside of a transaction, for the thread whose turn it is.

        It waits for locks of other programs until ``give_up`` at most.

        An exception from a signal handler may come at any point. So ``wait_for_turn`` notes that
        the lock was acquired, ``is_torn`` says whether the connection may be used again, and
        ``writer.rollback()`` is the first call of the ``finally`` behind it: it does nothing after
        a commit.
        """
        if self._is_gone:
            # SQLite notices that the file was replaced, and leaves that one's log alone.
            with self._readers_lock:
                self._close_all()
            self._is_gone = False
        if self.is_torn and self._writer is not None:
            # Statements may be unfinished.
            self._writer.close()
            self._writer = None
        self.is_torn = False
        writer = self._writer
        if writer is None:
            if self._inode is not None and not self.path.exists():
                # SQLite would create another one.
                raise self._gone()
            writer = self.open()
            file = self.path.stat()
            self._inode, self._device, self._log_inode = file.st_ino, file.st_dev, None
            self._is_synced = True
            self._busy_limit = self._busy_seconds
            self._writer = writer
        if self._busy_limit != self._busy_seconds or (
            give_up is not None and give_up - time.monotonic() < self._busy_seconds - BUSY_SLACK
        ):
            self._limit_busy(writer, give_up)
        is_synced = durable or (self.is_safe and not relaxed)
        if is_synced != self._is_synced:
            # Unknown until it is done.
            self._is_synced = None
            writer.execute(f"PRAGMA synchronous={'FULL' if is_synced else 'NORMAL'}")
            self._is_synced = is_synced
        return writer

    def begin(self, writer: sqlite3.Connection, give_up: float | None) -> None:
        """Begin a transaction that writes; wait for locks of other programs until ``give_up``."""
        self._limit_busy(writer, give_up)
        writer.execute("BEGIN IMMEDIATE")

    def _limit_busy(self, writer: sqlite3.Connection, give_up: float | None) -> None:
        seconds = self._busy_seconds
        if give_up is not None:
            seconds = min(seconds, max(give_up - time.monotonic(), 0))
        if self._busy_limit is None or abs(seconds - self._busy_limit) > BUSY_SLACK:
            self._busy_limit = None
            writer.execute(f"PRAGMA busy_timeout={seconds * 1000:.0f}")
            self._busy_limit = seconds

    def commit(
        self, writer: sqlite3.Connection, operation: str, *, checks_log: bool = True
    ) -> None:
        """Commit the writer's transaction; ``OutcomeUnknown`` if the disk fails meanwhile.

        Checks the file and its log first, so that a refusal is true: the caller rolls back. If
        they are lost after that, it is as if they were lost after the commit.
        """
        self._check_file()
        if checks_log:
            self._check_log()
        try:
            writer.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_IOERR:
                raise
            # The log may contain all of it, but not for certain: a process that opens the file
            # after a crash may find the transaction there.
            raise OutcomeUnknown(
                f"the disk under {self.path} failed while {operation!r} was being committed: it "
                "may be stored or not. Check the disk, then look, or repeat it with an idempotency "
                "key.",
                operation=operation,
                path=str(self.path),
            ) from error

    def _check_file(self) -> None:
        """Raise if a commit would go to a file that no other process can find."""
        try:
            file = os.stat(self._name)  # noqa: PTH116  # a Path would cost as much again
        except (FileNotFoundError, NotADirectoryError):
            pass
        else:
            if file.st_ino == self._inode and file.st_dev == self._device:
                return
        raise self._gone()

    def _check_log(self) -> None:
        """The same for the log; notes its size."""
        try:
            log = os.stat(self._wal)  # noqa: PTH116  # a Path would cost as much again
        except (FileNotFoundError, NotADirectoryError):
            raise self._gone() from None
        if log.st_ino != self._log_inode:
            if self._log_inode is not None:
                raise self._gone()
            self._log_inode = log.st_ino
        self._log_size = log.st_size

    def _gone(self) -> StoreError:
        self._is_gone = True
        return StoreError(
            f"{self.path}, or its -wal, was deleted or replaced while it was open: nothing was "
            "stored by this call. Move only files that no process has open; restore the file and "
            "connect again.",
            path=str(self.path),
        )

    def reader(self, mark: object) -> sqlite3.Connection:
        """A reader connection; pass the same mark to ``put_back``."""
        with self._readers_lock:
            self.readings[mark] = None
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = self.open()
            reader.execute("PRAGMA query_only=on")
        return reader

    def put_back(self, reader: sqlite3.Connection | None, *, is_good: bool) -> None:
        """Return a reader for reuse; afterwards the caller removes its mark from ``readings``."""
        if reader is None:
            return
        if is_good and len(self._readers) < IDLE_READERS:
            self._readers.append(reader)
        else:
            reader.close()

    @contextmanager
    def probing(self) -> Iterator[sqlite3.Connection]:
        """A connection for a first check of a file that may not be ours: it changes nothing, not
        even the journal mode."""
        connection = None
        try:
            address = f"{self.path.as_uri()}?mode=ro"
            connection = sqlite3.connect(address, uri=True, timeout=self._busy_seconds)
            yield connection
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            if connection is not None:
                connection.close()

    @contextmanager
    def closed_for_fork(self) -> Iterator[None]:
        """Keep all connections closed in the block, so that a child cannot inherit any.

        SQLite keeps track of its locks in memory. A child inherits that record but not the locks,
        and would act as if it held them. After a fork inside an open transaction the child must
        not use the client.
        """
        # Another client of the same file may have acquired the gate for this very fork. The child
        # gets a new one.
        gate = self._gate
        is_ours = gate.forker == get_ident()
        if has_transaction(self.path) or not (is_ours or gate.lock.acquire(timeout=FORK_SECONDS)):
            yield
            return
        gate.forker = get_ident()
        try:
            with self._readers_lock:
                give_up = time.monotonic() + FORK_SECONDS
                while self.readings and time.monotonic() < give_up:
                    time.sleep(0.001)
                if not (self._writer is not None and self._writer.in_transaction):
                    self._close_all()
                yield
        finally:
            if not is_ours:
                gate.forker = None
                gate.lock.release()

    def checkpoint_if_due(self, writer: sqlite3.Connection) -> None:
        """Move the log into the file if it had grown before the last commit, which was ours.

        Call it outside of a transaction, while it is this thread's turn. Readers with old snapshots
        only delay it.
        """
        if self._log_size <= self._checkpoint_at:
            if self._log_size <= WAL_BYTES:
                # The log was restarted.
                self._checkpoint_at = WAL_BYTES
            return
        try:
            is_complete = self.checkpoint(writer)
            size = os.stat(self._wal).st_size  # noqa: PTH116  # as above
        except (sqlite3.Error, StoreError, OSError):
            # The commit before is durable in the log. A later commit tries again, and reports a
            # failing disk itself.
            return
        # The next commit sees this size once more, and restarts the log. If a reader of an old
        # snapshot prevents that, wait for the log to grow further.
        self._checkpoint_at = size if is_complete else size + WAL_BYTES

    def checkpoint(self, writer: sqlite3.Connection) -> bool:
        """Checkpoint while ``writer`` holds the write lock; returns whether it is complete."""
        if self._checkpointer is None:
            self._checkpointer = self.open()
        writer.execute("BEGIN IMMEDIATE")
        try:
            row = self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            writer.execute("ROLLBACK")
        return bool(row[1] == row[2])

    def open(self) -> sqlite3.Connection:
        """Open one more connection, with the settings of all our connections."""
        try:
            connection = sqlite3.connect(
                self.path,
                isolation_level=None,
                check_same_thread=False,
                timeout=self._busy_seconds,
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
            # On macOS a plain flush leaves the data in the drive's cache; elsewhere these do nothing.
            connection.execute("PRAGMA fullfsync=1")
            connection.execute("PRAGMA checkpoint_fullfsync=1")
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
        """Close all connections; SQLite removes the log when the last one closes."""
        with self._gate.lock, self._readers_lock:
            self._close_all()

    def _close_all(self) -> None:
        for connection in (*self._readers, self._checkpointer, self._writer):
            if connection is not None:
                connection.close()
        self._readers = []
        self._checkpointer = self._writer = None


def check_version() -> None:
    """Refuse a SQLite without the features the statements use."""
    if sqlite3.sqlite_version_info < OLDEST:
        raise UnsupportedStore(
            f"SQLite {sqlite3.sqlite_version} is too old: 3.35 or newer is needed. "
            "It comes with Python; use a newer Python."
        )
