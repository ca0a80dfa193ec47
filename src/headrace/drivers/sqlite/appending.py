"""Commits to one topic, without the detours that several topics and keys ask for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.contract.op import Alone, Direct, Steps
from headrace.contract.shared import merged, shares, spans
from headrace.contract.values import CommitCall, CommitOutcome, Committed, Part, Span
from headrace.drivers.relational.sql import Announce, Row
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.sqlite.conversing import Conversation
    from headrace.drivers.sqlite.store import SqliteStore


def commit_at_once(
    store: SqliteStore, calls: Sequence[CommitCall]
) -> Alone[list[CommitOutcome]] | None:
    """The steps, if all records go to one topic and no call has a key."""
    if len(calls) == 1 and len(calls[0].parts) == 1 and calls[0].key is None:
        return Direct(partial(_add_row, store, calls[0].parts[0]))
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


def _add_row(store: SqliteStore, part: Part, talk: Conversation) -> list[CommitOutcome]:
    texts = store.sql.texts
    topic, count = part.topic, part.count
    number = {"topic": topic, "count": count, "continues": False, "now": store.clock()}
    numbered = talk.ask(texts["number_row"], number)
    if not numbered:
        talk.follow(_add_topic(store, topic))
        numbered = talk.ask(texts["number_row"], number)
    id, base_seq, ts, now = numbered[0]
    row = {
        "id": batch_id(),
        "topic": id,
        "base_seq": base_seq,
        "count": count,
        "ts": ts,
        "body": part.body,
        "headers": part.headers,
    }
    talk.ask(texts["add_batch"], row)
    talk.announced.add(topic)
    return [Committed(ts, (Span(topic, base_seq, count),), ts - now)]


def _add_topic(store: SqliteStore, name: str) -> Steps[None]:
    yield store.sql.add_topics(names=[name])


def _append(store: SqliteStore, row: Part, *, continues: bool) -> Steps[Row]:
    """Number one row and write it; its topic is made if need be."""
    number = store.sql.number_row(
        topic=row.topic, count=row.count, continues=continues, now=store.clock()
    )
    numbered = yield number
    if not numbered:
        yield from _add_topic(store, row.topic)
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
