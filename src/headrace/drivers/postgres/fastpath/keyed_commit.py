"""Commits with idempotency keys to one topic, in one statement each.

The statement reserves the keys, appends one row, and stores the outcomes with the keys. If some keys
are in use it does nothing and answers their outcomes; the calls that are left are sent again.

A lost answer is found by the id of the row, as in ``commit``. The keys that were found in use outlast
a run: what was stored in the row are the other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.commit_rules import merged, new_calls, shares, spans
from headrace.contract.op import Steps
from headrace.contract.values import CommitCall, CommitOutcome, CommitPart, Committed
from headrace.drivers.postgres.fastpath.autocommit import autocommit_each
from headrace.drivers.sql_common.idempotency import Outcome, Settled
from headrace.drivers.sql_common.statements import Autocommit, Notify, Statement
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def fast_keyed_commit(
    store: PostgresStore, calls: Sequence[CommitCall]
) -> Callable[[], Steps[list[CommitOutcome]]] | None:
    """The steps, if all records go to one topic and fit in one row, and no call is empty."""
    parts = _parts(calls)
    topics = {part.topic for part in parts}
    if len(topics) != 1 or len(merged(parts)) != 1 or not all(call.parts for call in calls):
        return None
    [topic] = topics
    keys = store.context.commit_keys
    settled: Settled[Outcome] = {}
    row_id = batch_id()

    def steps() -> Steps[list[CommitOutcome]]:
        written: dict[int, Outcome] = {}
        while fresh := new_calls(calls, settled):
            answer = yield Autocommit((_statement(store, topic, fresh, row_id),))
            if answer is None:
                # An earlier run did it: its reading of the clock is lost with its answer.
                find = store.sql.find_batches(ids=[row_id])
                [[row]] = yield Autocommit((find,), reads=True)
                ahead = 0
            elif not answer[0]:
                # A topic without records counts as none, so a later error need not mention it.
                yield Autocommit((store.sql.add_topics(names=[topic]),), reads=True)
                continue
            else:
                [row] = answer[0]
                if row["used"] is not None:
                    settled.update(keys.settled(row["used"]))
                    continue
                ahead = max(row["ts"] - row["now"], 0)
            yield Notify(frozenset(topics))
            places = spans(_parts(fresh), {topic: row["done"]})
            mine = shares(fresh, Committed(row["ts"], places, ahead))
            written = {id(call): outcome for call, outcome in zip(fresh, mine, strict=True)}
            break
        for key, (digest, before) in settled.items():
            kept = yield from autocommit_each(store.context.topics.kept(before))
            settled[key] = (digest, kept)
        return keys.answer(calls, written, settled)

    return steps


def _statement(
    store: PostgresStore, topic: str, calls: Sequence[CommitCall], row_id: str
) -> Statement:
    [row] = merged(_parts(calls))
    return store.sql.append_keyed(
        calls=_key_columns(calls),
        topic=topic,
        id=row_id,
        count=row.count,
        body=row.body,
        headers=row.headers,
        now=store.clock(),
        channel=store.notifier.channel if store.notifier.is_hinting else None,
    )


def _key_columns(calls: Sequence[CommitCall]) -> str:
    """The calls with keys, column by column, and where their parts are in the row."""
    keyed = [call for call in calls if call.key is not None]
    numbers = {id(call): number for number, call in enumerate(keyed, 1)}
    places = []
    first = 0
    for call in calls:
        for part in call.parts:
            if call.key is not None:
                places.append((numbers[id(call)], first, part.count))
            first += part.count
    columns = {
        "keys": [call.key for call in keyed],
        "digests": [call.digest for call in keyed],
        "ttls": [call.key_ttl_ms for call in keyed],
        "key_numbers": [number for number, _, _ in places],
        "firsts": [first for _, first, _ in places],
        "counts": [count for _, _, count in places],
    }
    return msgspec.json.encode(columns).decode()


def _parts(calls: Sequence[CommitCall]) -> list[CommitPart]:
    return [part for call in calls for part in call.parts]
