"""Claims for procs in one statement, where the only decision is what comes next.

The rules are in ``model.topics.procs``. A function in the database knows their simplest case and
reports any other. A repeat of a claim whose answer was lost finds it by its token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.values import ClaimResult
from headrace.drivers.postgres.fastpath.answers import ClaimAnswer
from headrace.drivers.sql_common.statements import Autocommit
from headrace.model.topics.records import Batch

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def fast_proc_claim(
    store: PostgresStore, name: str, token: str, count: int, max_bytes: int
) -> Callable[[], Steps[ClaimResult]]:
    """The steps of a claim that is probably simple."""

    def steps() -> Steps[ClaimResult]:
        reader = f"proc/{name}"
        known = store.context.topics.known_row(reader)
        statement = store.sql.claim_records(
            proc=name,
            token=token,
            max_records=count,
            max_bytes=max_bytes,
            known=known[0] if known else "",
            now=store.clock(),
        )
        [rows] = yield Autocommit((statement,))
        if not rows or rows[0]["answer"] == ClaimAnswer.OTHER:
            procs = store.context.procs
            return (yield from procs.claim_under_lock(name, token, count, max_bytes))
        first = rows[0]
        if first["answer"] == ClaimAnswer.EMPTY:
            return ClaimResult(state="empty", proc=name)
        batches = []
        for row in rows:
            body = row["body"]
            if body is None:
                assert known is not None
                body = known[1]
            batches.append(Batch(row["base_seq"], row["count"], row["ts"], body, row["headers"]))
        store.context.topics.remember_row(reader, rows[-1]["id"], batches[-1].body)
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
