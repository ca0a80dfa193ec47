"""Commits to one topic in one statement: no BEGIN, no COMMIT, no second round trip.

Such a commit cannot be resolved by its transaction number, which the client does not learn before
the end. It need not be: the client makes the ids of its rows, and the table accepts each id once.
So when the answer is lost, the runner sends the statement again. It waits for the first if that is
still under way, and then either does the work or finds that it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.commit_rules import merged, shares, spans
from headrace.contract.op import Steps
from headrace.contract.values import CommitCall, CommitOutcome, Committed
from headrace.drivers.sql_common.statements import Autocommit, Notify
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def fast_commit(
    store: PostgresStore, calls: Sequence[CommitCall]
) -> Callable[[], Steps[list[CommitOutcome]]] | None:
    """The steps, if all records go to one topic. No call has a key: see ``keyed_commit``."""
    parts = [part for call in calls for part in call.parts]
    topics = {part.topic for part in parts}
    if len(topics) != 1:
        # Several topics are locked in one order.
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
            channel=store.notifier.channel if store.notifier.is_hinting else None,
        )
        for place, (row_id, row) in enumerate(zip(ids, rows, strict=True))
    )

    def steps() -> Steps[list[CommitOutcome]]:
        yield Notify(frozenset(topics))
        found = yield Autocommit(statements)
        if found is not None and not found[0]:
            # A topic without records counts as none, so a later error need not mention it.
            yield Autocommit((store.sql.add_topics(names=[topic]),), reads=True)
            found = yield Autocommit(statements)
        if found is None:
            # An earlier run did it: its reading of the clock is lost with its answer.
            [[first, *_]] = yield Autocommit((store.sql.find_batches(ids=ids),), reads=True)
            ahead = 0
        else:
            [first] = found[0]
            ahead = max(first["ts"] - first["now"], 0)
        places = spans(parts, {topic: first["done"]})
        written = Committed(first["ts"], places, ahead)
        return list(shares(calls, written))

    return steps
