"""The PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from headrace.contract.items import Outcome, PushCall, PushOutcome, Settled, Take, Taking
from headrace.contract.op import Op, Steps
from headrace.contract.values import Capabilities, ClaimResult, CommitCall, CommitOutcome, Finding
from headrace.drivers.postgres import (
    appending,
    claiming,
    diagnosis,
    item_claims,
    item_pushes,
    sessions,
)
from headrace.drivers.postgres.blocking import Blocking
from headrace.drivers.postgres.known import Known
from headrace.drivers.postgres.loose import LooseClaims
from headrace.drivers.postgres.staging import Staging
from headrace.drivers.postgres.wakes import Wakes
from headrace.drivers.relational.keys import CommitKeys
from headrace.drivers.relational.locks import Locks
from headrace.drivers.relational.maintenance import MOST_ROWS, Maintenance
from headrace.drivers.relational.migrations import migrations
from headrace.drivers.relational.queues import PushKeys
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.drivers.relational.session import Session
from headrace.drivers.relational.sql import NOUNS, Dialect, Sql, Statement
from headrace.waking.bell import Waiter

DIALECT = Dialect(
    folder="postgres",
    word="headrace.",
    style="pyformat",
    nouns=(*NOUNS, "alone", "gate", "late", "signature", "staging", "wake"),
)


class PostgresStore(Blocking, Maintenance, Staging, Locks):
    """Headrace in a PostgreSQL schema. See ``headrace.contract.store.Store``."""

    name = "postgres"
    repeats_at_once = True
    capabilities = Capabilities(
        survives_restart=True,
        is_shared=True,
        resolves_outcome=True,
        has_record_view=True,
        composes=True,
        numbers_at_commit=True,
        is_served=True,
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
        super().__init__(conninfo, is_safe=is_safe, patience=patience)
        self.schema = schema
        self.sql = Sql(DIALECT, f"{schema}.")
        self.keys = CommitKeys(self.sql)
        self.push_keys = PushKeys(self.sql)
        self._clock = clock
        self._last_rows = {}
        self.known = Known(self)
        self.loose = LooseClaims()
        self.wakes = Wakes(self)

    def clock(self) -> int | None:
        return self._clock() if self._clock else None

    def tidy(self) -> Steps[None]:
        yield self.sql.drop_signatures(now=self.clock(), limit=MOST_ROWS)

    def note_committed(self, names: set[str]) -> None:
        self.known.lower_floors(names)

    def tell(self, names: set[str]) -> None:
        self.wakes.ring(names)

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        name = f"{self.schema}."
        site = diagnosis.Site(
            place=self.address,
            schema=self.schema,
            newest=migrations(DIALECT, name)[-1].version,
            is_safe=self.is_safe,
            now=self.clock(),
        )
        sql = Sql(DIALECT._replace(nouns=("doctor",)), name)
        return Op("diagnose", lambda: diagnosis.examine(site, sql), writes=False)

    def entered_queue(self, name: str) -> Steps[QueueRow | None]:
        sql = self.sql
        # Entered first and read then, on the same way: what is read counts until COMMIT.
        _, found = yield sql.enter_queue(name=name), sql.find_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        return queue if queue is not None and queue.is_live else None

    def close_queue(self, queue: QueueRow) -> Steps[None]:
        yield self.sql.close_queue(queue=queue.id)

    def commit_at_once(
        self, calls: Sequence[CommitCall]
    ) -> Callable[[], Steps[list[CommitOutcome]]] | None:
        return appending.commit_at_once(self, calls)

    def claim_at_once(
        self, proc: str, token: str, count: int, max_bytes: int
    ) -> Callable[[], Steps[ClaimResult]]:
        def under_lock() -> Steps[ClaimResult]:
            return self.claim_under_lock(proc, token, count, max_bytes)

        return claiming.claim_at_once(self, proc, token, count, max_bytes, under_lock)

    def push_at_once(
        self, calls: Sequence[PushCall]
    ) -> Callable[[], Steps[list[PushOutcome]]] | None:
        return item_pushes.push_at_once(self, calls)

    def claim_items_at_once(self, take: Take) -> Callable[[], Steps[Taking]]:
        def slowly(is_repeat: bool) -> Steps[Taking]:
            return self.claim_steps(take, is_repeat=is_repeat)

        return item_claims.claim_at_once(self, take, slowly)

    def secure_at_once(self, queue: str, token: str, item: int) -> Callable[[], Steps[bool]] | None:
        return item_claims.secure_at_once(self, queue, token, item)

    def is_secured(self, token: str) -> bool:
        return self.loose.is_secured(token)

    def settle_at_once(
        self, queue: str, outcomes: Sequence[Outcome]
    ) -> Callable[[], Steps[list[Settled]]] | None:
        return item_claims.complete_at_once(self, queue, outcomes)

    def notifications(self, names: Sequence[str]) -> Sequence[Statement]:
        return self.wakes.notifications(names)

    def waiter(self, topic: str) -> Waiter:
        return self.wakes.waiter(topic)

    def transaction(self) -> AbstractContextManager[Session]:
        return sessions.own_transaction(self)

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        return sessions.own_async_transaction(self)

    def using(self, connection: Any) -> Session:
        return sessions.using(self, connection)

    def ausing(self, connection: Any) -> Session:
        return sessions.ausing(self, connection)
