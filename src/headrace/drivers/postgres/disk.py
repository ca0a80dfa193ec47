"""Waiting for the disk in a statement of its own, behind one that did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.drivers.relational.sql import Statement, Whole

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def flush(store: PostgresStore) -> Statement | None:
    """Waits until what was done before is on the disk, if that matters."""
    return store.sql.flush() if store.is_safe else None


def flush_now(store: PostgresStore) -> Steps[None]:
    """The same by itself."""
    statement = flush(store)
    if statement is not None:
        yield Whole((statement,), confirms=True)
