"""Commits to one topic, without the steps that several topics and keys need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.contract.commit_rules import merged, shares, spans
from headrace.contract.op import Fast, Steps
from headrace.contract.values import CommitCall, CommitOutcome, CommitPart, Committed, SeqSpan
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.sqlite.execution import Execution
    from headrace.drivers.sqlite.store import SqliteStore


def fast_commit(store: SqliteStore, calls: Sequence[CommitCall]) -> Fast | None:
    """The commit, if all records go to one topic and no call has a key."""
    if len(calls) == 1 and len(calls[0].parts) == 1 and calls[0].key is None:
        return partial(_commit_row, store, calls[0].parts[0])
    parts = [part for call in calls for part in call.parts]
    if not parts or any(call.key is not None for call in calls):
        return None
    topic = parts[0].topic
    if any(part.topic != topic for part in parts):
        return None

    def commit(execution: Execution) -> list[CommitOutcome]:
        first_seq, ts, lead = _append(store, execution, topic, list(merged(parts)))
        written = Committed(ts, spans(parts, {topic: first_seq}), lead)
        return list(shares(calls, written))

    return commit


def _commit_row(store: SqliteStore, part: CommitPart, execution: Execution) -> list[CommitOutcome]:
    first_seq, ts, lead = _append(store, execution, part.topic, (part,))
    return [Committed(ts, (SeqSpan(part.topic, first_seq, part.count),), lead)]


def _append(
    store: SqliteStore, execution: Execution, topic: str, rows: Sequence[CommitPart]
) -> tuple[int, int, int]:
    """Write rows at the end of a topic, which is created if needed.

    Returns the first number, the time, and by how much that is ahead of the clock. Reading and
    writing the head are two statements: one with ``returning`` costs more than both.
    """
    texts = store.sql.texts
    asked = {"topic": topic, "now": execution.moment()}
    found = execution.query(texts["head"], asked)
    if not found:
        execution.follow(_add_topic(store, topic))
        found = execution.query(texts["head"], asked)
    id, _, _, next_seq, last_ts, _, _, now = found[0]
    ts = max(last_ts, now)
    first_seq = next_seq
    for row in rows:
        batch = {
            "id": batch_id(),
            "topic": id,
            "base_seq": next_seq,
            "count": row.count,
            "ts": ts,
            "body": row.body,
            "headers": row.headers,
        }
        execution.execute(texts["add_batch"], batch)
        next_seq += row.count
    execution.execute(texts["move_head"], {"topic": id, "next_seq": next_seq, "ts": ts})
    execution.announced.add(topic)
    return first_seq, ts, ts - now


def _add_topic(store: SqliteStore, name: str) -> Steps[None]:
    yield store.sql.add_topics(names=[name])
