"""Completions in one statement, for items that leave nothing behind.

All other outcomes use the general path that all SQL drivers share. A completion leaves a receipt, by
which a repeat finds that it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import Outcome, Settled
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath import limited_claim
from headrace.drivers.postgres.fastpath.receipts import MAX_ITEMS, earlier, found, read
from headrace.drivers.postgres.fastpath.wal_flush import flush_now
from headrace.drivers.postgres.round_trip import DIVIDER
from headrace.drivers.sql_common.queues.conditions import can_complete, only_completes
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Autocommit, Notify
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# The answer to a completion that completed all of its items.
ALL = "all"


def fast_complete(
    store: PostgresStore, name: str, outcomes: Sequence[Outcome]
) -> Callable[[], Steps[list[Settled]]] | None:
    """The steps of a settlement, if all items are done and nothing else happens with it."""
    if len(outcomes) > MAX_ITEMS or not only_completes(outcomes):
        return None
    tokens = [outcome.token for outcome in outcomes]
    ids = [outcome.item for outcome in outcomes]
    if len(set(tokens)) == 1:
        del tokens[1:]
    receipt = batch_id()
    runs = 0

    def steps() -> Steps[list[Settled]]:
        nonlocal runs
        runs += 1
        queue = yield from store.queue_cache.queue(name)
        gone: set[int] | None = None
        if queue is not None and can_complete(queue):
            gone = yield from _complete(store, queue, tokens, ids, receipt)
        if gone is None and runs > 1 and queue is not None:
            gone = set((yield from earlier(store, queue, receipt)).ids)
        if gone is not None and len(gone) == len(ids):
            return [Settled(id, "completed") for id in ids]
        left = [outcome for outcome in outcomes if gone is None or outcome.item not in gone]
        rest = iter((yield from store.context.settlements.settle_steps(name, left)))
        return [Settled(id, "completed") if gone and id in gone else next(rest) for id in ids]

    return steps


def _complete(
    store: PostgresStore,
    queue: QueueRow,
    tokens: Sequence[str],
    ids: Sequence[int],
    receipt: str,
) -> Steps[set[int] | None]:
    """The ids of the completed items; None if the queue has changed."""
    common = {
        "queue": queue.id,
        "version": queue.info.version,
        "tokens": DIVIDER.join(tokens),
        "ids": ",".join(map(str, ids)),
        "keeps_counts": queue.info.settings.metrics,
        "receipt": receipt,
    }
    if queue.limit_version:
        rules = yield from limited_claim.counting(store, queue)
        if rules is None or rules.limits.has(queue.name, "enqueued"):
            return None
        counted = store.queue_cache.counted(tokens, ids)
        statement = store.sql.complete_counted(
            **common,
            channel=store.notifier.channel if store.notifier.is_hinting else None,
            counted_by=None if counted is None else counted.rule_version,
            counters=None if counted is None else counted.counters,
            numbers=None if counted is None else counted.numbers,
        )
        behind = store.unflushed.flush(store.sql) if store.is_safe else None
    else:
        statement, behind = store.sql.complete_items(**common), None
    answer = yield Autocommit((statement,), behind)
    if answer is None:
        # An earlier run has completed them, or the channels have no counters at this version.
        before = yield from found(store, receipt)
        if before is None:
            return None
        if queue.limit_version:
            yield from flush_now(store)
        return set(before.ids)
    rows = answer[0]
    if behind is not None and len(answer) > 1:
        store.unflushed.note(answer[1][0].get("confirmed"), behind)
    if not rows:
        yield from store.queue_cache.queue(queue.name, reload=True)
        return None
    woken = rows[0].get("woken")
    if woken:
        yield Notify(frozenset(f"queue/{name}" for name in woken.split(DIVIDER)))
    done = rows[0]["done"]
    return set(ids if done == ALL else read(done).ids)
