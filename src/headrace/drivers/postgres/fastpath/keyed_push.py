"""Pushes with idempotency keys in one statement each, for the simple cases of ``push``.

The statement reserves the keys, pushes, and stores the outcomes with the keys. If some keys are in
use it does nothing and answers their outcomes; the calls that are left are sent again.

A lost answer is found by the receipt, since a call without a key may be among the others. The keys
that were found in use outlast a run: what was pushed under the receipt are the other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.contract.commit_rules import new_calls
from headrace.contract.items import PushCall, Pushed, PushOutcome
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath.push import (
    are_payloads,
    channel_columns,
    columns_of,
    common_values,
    joined_payloads,
    send_push,
)
from headrace.drivers.postgres.fastpath.receipts import MAX_ITEMS, earlier
from headrace.drivers.sql_common.idempotency import Settled
from headrace.drivers.sql_common.queues.conditions import can_push, can_save_outcomes, only_adds
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Notify, Statement
from headrace.model.queues.items import Document
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# The columns that only other documents than mere payloads have.
_ABSENT: dict[str, None] = dict.fromkeys(
    (
        *("names", "channel_numbers", "rank", "format", "subject", "priority"),
        *("due", "delay", "headers", "overrides"),
    )
)


def fast_keyed_push(
    store: PostgresStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push, if all calls only add to one queue."""
    if not only_adds(calls) or not can_save_outcomes(new_calls(calls, ())):
        return None
    name = calls[0].queue
    keys = store.context.push_keys
    settled: Settled[PushOutcome] = {}
    receipt = batch_id()
    runs = 0

    def steps() -> Steps[list[PushOutcome]]:
        nonlocal runs
        runs += 1
        queue = yield from store.queue_cache.queue(name)
        written: dict[int, PushOutcome] = {}
        while fresh := new_calls(calls, settled):
            documents = [document for call in fresh for document in call.documents]
            proof = receipt if len(documents) <= MAX_ITEMS else None
            pushed = None
            if queue is not None and can_push(queue, documents, store.context.cached_limits):
                statement = _statement(store, queue, fresh, documents, proof)
                pushed = yield from send_push(store, statement, proof)
                if pushed is None:
                    queue = yield from store.queue_cache.queue(name, reload=True)
                    if queue is not None and can_push(
                        queue, documents, store.context.cached_limits
                    ):
                        continue
            is_undone = pushed is None or pushed.is_elsewhere
            if is_undone and runs > 1 and queue is not None and proof is not None:
                pushed = yield from earlier(store, queue, proof)
            if pushed is None or pushed.is_elsewhere:
                return (yield from store.context.pushes.push_steps(calls))
            if pushed.used is None:
                yield Notify(frozenset({f"queue/{name}"}))
                written = _written(fresh, sorted(pushed.ids))
                break
            settled.update(keys.settled(pushed.used))
        return keys.answer(calls, written, settled)

    return steps


def _statement(
    store: PostgresStore,
    queue: QueueRow,
    calls: Sequence[PushCall],
    documents: Sequence[Document],
    receipt: str | None,
) -> Statement:
    """The statement of a push; the functions that it calls are those of ``push``."""
    columns: dict[str, Any] = dict(_ABSENT)
    if documents[0].key_values is not None:
        columns |= channel_columns(queue, documents)
    elif are_payloads(documents):
        columns["payload"] = joined_payloads(documents)
    else:
        columns |= columns_of(queue, documents)
    common = common_values(store, queue, receipt)
    return store.sql.push_keyed(calls=_key_columns(calls), **common, **columns)


def _key_columns(calls: Sequence[PushCall]) -> str:
    """The calls with keys, column by column: which of the documents are theirs?"""
    found = []
    first = 0
    for call in calls:
        count = len(call.documents)
        if call.key is not None:
            found.append((call.key, call.digest, call.key_ttl_ms, first, count))
        first += count
    names = ("keys", "digests", "ttls", "firsts", "counts")
    columns = dict(zip(names, map(list, zip(*found, strict=True)), strict=True)) if found else {}
    return msgspec.json.encode({**columns, "number": first}).decode()


def _written(calls: Sequence[PushCall], ids: Sequence[int]) -> dict[int, PushOutcome]:
    """The outcomes of calls, by their identity. All documents are new items."""
    found: dict[int, PushOutcome] = {}
    first = 0
    for call in calls:
        stop = first + len(call.documents)
        found[id(call)] = Pushed(tuple(ids[first:stop]))
        first = stop
    return found
