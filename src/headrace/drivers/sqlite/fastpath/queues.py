"""A push of one item, claims and completions, by a shorter path for simple cases."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import (
    ClaimRequest,
    ClaimResponse,
    Outcome,
    PushCall,
    Pushed,
    PushOutcome,
    Settled,
)
from headrace.contract.op import Fast, Steps
from headrace.drivers.sql_common.limits.admission import Admission
from headrace.drivers.sql_common.queues.claim import claim_response, claim_values, refused
from headrace.drivers.sql_common.queues.conditions import (
    adds_one_now,
    can_complete,
    claims_whole_line,
    is_unlimited,
    only_completes,
)
from headrace.drivers.sql_common.queues.rows import QueueRow, queue_of
from headrace.model import error_messages
from headrace.model.limits.limit_set import NO_LIMITS, LimitSet
from headrace.model.queues.items import ItemState, place_of, rank_of

if TYPE_CHECKING:
    from headrace.drivers.sqlite.execution import Execution
    from headrace.drivers.sqlite.store import SqliteStore


MAX_QUEUES = 1000


def fast_push(store: SqliteStore, calls: Sequence[PushCall]) -> Fast | None:
    """A push of one item that only has to be put in line."""
    if not adds_one_now(calls):
        return None
    [call] = calls
    [document] = call.documents

    def push(execution: Execution) -> list[PushOutcome]:
        queue = store.queue_cache.get(call.queue) or execution.follow(
            _load_queue(store, call.queue)
        )
        if queue is None or not is_unlimited(queue):
            return execution.follow(store.context.pushes.push_steps(calls))
        texts = store.sql.texts
        settings = queue.info.settings
        item = {
            "queue": queue.id,
            "name": call.queue,
            "version": queue.info.version,
            "rank": -rank_of(settings.discipline, document.priority),
            "sign": place_of(settings.discipline, 1),
            "payload": document.payload,
            "format": document.format,
            "priority": document.priority,
            "headers": document.headers,
            "overrides": document.overrides,
            "now": execution.moment(),
        }
        added = execution.execute(texts["push_item"], item)
        if not added.rowcount:
            del store.queue_cache[call.queue]
            return execution.follow(store.context.pushes.push_steps(calls))
        execution.execute(texts["advance_position"], {})
        if settings.metrics:
            execution.execute(texts["count_push"], {"queue": queue.id})
        execution.announced.add(f"queue/{call.queue}")
        assert added.lastrowid is not None
        return [Pushed((added.lastrowid,))]

    return push


def _load_queue(store: SqliteStore, name: str) -> Steps[QueueRow | None]:
    """A queue as stored; statements check a cached one by its version."""
    queue = yield from store.context.storage.find_queue(name)
    if queue is not None:
        if len(store.queue_cache) > MAX_QUEUES:
            store.queue_cache.clear()
        store.queue_cache[name] = queue
    return queue


def _note_rate(store: SqliteStore, queue: QueueRow, limits: LimitSet) -> None:
    """Remember whether the next claim on a queue must be flushed."""
    if queue.limit_version and limits.has_rates(queue.name):
        if len(store.context.rated_queues) > MAX_QUEUES:
            store.context.rated_queues.clear()
        store.context.rated_queues.add(queue.name)
    else:
        store.context.rated_queues.discard(queue.name)


def fast_claim(store: SqliteStore, request: ClaimRequest) -> Fast:
    """A claim that probably finds enough items in line."""

    def claim(execution: Execution) -> ClaimResponse:
        texts = store.sql.texts
        found = execution.query(
            texts["find_queue"], {"name": request.queue, "now": execution.moment()}
        )
        queue = queue_of(found[0]) if found else None
        if queue is None or not queue.is_live:
            raise error_messages.unknown_queue(request.queue)
        limits = (
            execution.follow(store.context.storage.limits_of(queue))
            if queue.limit_version
            else NO_LIMITS
        )
        if queue.limit_version or store.context.rated_queues:
            _note_rate(store, queue, limits)
        if not claims_whole_line(queue, request):
            return execution.follow(store.context.claims.claim_open(request, queue))
        # Usually none of this applies.
        if (
            queue.info.is_paused
            or queue.frozen_until
            or request.version not in (None, queue.info.version)
        ):
            refusal = refused(queue, request)
            if refusal is not None:
                return refusal
        admission: Admission | None = None
        if queue.limit_version and limits.has(queue.name, "running"):
            admission = Admission(
                store.sql, queue, limits, may_outlive=store.context.traits.claims_outlive_crash
            )
            execution.follow(admission.open([None]))
            if admission.fits(None) < request.count:
                # Lapsed leases, of items or counters, may occupy the slots.
                return execution.follow(store.context.claims.claim_rest(request, queue, 0))
        items = _claim_first(store, execution, request, queue)
        if admission is not None and items:
            admission.acquire(None, len(items))
            execution.follow(admission.close(is_short=False))
        if len(items) == request.count:
            return claim_response(queue, items, None)
        if items and admission is None:
            # Nothing is planned for now and no lease has expired: these are all.
            return claim_response(
                queue, items, execution.follow(store.context.claims.next_due(queue, items))
            )
        # Planned items are due, leases must be ended, or nothing is there.
        rest = execution.follow(store.context.claims.claim_rest(request, queue, len(items)))
        items += rest.items
        discipline = queue.settings.discipline
        items.sort(key=lambda item: (-rank_of(discipline, item.priority), item.position))
        return claim_response(queue, items, rest.next_due)

    return claim


def _claim_first(
    store: SqliteStore, execution: Execution, request: ClaimRequest, queue: QueueRow
) -> list[ItemState]:
    """Claim the first items in line, and count them."""
    texts = store.sql.texts
    settings = queue.info.settings
    lease = round(settings.lease * 1000) if request.lease_ms is None else request.lease_ms
    first = {
        "queue": queue.id,
        "token": request.token,
        "worker": request.worker,
        "lease": lease,
        "count": request.count,
        "now": queue.now,
    }
    # Compute the new rows, then write them: an update that returns them costs more.
    rows = execution.query(texts["next_items"], first)
    items = [_item_of(row, request.queue) for row in rows]
    if items:
        execution.execute_many(texts["mark_claimed"], [claim_values(item) for item in items])
        if settings.metrics:
            execution.execute(texts["count_claim"], {"queue": queue.id, "count": len(items)})
    return items


def fast_complete(store: SqliteStore, name: str, outcomes: Sequence[Outcome]) -> Fast | None:
    """A settlement that only completes items, which leave nothing behind."""
    if not only_completes(outcomes):
        return None
    tokens: dict[str, list[int]] = {}
    for outcome in outcomes:
        tokens.setdefault(outcome.token, []).append(outcome.item)

    def complete(execution: Execution) -> list[Settled]:
        queue = store.queue_cache.get(name) or execution.follow(_load_queue(store, name))
        if queue is None or queue.limit_version or not can_complete(queue):
            return execution.follow(store.context.settlements.settle_steps(name, outcomes))
        completed: set[int] = set()
        for token, ids in tokens.items():
            items = {
                "queue": queue.id,
                "name": name,
                "version": queue.info.version,
                "token": token,
                "ids": f"[{','.join(map(str, ids))}]",
            }
            rows = execution.query(store.sql.texts["complete_items"], items)
            completed.update(row[0] for row in rows)
        if completed and queue.info.settings.metrics:
            counts = {"queue": queue.id, "count": len(completed)}
            execution.execute(store.sql.texts["count_completed"], counts)
        if len(completed) == len(outcomes):
            return [Settled(outcome.item, "completed") for outcome in outcomes]
        # They have successors, their claims are lost, or the queue has changed.
        store.queue_cache.pop(name, None)
        left = [outcome for outcome in outcomes if outcome.item not in completed]
        rest = iter(execution.follow(store.context.settlements.settle_steps(name, left)))
        return [
            Settled(outcome.item, "completed") if outcome.item in completed else next(rest)
            for outcome in outcomes
        ]

    return complete


def _item_of(row: sqlite3.Row, queue: str) -> ItemState:
    """An item from a row with exactly its columns, by position: cheaper than by name."""
    return ItemState(queue=queue, **dict(zip(row.keys(), row, strict=True)))
