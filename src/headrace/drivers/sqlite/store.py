"""The SQLite store."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from headrace.contract.op import Op, Steps
from headrace.contract.shield import finish
from headrace.contract.threads import in_pool, in_thread
from headrace.contract.values import Capabilities, Finding
from headrace.drivers.notifier import NotifierWaiter
from headrace.drivers.reentrancy import marked_stores
from headrace.drivers.runner import Runner, TryAgain, Work, no_probe
from headrace.drivers.sql_common.context import DialectTraits, SqlContext
from headrace.drivers.sql_common.migrations import (
    expected,
    load_schema,
    outstanding,
    refuse_absent,
    refuse_old,
)
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.queues.scan_hints import ScanHints
from headrace.drivers.sql_common.session import SqlSession
from headrace.drivers.sql_common.statements import NOUNS, Dialect, Statements
from headrace.drivers.sqlite import doctor, schema, sessions
from headrace.drivers.sqlite.connections import Connections, check_version
from headrace.drivers.sqlite.execution import Execution, FlushRequired
from headrace.drivers.sqlite.fastpath.paths import fast_paths
from headrace.drivers.sqlite.notify import SqliteNotify
from headrace.drivers.sqlite.result_codes import is_busy, translate
from headrace.drivers.sqlite.sessions import (
    guests,
    own_async_transaction,
    own_transaction,
    refuse_if_open,
)
from headrace.drivers.sqlite.sinks import SqliteSinks, StageFiles
from headrace.drivers.sqlite.threads import Threads
from headrace.errors import HeadraceError, StoreBusy
from headrace.telemetry.events import is_heard

T = TypeVar("T")

TRAITS = DialectTraits(
    parks_channels=True,
    sorts_channels=True,
    # WAL does not work over a network: workers fail together with the machine that has the file.
    claims_outlive_crash=False,
)
DIALECT = Dialect(
    folder="sqlite",
    word="headrace_",
    style="named",
    nouns=(*NOUNS, "fastpath", "parked_channel"),
)


class SqliteStore(Runner):
    """Headrace in a SQLite file. See ``headrace.contract.store.Store``."""

    name = "sqlite"
    capabilities = Capabilities(
        survives_restart=True,
        is_shared=True,
        resolves_outcome=True,
        has_record_view=True,
        supports_transactions=True,
        numbers_at_commit=False,
        has_server=False,
    )

    def __init__(
        self,
        path: Path,
        *,
        prefix: str = "headrace_",
        is_safe: bool = True,
        patience: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(patience=patience)
        check_version()
        self.prefix = prefix
        self.sql = Statements(DIALECT, prefix)
        self.connections = Connections(path, is_safe=is_safe, patience=patience)
        self.notifier = SqliteNotify(self.connections.path, prefix)
        self.threads = Threads()
        self._clock = clock
        # Queues as they were last read.
        self.queue_cache: dict[str, QueueRow] = {}
        context = SqlContext(
            self.sql,
            self.clock,
            TRAITS,
            fastpath=fast_paths(self),
            scan_hints=ScanHints(),
            examine=self._examine,
        )
        self.context = context
        self.topics = context.topics
        self.procs = context.procs
        self.queues = context.queues
        self.channels = context.channels
        self.limits = context.limits
        self.locks = context.locks
        self.counters = context.counters
        self.sinks = SqliteSinks(context, StageFiles(self.connections.path, self.clock))
        self.pipelines = context.pipelines
        self.tokens = context.tokens
        self.schedules = context.schedules
        self.admin = context.admin

    def clock(self) -> int | None:
        return self._clock() if self._clock else None

    def migrate(self) -> None:
        """Bring the tables to this version; waits for others that do the same."""
        give_up = time.monotonic() + self.patience
        self.persevere(lambda: self._migrate(give_up), give_up)

    def persevere(self, work: Callable[[], T], give_up: float) -> T:
        """Repeat something with the file while it is locked, until ``give_up``."""
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > give_up:
                    raise self.failure(error) from error
                time.sleep(0.02)

    def _migrate(self, give_up: float) -> None:
        known = load_schema(DIALECT, self.prefix)
        connections = self.connections
        gate = connections.gate
        mine: list[bool] = []
        try:
            connections.wait_for_turn(gate, mine, "migrate", give_up)
            writer = connections.writer(give_up=give_up)
            if not outstanding(known, self._version(writer), self.address):
                return
            try:
                writer.execute("BEGIN IMMEDIATE")
                writer.execute(schema.table(self.prefix))
                for migration in outstanding(known, self._version(writer), self.address):
                    for statement in _statements(migration.text):
                        writer.execute(statement)
                    writer.execute(schema.note(self.prefix, migration))
                writer.execute("COMMIT")
            finally:
                writer.rollback()
        finally:
            if True in mine:
                gate.lock.release()

    def check(self) -> None:
        """Refuse a file without our tables, or with old ones; does not change the file."""
        if not self.connections.path.exists():
            refuse_absent(0, self.address)
        known = load_schema(DIALECT, self.prefix)
        version = self.persevere(self._seen_version, time.monotonic() + self.patience)
        missing = outstanding(known, version, self.address)
        refuse_absent(version, self.address)
        refuse_old(version, missing, self.address)

    def _seen_version(self) -> int:
        with self.connections.probing() as connection:
            return self._version(connection)

    def _version(self, connection: sqlite3.Connection) -> int:
        table = f"{self.prefix}migration"
        exists = "select 1 from sqlite_master where type = 'table' and name = ?"
        if connection.execute(exists, (table,)).fetchone() is None:
            return 0
        row = connection.execute(f"select coalesce(max(version), 0) from {table}").fetchone()
        return int(row[0])

    @property
    def address(self) -> str:
        """Where the tables are, for messages."""
        return str(self.connections.path)

    async def arun(self, op: Op[T]) -> T:
        op.accept()
        if marked_stores.get() or guests.get():
            # Before it occupies a thread, in which it would wait for its own transaction.
            refuse_if_open(self.connections.path)
        if op.since is None:
            # It may wait for a thread.
            op.since = time.monotonic()
        threads = self.threads.here()
        return await in_pool(threads.writes if op.writes else threads.reads, self.run, op)

    def _examine(self, deep: bool) -> Steps[list[Finding]]:
        known = load_schema(DIALECT, self.prefix)
        site = doctor.SqliteSite(
            path=self.connections.path,
            prefix=self.prefix,
            newest=known.version,
            is_safe=self.connections.is_safe,
            now=self.clock(),
            expected=expected(known),
        )
        sql = Statements(DIALECT._replace(nouns=("doctor",)), self.prefix)
        return doctor.examine(site, sql, deep=deep)

    def run(self, op: Op[T]) -> T:
        # All I/O is blocking here, so the generator is needed only for retries.
        if is_heard():
            return super().run(op)
        return self.run_blocking(op, self._attempt)

    def attempt(self, op: Op[T]) -> Work[T]:
        yield from ()
        return self._attempt(op)

    def _attempt(self, op: Op[T]) -> T:
        op.was_run = True
        # Usually there is neither, and the check costs almost nothing.
        if marked_stores.get() or guests.get():
            refuse_if_open(self.connections.path)
        try:
            if not op.writes:
                return self._run_reading(op)
            try:
                return self._run_writing(op, relaxed=op.relaxed)
            except FlushRequired:
                # SQLite cannot change durability inside a transaction.
                return self._run_writing(op, relaxed=False)
        except sqlite3.Error as error:
            if is_busy(error):
                raise TryAgain(self.busy()) from error
            raise translate(error, self.connections.path) from error

    def _run_reading(self, op: Op[T]) -> T:
        connections, mark = self.connections, object()
        reader: sqlite3.Connection | None = None
        is_good = False
        try:
            reader = connections.reader(mark)
            execution = Execution(reader, op.name, self.probe, is_relaxed=False, clock=self._clock)
            result = execution.follow(iter(op))
            is_good = True
            return result
        except HeadraceError:
            is_good = True
            raise
        finally:
            try:
                connections.put_back(reader, is_good=is_good)
            finally:
                connections.readings.pop(mark, None)

    def _run_writing(self, op: Op[T], *, relaxed: bool) -> T:
        connections, probe = self.connections, self.probe
        gate = connections.gate
        mine: list[bool] = []
        try:
            op.give_up = connections.wait_for_turn(gate, mine, op.name, op.give_up)
            writer = connections.writer(relaxed=relaxed, durable=op.durable, give_up=op.give_up)
            is_torn = True
            try:
                execution = Execution(writer, op.name, probe, is_relaxed=relaxed, clock=self._clock)
                writer.execute("BEGIN IMMEDIATE")
                result = execution.follow(iter(op)) if op.fast is None else op.fast(execution)
                if probe is not no_probe:
                    probe(op.name, "commit")
                # A claim leaves the checkpoint to later operations, such as its own settlement: a
                # caller waits for its items.
                checks_log = op.fast is None or not op.relaxed
                connections.commit(writer, op.name, checks_log=checks_log)
                if probe is not no_probe:
                    probe(op.name, "committed")
                # Waiters need not wait for the checkpoint, too.
                if execution.announced:
                    self.notifier.notify(execution.announced)
                if checks_log:
                    connections.checkpoint_if_due(writer)
                is_torn = False
            except (HeadraceError, FlushRequired, sqlite3.Error):
                is_torn = False
                raise
            finally:
                connections.is_torn = is_torn
                writer.rollback()
        finally:
            if True in mine:
                gate.lock.release()
        return result

    def transaction(self) -> AbstractContextManager[SqlSession]:
        return own_transaction(self)

    def atransaction(self) -> AbstractAsyncContextManager[SqlSession]:
        return own_async_transaction(self)

    def using(self, connection: Any) -> SqlSession:
        return sessions.using(self, connection)

    def ausing(self, connection: Any) -> SqlSession:
        return sessions.ausing(self, connection)

    def waiter(self, topic: str) -> NotifierWaiter:
        return self.notifier.waiter(topic)

    def failure(self, error: sqlite3.Error) -> Exception:
        """Our error for one of SQLite's that is no longer waited for."""
        return self.busy() if is_busy(error) else translate(error, self.connections.path)

    def busy(self) -> StoreBusy:
        """The error for a lock that others held for too long."""
        return StoreBusy(
            f"others kept {self.connections.path} locked for {self.patience:g} s: "
            "nothing was written; look for a long write transaction in another program, or in this one: to write in a transaction of your own, use using(connection).",
            path=str(self.connections.path),
        )

    def busy_with_others(self) -> StoreBusy:
        """The error for a transaction that waited too long for others of its event loop."""
        return StoreBusy(
            f"other transactions of this event loop were open on {self.connections.path} for "
            f"{self.patience:g} s: nothing was written; keep transactions short.",
            path=str(self.connections.path),
        )

    def close(self) -> None:
        self.notifier.close()
        self.connections.close()

    async def aclose(self) -> None:
        await finish(in_thread(self.close))
        self.threads.forget()


def _statements(script: str) -> list[str]:
    """Split a migration into statements. ``executescript`` would commit our transaction."""
    found, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found
