"""Claims for procs where there is nothing to decide but what comes next.

The rules are ``model.procs``; here is the simplest case of them. Any other goes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.values import ClaimResult
from headrace.drivers.relational.sql import Finally
from headrace.model.position import range_text, record_id
from headrace.model.record import Batch

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


def claim_at_once(
    store: SqliteStore,
    name: str,
    token: str,
    count: int,
    ordinary: Callable[[], Steps[ClaimResult]],
) -> Callable[[], Steps[ClaimResult]]:
    """The steps of a claim that hopes to find all its records in one row."""

    def steps() -> Steps[ClaimResult]:
        reader = f"proc/{name}"
        known = store.known_row(reader)
        found = yield store.sql.next_records(
            proc=name, known=known[0] if known else "", now=store.clock()
        )
        if not found:
            return (yield from ordinary())
        row = found[0]
        low = row["cursor"]
        stop = min(low + count, row["next_seq"])
        if stop > row["base_seq"] + row["count"]:
            return (yield from ordinary())
        body = row["body"]
        if body is None:
            assert known is not None
            body = known[1]
        else:
            store.remember_row(reader, row["batch"], body)
        timeout = row["reclaim_timeout"]
        deadline = None if timeout is None else row["now"] + timeout
        taken = range_text(record_id(row["ts"], low), record_id(row["ts"], stop - 1))
        yield Finally(
            (
                store.sql.note_claim(id=row["id"], range=taken, now=row["now"]),
                store.sql.hold(
                    id=row["id"], token=token, first_seq=low, last_seq=stop - 1, deadline=deadline
                ),
            )
        )
        return ClaimResult(
            state="claimed",
            proc=name,
            topic=row["topic"],
            first_seq=low,
            last_seq=stop - 1,
            deadline=deadline,
            batches=(Batch(row["base_seq"], row["count"], row["ts"], body, row["headers"]),),
        )

    return steps
