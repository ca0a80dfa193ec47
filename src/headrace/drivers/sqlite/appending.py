"""Commits to one topic, without the detours that several topics and keys ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.shared import merged, shares, spans
from headrace.contract.values import CommitCall, CommitOutcome, Committed
from headrace.drivers.relational.sql import Announce
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


def commit_at_once(
    store: SqliteStore, calls: Sequence[CommitCall]
) -> Callable[[], Steps[list[CommitOutcome]]] | None:
    """The steps, if all records go to one topic and no call has a key."""
    parts = [part for call in calls for part in call.parts]
    if not parts or any(call.key is not None for call in calls):
        return None
    topic = parts[0].topic
    if any(part.topic != topic for part in parts):
        return None

    def steps() -> Steps[list[CommitOutcome]]:
        first = None
        for row in merged(parts):
            number = store.sql.number_row(
                topic=topic, count=row.count, continues=first is not None, now=store.clock()
            )
            numbered = yield number
            if not numbered:
                yield store.sql.add_topics(names=[topic])
                numbered = yield number
            head = numbered[0]
            first = first or head
            yield store.sql.add_batch(
                id=batch_id(),
                topic=head["id"],
                base_seq=head["base_seq"],
                count=row.count,
                ts=head["ts"],
                body=row.body,
                headers=row.headers,
            )
        assert first is not None
        yield Announce(frozenset((topic,)))
        places = spans(parts, {topic: first["base_seq"]})
        written = Committed(first["ts"], places, first["ts"] - first["now"])
        return list(shares(calls, written))

    return steps
