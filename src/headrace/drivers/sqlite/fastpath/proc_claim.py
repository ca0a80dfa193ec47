"""Claims for procs where the only decision is what comes next.

The rules are in ``model.topics.procs``; this is their simplest case. All others use the general
path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.op import Fast
from headrace.contract.values import ClaimResult
from headrace.model.topics.positions import range_of
from headrace.model.topics.records import Batch

if TYPE_CHECKING:
    from headrace.drivers.sqlite.execution import Execution
    from headrace.drivers.sqlite.store import SqliteStore


def fast_proc_claim(store: SqliteStore, proc: str, token: str, count: int, max_bytes: int) -> Fast:
    """A claim that probably finds all its records in one row."""

    def claim(execution: Execution) -> ClaimResult:
        texts = store.sql.texts
        reader = f"proc/{proc}"
        known = store.context.topics.known_row(reader)
        known_id, known_body = known or ("", "")
        parameters = {"proc": proc, "known": known_id, "now": execution.moment()}
        found = execution.query(texts["next_records"], parameters)
        if not found:
            return execution.follow(
                store.context.procs.claim_under_lock(proc, token, count, max_bytes)
            )
        [row] = found
        id, topic, low, timeout, next_seq, now, batch, base_seq, size, ts, headers, body = row
        stop = min(low + count, next_seq)
        if stop > base_seq + size:
            return execution.follow(
                store.context.procs.claim_under_lock(proc, token, count, max_bytes)
            )
        if body is None:
            body = known_body
        else:
            store.context.topics.remember_row(reader, batch, body)
        deadline = None if timeout is None else now + timeout
        taken = range_of(ts, low, stop - 1)
        execution.execute(texts["record_proc_claim"], {"id": id, "range": taken, "now": now})
        claim = {
            "id": id,
            "token": token,
            "first_seq": low,
            "last_seq": stop - 1,
            "deadline": deadline,
        }
        execution.execute(texts["add_claim"], claim)
        return ClaimResult(
            state="claimed",
            proc=proc,
            topic=topic,
            first_seq=low,
            last_seq=stop - 1,
            deadline=deadline,
            batches=(Batch(base_seq, size, ts, body, headers),),
        )

    return claim
