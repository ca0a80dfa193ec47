"""The PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any
from weakref import WeakSet

from headrace.contract.op import Steps
from headrace.contract.values import Capabilities, Finding
from headrace.drivers.notifier import NotifierWaiter
from headrace.drivers.postgres import doctor, sessions
from headrace.drivers.postgres.fastpath.cache import QueueCache
from headrace.drivers.postgres.fastpath.paths import fast_paths
from headrace.drivers.postgres.fastpath.unflushed import UnflushedClaims
from headrace.drivers.postgres.functions import FunctionSet
from headrace.drivers.postgres.notify import PostgresNotify
from headrace.drivers.postgres.runner import PostgresRunner
from headrace.drivers.postgres.sinks import PostgresSinks
from headrace.drivers.sql_common.context import DialectTraits, QueueLock, SqlContext
from headrace.drivers.sql_common.migrations import expected, load_schema
from headrace.drivers.sql_common.session import SqlSession
from headrace.drivers.sql_common.statements import NOUNS, Dialect, Statements

DIALECT = Dialect(
    folder="postgres",
    word="headrace.",
    style="pyformat",
    nouns=(
        *NOUNS,
        "autocommit",
        "commit_marker",
        "deferred_numbering",
        "notify",
        "queue_lock",
        "staging",
    ),
)
TRAITS = DialectTraits(repeats_commits=True, has_commit_markers=True)
QUEUE_LOCK = QueueLock(
    enter=lambda sql, name: sql.lock_queue_shared(name=name),
    close=lambda sql, queue: sql.lock_queue_exclusive(queue=queue.id),
)


class PostgresStore(PostgresRunner):
    """Headrace in a PostgreSQL schema. See ``headrace.contract.store.Store``."""

    name = "postgres"
    capabilities = Capabilities(
        survives_restart=True,
        is_shared=True,
        resolves_outcome=True,
        has_record_view=True,
        supports_transactions=True,
        numbers_at_commit=True,
        has_server=True,
    )

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "headrace",
        is_safe: bool = True,
        patience: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        sql = Statements(DIALECT, f"{schema}.")
        super().__init__(conninfo, sql, is_safe=is_safe, patience=patience)
        self.schema = schema
        self._clock = clock
        self.queue_cache = QueueCache(self)
        self.unflushed = UnflushedClaims()
        self.notifier = PostgresNotify(self)
        self._where: sessions.DatabaseIdentity | None = None
        # Users' connections that lead to the same database.
        self.guests: WeakSet[Any] = WeakSet()
        context = SqlContext(
            self.sql,
            self.clock,
            TRAITS,
            fastpath=fast_paths(self),
            queue_lock=QUEUE_LOCK,
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
        self.sinks = PostgresSinks(context)
        self.pipelines = context.pipelines
        self.tokens = context.tokens
        self.schedules = context.schedules
        self.admin = context.admin

    def clock(self) -> int | None:
        return self._clock() if self._clock else None

    def _examine(self, deep: bool) -> Steps[list[Finding]]:
        name = f"{self.schema}."
        known = load_schema(DIALECT, name)
        site = doctor.PostgresSite(
            place=self.address,
            schema=self.schema,
            newest=known.version,
            is_safe=self.is_safe,
            now=self.clock(),
            expected=expected(known),
            functions=FunctionSet(self.schema, known.functions),
        )
        return doctor.examine(site, Statements(DIALECT._replace(nouns=("doctor",)), name))

    def waiter(self, topic: str) -> NotifierWaiter:
        return self.notifier.waiter(topic)

    def transaction(self) -> AbstractContextManager[SqlSession]:
        return sessions.own_transaction(self)

    def atransaction(self) -> AbstractAsyncContextManager[SqlSession]:
        return sessions.own_async_transaction(self)

    def note_where(self, place: sessions.DatabaseIdentity) -> None:
        self._where = place

    def where(self) -> sessions.DatabaseIdentity:
        """Which database this is; asked once."""
        if self._where is None:
            self._where = self.run(sessions.where())
        return self._where

    async def awhere(self) -> sessions.DatabaseIdentity:
        """The same for async code."""
        if self._where is None:
            self._where = await self.arun(sessions.where())
        return self._where

    def using(self, connection: Any) -> SqlSession:
        return sessions.using(self, connection)

    def ausing(self, connection: Any) -> SqlSession:
        return sessions.ausing(self, connection)
