"""The SQLite store."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from headrace.contract.finishing import finish
from headrace.contract.op import Op
from headrace.contract.values import Capabilities, Finding
from headrace.drivers.own_transactions import held
from headrace.drivers.relational.keys import CommitKeys
from headrace.drivers.relational.locks import Locks
from headrace.drivers.relational.maintenance import Maintenance
from headrace.drivers.relational.migrations import (
    migrations,
    outstanding,
    refuse_absent,
    refuse_old,
)
from headrace.drivers.relational.queues import PushKeys
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.queues.walks import Walks
from headrace.drivers.relational.session import Session
from headrace.drivers.relational.sql import NOUNS, Dialect, Sql
from headrace.drivers.running import Runner, TryAgain, Work, no_probe
from headrace.drivers.sqlite import appending, claiming, diagnosis, queueing, schema, sessions
from headrace.drivers.sqlite.connections import (
    Connections,
    check_version,
    is_busy,
    translate,
)
from headrace.drivers.sqlite.conversing import Conversation, InsistedError
from headrace.drivers.sqlite.sessions import (
    guests,
    own_async_transaction,
    own_transaction,
    refuse_if_open,
)
from headrace.drivers.sqlite.staging import StageFiles, Staging
from headrace.drivers.sqlite.wakes import Wakes
from headrace.errors import StoreBusy
from headrace.telemetry.events import is_heard
from headrace.waking.bell import Waiter

T = TypeVar("T")

DIALECT = Dialect(
    folder="sqlite", word="headrace_", style="named", nouns=(*NOUNS, "quick", "filing")
)


class SqliteStore(Runner, Maintenance, Staging, Locks):
    """Headrace in a SQLite file. See ``headrace.contract.store.Store``."""

    name = "sqlite"
    sorts = True
    files = True
    # As they are: a method that only calls them would be one more call on the shortest ways.
    commit_at_once = appending.commit_at_once
    claim_at_once = claiming.claim_at_once
    push_at_once = queueing.push_at_once
    claim_items_at_once = queueing.claim_at_once
    # WAL takes no network: whoever has an item goes down with the machine that has the file.
    may_outlive = False
    capabilities = Capabilities(
        survives_restart=True,
        is_shared=True,
        resolves_outcome=True,
        has_record_view=True,
        composes=True,
        numbers_at_commit=False,
        is_served=False,
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
        self.sql = Sql(DIALECT, prefix)
        self.keys = CommitKeys(self.sql)
        self.push_keys = PushKeys(self.sql)
        self.connections = Connections(path, is_safe=is_safe)
        self.wakes = Wakes(self.connections.path, prefix)
        self._clock = clock
        self.stages = StageFiles(self.connections.path, self.clock)
        self._last_rows = {}
        # Queues as they were last seen.
        self.known_queues: dict[str, QueueRow] = {}
        self.walks = Walks()
        # Queues with rates, as they were last seen: their claims wait for the disk.
        self.rated_queues: set[str] = set()

    def clock(self) -> int | None:
        return self._clock() if self._clock else None

    def moment(self) -> int:
        """What time it is. Cheaper than to ask in a statement, and the same: SQLite asks the same
        machine, and cuts off what is less than a millisecond, too."""
        return self._clock() if self._clock else time.time_ns() // 1_000_000

    def is_relaxed(self, queue: str) -> bool:
        # A transaction that insists in its middle has to be begun again.
        return queue not in self.rated_queues

    def migrate(self) -> None:
        """Bring the tables to this version; waits for others who do the same."""
        give_up = time.monotonic() + self.patience
        while True:
            try:
                return self._migrate()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > give_up:
                    raise self.busy() if is_busy(error) else error from error
                time.sleep(0.02)

    def _migrate(self) -> None:
        known = migrations(DIALECT, self.prefix)
        with self.connections.writing() as writer:
            if not outstanding(known, self._version(writer), self.address):
                return
            writer.execute("BEGIN IMMEDIATE")
            writer.execute(schema.table(self.prefix))
            for migration in outstanding(known, self._version(writer), self.address):
                for statement in _statements(migration.text):
                    writer.execute(statement)
                writer.execute(schema.note(self.prefix, migration))
            writer.execute("COMMIT")

    def check(self) -> None:
        """Refuse a file without our tables, or with old ones; the file stays as it is."""
        if not self.connections.path.exists():
            refuse_absent(0, self.address)
        known = migrations(DIALECT, self.prefix)
        try:
            with self.connections.looking() as connection:
                version = self._version(connection)
        except sqlite3.OperationalError as error:
            raise self.busy() if is_busy(error) else error from error
        missing = outstanding(known, version, self.address)
        refuse_absent(version, self.address)
        refuse_old(version, missing, self.address)

    def _version(self, connection: sqlite3.Connection) -> int:
        table = f"{self.prefix}migration"
        exists = "select 1 from sqlite_master where type = 'table' and name = ?"
        if connection.execute(exists, (table,)).fetchone() is None:
            return 0
        row = connection.execute(f"select coalesce(max(version), 0) from {table}").fetchone()
        return int(row[0])

    @property
    def address(self) -> str:
        """Where the tables are, for people."""
        return str(self.connections.path)

    async def arun(self, op: Op[T]) -> T:
        return await finish(asyncio.to_thread(self.run, op))

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        site = diagnosis.Site(
            path=self.connections.path,
            prefix=self.prefix,
            newest=migrations(DIALECT, self.prefix)[-1].version,
            is_safe=self.connections.is_safe,
            now=self.clock(),
        )
        sql = Sql(DIALECT._replace(nouns=("doctor",)), self.prefix)
        return Op("diagnose", lambda: diagnosis.examine(site, sql, deep=deep), writes=False)

    def run(self, op: Op[T]) -> T:
        # All I/O is blocking here, so there is nothing to drive unless somebody is in the way.
        if is_heard():
            return super().run(op)
        return self.run_at_once(op, self._attempt)

    def attempt(self, op: Op[T]) -> Work[T]:
        yield from ()
        return self._attempt(op)

    def _attempt(self, op: Op[T]) -> T:
        op.was_run = True
        # Mostly there is neither, and that costs next to nothing.
        if held.get() or guests.get():
            refuse_if_open(self.connections.path)
        try:
            if not op.writes:
                return self._run_reading(op)
            try:
                return self._run_writing(op, relaxed=op.relaxed)
            except InsistedError:
                # SQLite cannot change its mind inside a transaction.
                return self._run_writing(op, relaxed=False)
        except sqlite3.Error as error:
            if is_busy(error):
                raise TryAgain(self.busy()) from error
            raise translate(error, self.connections.path) from error

    def _run_reading(self, op: Op[T]) -> T:
        with self.connections.reading() as reader:
            talk = Conversation(reader, op.name, self.probe, is_relaxed=False)
            return talk.follow(op.alone())

    def _run_writing(self, op: Op[T], *, relaxed: bool) -> T:
        connections, probe = self.connections, self.probe
        writer = connections.take_writer(relaxed=relaxed, durable=op.durable)
        try:
            talk = Conversation(writer, op.name, probe, is_relaxed=relaxed)
            writer.execute("BEGIN IMMEDIATE")
            result = talk.follow(op.alone()) if op.direct is None else op.direct(talk)
            if probe is not no_probe:
                probe(op.name, "commit")
            writer.execute("COMMIT")
            if probe is not no_probe:
                probe(op.name, "committed")
            # Who waits need not wait for the checkpoint too.
            if talk.announced:
                self.wakes.ring(talk.announced)
            # A claim leaves that to whatever comes behind it, as its own settlement: somebody
            # waits for what it has found.
            if op.direct is None or not op.relaxed:
                connections.checkpoint_if_due(writer)
        finally:
            connections.put_writer_back(writer)
        return result

    def transaction(self) -> AbstractContextManager[Session]:
        return own_transaction(self)

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        return own_async_transaction(self)

    def using(self, connection: Any) -> Session:
        return sessions.using(self, connection)

    def ausing(self, connection: Any) -> Session:
        return sessions.ausing(self, connection)

    def waiter(self, topic: str) -> Waiter:
        return self.wakes.waiter(topic)

    def busy(self) -> StoreBusy:
        """The error for a lock that others held for too long."""
        return StoreBusy(
            f"others kept {self.connections.path} locked for {self.patience:g} s: "
            "nothing was written; look for a long write transaction in another program.",
            path=str(self.connections.path),
        )

    def close(self) -> None:
        self.wakes.close()
        self.connections.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


def _statements(script: str) -> list[str]:
    """Split a migration into statements. ``executescript`` would commit our transaction."""
    found, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found
