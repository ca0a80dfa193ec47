"""Claims for procs in one statement, where there is nothing to decide but what comes next.

The rules are ``model.procs``; a function in the database knows the simplest case of them, and
says so when it is another. A repeat of a claim whose answer was lost finds it under its token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.values import ClaimResult
from headrace.drivers.relational.sql import Whole
from headrace.model.record import Batch

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def claim_at_once(
    store: PostgresStore,
    name: str,
    token: str,
    count: int,
    max_bytes: int,
    under_lock: Callable[[], Steps[ClaimResult]],
) -> Callable[[], Steps[ClaimResult]]:
    """The steps of a claim that hopes to be simple."""

    def steps() -> Steps[ClaimResult]:
        reader = f"proc/{name}"
        known = store.known_row(reader)
        statement = store.sql.claim_next(
            proc=name,
            token=token,
            most=count,
            max_bytes=max_bytes,
            known=known[0] if known else "",
            now=store.clock(),
        )
        [rows] = yield Whole((statement,))
        if not rows or rows[0]["held"] == "other":
            return (yield from under_lock())
        first = rows[0]
        if first["held"] == "empty":
            return ClaimResult(state="empty", proc=name)
        batches = []
        for row in rows:
            body = row["body"]
            if body is None:
                assert known is not None
                body = known[1]
            batches.append(Batch(row["base_seq"], row["count"], row["ts"], body, row["headers"]))
        store.remember_row(reader, rows[-1]["id"], batches[-1].body)
        return ClaimResult(
            state="claimed",
            proc=name,
            topic=first["topic"],
            first_seq=first["low"],
            last_seq=min(first["high"], batches[-1].last_seq),
            deadline=first["until"],
            batches=tuple(batches),
        )

    return steps
