"""Claims for procs where there is nothing to decide but what comes next.

The rules are ``model.procs``; here is the simplest case of them. Any other goes the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.op import Direct
from headrace.contract.values import ClaimResult
from headrace.model.position import range_of
from headrace.model.record import Batch

if TYPE_CHECKING:
    from headrace.drivers.sqlite.conversing import Conversation
    from headrace.drivers.sqlite.store import SqliteStore


def claim_at_once(
    store: SqliteStore, proc: str, token: str, count: int, max_bytes: int
) -> Direct[ClaimResult]:
    """A claim that hopes to find all its records in one row."""

    def claim(talk: Conversation) -> ClaimResult:
        texts = store.sql.texts
        reader = f"proc/{proc}"
        known = store.known_row(reader)
        known_id, known_body = known or ("", "")
        looking = {"proc": proc, "known": known_id, "now": store.moment()}
        found = talk.ask(texts["next_records"], looking)
        if not found:
            return talk.follow(store.claim_under_lock(proc, token, count, max_bytes))
        [row] = found
        id, topic, low, timeout, next_seq, now, batch, base_seq, size, ts, headers, body = row
        stop = min(low + count, next_seq)
        if stop > base_seq + size:
            return talk.follow(store.claim_under_lock(proc, token, count, max_bytes))
        if body is None:
            body = known_body
        else:
            store.remember_row(reader, batch, body)
        deadline = None if timeout is None else now + timeout
        taken = range_of(ts, low, stop - 1)
        talk.tell(texts["note_claim"], {"id": id, "range": taken, "now": now})
        hold = {
            "id": id,
            "token": token,
            "first_seq": low,
            "last_seq": stop - 1,
            "deadline": deadline,
        }
        talk.tell(texts["hold"], hold)
        return ClaimResult(
            state="claimed",
            proc=proc,
            topic=topic,
            first_seq=low,
            last_seq=stop - 1,
            deadline=deadline,
            batches=(Batch(base_seq, size, ts, body, headers),),
        )

    return Direct(claim)
