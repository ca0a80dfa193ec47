"""A push of one item, and claims, by a shorter way where they are simple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import PushCall, Pushed, PushOutcome, Take, Taking
from headrace.contract.op import Steps
from headrace.drivers.relational.queues.admission import Admission
from headrace.drivers.relational.queues.claims import refused, taking
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import QueueRow, plain_item_of
from headrace.drivers.relational.queues.turning import take_turns
from headrace.drivers.relational.sql import Announce
from headrace.model.items import place_of, rank_of
from headrace.model.limiting import NO_LIMITS, Limits

if TYPE_CHECKING:
    from headrace.drivers.sqlite.store import SqliteStore


MOST_KNOWN = 1000


def push_at_once(
    store: SqliteStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push of one item that only has to come to stand in line."""
    if len(calls) != 1 or len(calls[0].documents) != 1:
        return None
    [call] = calls
    [document] = call.documents
    is_simple = call.mode == "push" and call.key is None and document.subject is None
    if not is_simple or document.due is not None or document.delay is not None:
        return None
    if document.key_values is not None:
        return None

    def steps() -> Steps[list[PushOutcome]]:
        queue = store.known_queues.get(call.queue)
        if queue is None:
            queue = yield from _learn(store, call.queue)
        if queue is None or queue.settings.is_limited or queue.limits:
            return (yield from store.pushed_slowly(calls))
        discipline = queue.settings.discipline
        [turn] = yield from take_turns(store.sql, 1)
        added = yield store.sql.push_now(
            queue=queue.id,
            name=queue.name,
            version=queue.info.version,
            rank=-rank_of(discipline, document.priority),
            position=place_of(discipline, turn),
            payload=document.payload,
            format=document.format,
            priority=document.priority,
            headers=document.headers,
            overrides=document.overrides,
            now=store.clock(),
        )
        if not added:
            del store.known_queues[call.queue]
            return (yield from store.pushed_slowly(calls))
        if queue.settings.metrics:
            yield store.sql.count_push(queue=queue.id)
        yield Announce(frozenset((f"queue/{call.queue}",)))
        return [Pushed((added[0]["id"],))]

    return steps


def _learn(store: SqliteStore, name: str) -> Steps[QueueRow | None]:
    """A queue as it is; what is known of it is checked by its version."""
    queue = yield from store.find_queue(name)
    if queue is not None:
        if len(store.known_queues) > MOST_KNOWN:
            store.known_queues.clear()
        store.known_queues[name] = queue
    return queue


def _note_rate(store: SqliteStore, queue: QueueRow, limits: Limits) -> None:
    """Remember whether the next claim on a queue begins by waiting for the disk."""
    if queue.limits and limits.has_rates(queue.name):
        if len(store.rated_queues) > MOST_KNOWN:
            store.rated_queues.clear()
        store.rated_queues.add(queue.name)
    else:
        store.rated_queues.discard(queue.name)


def claim_at_once(store: SqliteStore, take: Take) -> Callable[[], Steps[Taking]]:
    """The steps of a claim that hopes to find enough in line."""

    def steps() -> Steps[Taking]:
        queue = yield from store.queue_row(take.queue)
        limits = (yield from store.limits_of(queue)) if queue.limits else NO_LIMITS
        _note_rate(store, queue, limits)
        if queue.info.has_channels or take.select is not None:
            return (yield from store.claim_open(take, queue))
        refusal = refused(queue, take)
        if refusal is not None:
            return refusal
        admission: Admission | None = None
        if queue.limits and limits.has(queue.name, "running"):
            admission = Admission(store.sql, queue, limits, may_outlive=store.may_outlive)
            yield from admission.open([None])
            if admission.fits(None) < take.count:
                # Leases that are over, of items or counters, may hold the room.
                return (yield from store.claim_rest(take, queue, 0))
        settings = queue.settings
        lease = round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms
        rows = yield store.sql.claim_first(
            queue=queue.id,
            token=take.token,
            worker=take.worker,
            lease=lease,
            count=take.count,
            now=queue.now,
        )
        items = [plain_item_of(row, queue.name) for row in rows]
        items.sort(key=lambda item: (-rank_of(settings.discipline, item.priority), item.position))
        ledger = Ledger(store.sql)
        ledger.count(queue, pending=-len(items), active=len(items), picked=len(items))
        yield from ledger.write()
        if admission is not None and items:
            admission.take(None, len(items))
            yield from admission.close(is_short=False)
        if len(items) == take.count:
            return taking(queue, items, None)
        # Planned items that are due, leases to end, or nothing at all.
        rest = yield from store.claim_rest(take, queue, len(items))
        items += rest.items
        items.sort(key=lambda item: (-rank_of(settings.discipline, item.priority), item.position))
        return taking(queue, items, rest.next_due)

    return steps
