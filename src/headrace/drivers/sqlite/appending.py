"""Commits to one topic, without the detours that several topics and keys ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.shared import merged, shares, spans
from headrace.contract.values import CommitCall, CommitOutcome, Committed, Part, Span
from headrace.drivers.relational.sql import Announce, Row
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


def commit_at_once(
    store: SqliteStore, calls: Sequence[CommitCall]
) -> Callable[[], Steps[list[CommitOutcome]]] | None:
    """The steps, if all records go to one topic and no call has a key."""
    if len(calls) == 1 and len(calls[0].parts) == 1 and calls[0].key is None:
        return lambda: _add_row(store, calls[0].parts[0])
    parts = [part for call in calls for part in call.parts]
    if not parts or any(call.key is not None for call in calls):
        return None
    topic = parts[0].topic
    if any(part.topic != topic for part in parts):
        return None

    def steps() -> Steps[list[CommitOutcome]]:
        first = None
        for row in merged(parts):
            head = yield from _append(store, row, continues=first is not None)
            first = first or head
        assert first is not None
        yield Announce(frozenset((topic,)))
        places = spans(parts, {topic: first["base_seq"]})
        written = Committed(first["ts"], places, first["ts"] - first["now"])
        return list(shares(calls, written))

    return steps


def _add_row(store: SqliteStore, part: Part) -> Steps[list[CommitOutcome]]:
    head = yield from _append(store, part, continues=False)
    yield Announce(frozenset((part.topic,)))
    place = Span(part.topic, head["base_seq"], part.count)
    return [Committed(head["ts"], (place,), head["ts"] - head["now"])]


def _append(store: SqliteStore, row: Part, *, continues: bool) -> Steps[Row]:
    """Number one row and write it; its topic is made if need be."""
    number = store.sql.number_row(
        topic=row.topic, count=row.count, continues=continues, now=store.clock()
    )
    numbered = yield number
    if not numbered:
        yield store.sql.add_topics(names=[row.topic])
        numbered = yield number
    head: Row = numbered[0]
    yield store.sql.add_batch(
        id=batch_id(),
        topic=head["id"],
        base_seq=head["base_seq"],
        count=row.count,
        ts=head["ts"],
        body=row.body,
        headers=row.headers,
    )
    return head
