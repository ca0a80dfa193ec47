"""Runs operations on PostgreSQL: connections, transactions and lost answers together."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.contract.op import Op
from headrace.drivers.postgres.attempts import Attempts, SyncAttempt
from headrace.drivers.postgres.cancellation import to_the_end
from headrace.drivers.postgres.commit_resolution import CommitResolver
from headrace.drivers.postgres.connections import (
    Borrowed,
    Checkin,
    Checkout,
    PostgresConnections,
    Send,
)
from headrace.drivers.postgres.fastpath.cache import QueueCache
from headrace.drivers.postgres.notify import PostgresNotify
from headrace.drivers.postgres.round_trip import asend, asend_autocommit, send, send_autocommit
from headrace.drivers.postgres.transactions import Transactions
from headrace.drivers.runner import Runner, Work, drive
from headrace.drivers.sql_common.statements import Statements
from headrace.telemetry.events import is_heard

T = TypeVar("T")


class PostgresRunner(Runner):
    """The half of the PostgreSQL store that executes operations."""

    # The store sets them.
    notifier: PostgresNotify
    queue_cache: QueueCache

    def __init__(self, conninfo: str, sql: Statements, *, is_safe: bool, patience: float) -> None:
        super().__init__(patience=patience)
        self.sql = sql
        self.is_safe = is_safe
        self.connections = PostgresConnections(conninfo, patience=patience)
        self.address = self.connections.address
        self.resolver = CommitResolver(self, self.connections, sql)
        attempts = Attempts(self, self.connections, self.resolver)
        self.transactions = Transactions(self, attempts)
        self.attempt = self.transactions.attempt  # type: ignore[method-assign]  # one call less
        self.attempt_in_line = self.transactions.attempt_in_line  # type: ignore[method-assign]  # as above
        self._attempt_blocking = SyncAttempt(self, attempts, self.transactions.transact)

    def clock(self) -> int | None:
        """The time in tests; None for the server's clock."""
        raise NotImplementedError  # the store is given it

    def run(self, op: Op[T]) -> T:
        if not op.writes or is_heard():
            return super().run(op)
        return self.run_blocking(op, self._attempt_blocking)

    def perform(self, action: Any) -> Any:
        match action:
            case Send(connection, statements, True, behind):
                return send_autocommit(connection, statements, behind)
            case Send(connection, statements):
                return send(connection, statements)
            case _:
                return super().perform(action)

    def borrow(self) -> Borrowed:
        """The owner of the connection that a call or a transaction checks out."""
        return Borrowed(self.connections.pool, self.perform)

    def drive(self, work: Work[T]) -> T:
        borrowed = self.borrow()
        try:
            return drive(work, borrowed.perform)
        finally:
            places = borrowed.pool.places
            places.left_by(places.owners.pop(borrowed, None))

    async def aperform(self, action: Any) -> Any:
        match action:
            case Checkout(is_lasting, give_up):
                pool = self.connections.async_pool()
                return await pool.acquire(give_up, is_lasting=is_lasting)
            case Send(connection, statements, True, behind):
                return await to_the_end(
                    asend_autocommit(connection, statements, behind), connection
                )
            case Send(connection, (_,) as statements, False, None, True):
                # Without a separate task, which is a good part of the cost of a short read.
                return await asend(connection, statements)
            case Send(connection, statements):
                return await to_the_end(asend(connection, statements), connection)
            case Checkin(connection, is_good, is_lasting):
                pool = self.connections.async_pool()
                return await pool.give(connection, is_good=is_good, is_lasting=is_lasting)
            case _:
                return await super().aperform(action)

    def close(self) -> None:
        self.connections.close()

    async def aclose(self) -> None:
        await self.connections.aclose()
