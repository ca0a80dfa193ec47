"""A flush in a separate statement, behind one that committed without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.drivers.sql_common.statements import Autocommit, Statement

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def flush(store: PostgresStore) -> Statement | None:
    """The statement that flushes what was committed before; None if the store is relaxed."""
    return store.sql.flush() if store.is_safe else None


def flush_now(store: PostgresStore) -> Steps[None]:
    """Send that statement alone."""
    statement = flush(store)
    if statement is not None:
        yield Autocommit((statement,), confirms=True)
