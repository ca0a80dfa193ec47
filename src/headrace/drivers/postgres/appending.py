"""Commits to one topic in one statement: no BEGIN, no COMMIT, no second round trip.

Such a commit cannot be asked about by its transaction number, which nobody knows before it is
over. It need not be: its rows have ids that we made, and a table that takes each id once. So
when its answer is lost it is simply sent again, waits for the first if that is still under
way, and then either does the work or finds that it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.op import Steps
from headrace.contract.shared import merged, shares, spans
from headrace.contract.values import CommitCall, CommitOutcome, Committed
from headrace.drivers.relational.sql import Announce, Whole
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def commit_at_once(
    store: PostgresStore, calls: Sequence[CommitCall]
) -> Callable[[], Steps[list[CommitOutcome]]] | None:
    """The steps, if all records go to one topic and no call has a key."""
    parts = [part for call in calls for part in call.parts]
    topics = {part.topic for part in parts}
    if len(topics) != 1 or any(call.key is not None for call in calls):
        # Several topics are locked in one order, and keys are taken before.
        return None
    [topic] = topics
    rows = merged(parts)
    ids = [batch_id() for _ in rows]
    statements = tuple(
        store.sql.append(
            topic=topic,
            id=row_id,
            count=row.count,
            body=row.body,
            headers=row.headers,
            continues=place > 0,
            now=store.clock(),
            channel=store.wakes.channel if store.wakes.is_hinting else None,
        )
        for place, (row_id, row) in enumerate(zip(ids, rows, strict=True))
    )

    def steps() -> Steps[list[CommitOutcome]]:
        yield Announce(frozenset(topics))
        found = yield Whole(statements)
        if found is not None and not found[0]:
            yield Whole((store.sql.add_topics(names=[topic]),))
            found = yield Whole(statements)
        if found is None:
            # Sent before, and done then: what is known of the clock is lost with the answer.
            [[first, *_]] = yield Whole((store.sql.find_batches(ids=ids),))
            ahead = 0
        else:
            [first] = found[0]
            ahead = max(first["ts"] - first["now"], 0)
        places = spans(parts, {topic: first["appended"]})
        written = Committed(first["ts"], places, ahead)
        return list(shares(calls, written))

    return steps
