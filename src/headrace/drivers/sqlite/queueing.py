"""A push of one item, and claims, by a shorter way where they are simple."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import PushCall, Pushed, PushOutcome, Take, Taking
from headrace.contract.op import Alone, Direct, Steps
from headrace.drivers.relational.queues.admission import Admission
from headrace.drivers.relational.queues.claims import claim_values, refused, taking
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.model import refusals
from headrace.model.items import ItemState, place_of, rank_of
from headrace.model.limiting import NO_LIMITS, Limits

if TYPE_CHECKING:
    from headrace.drivers.sqlite.conversing import Conversation
    from headrace.drivers.sqlite.store import SqliteStore


MOST_KNOWN = 1000


def push_at_once(store: SqliteStore, calls: Sequence[PushCall]) -> Alone[list[PushOutcome]] | None:
    """A push of one item that only has to come to stand in line."""
    if len(calls) != 1 or len(calls[0].documents) != 1:
        return None
    [call] = calls
    [document] = call.documents
    is_simple = call.mode == "push" and call.key is None and document.subject is None
    if not is_simple or document.due is not None or document.delay is not None:
        return None
    if document.key_values is not None:
        return None

    def push(talk: Conversation) -> list[PushOutcome]:
        queue = store.known_queues.get(call.queue) or talk.follow(_learn(store, call.queue))
        if queue is None or queue.limits or queue.info.settings.is_limited:
            return talk.follow(store.pushed_slowly(calls))
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
            "now": store.moment(),
        }
        added = talk.tell(texts["push_now"], item)
        if not added.rowcount:
            del store.known_queues[call.queue]
            return talk.follow(store.pushed_slowly(calls))
        talk.tell(texts["pass_turn"], {})
        if settings.metrics:
            talk.tell(texts["count_push"], {"queue": queue.id})
        talk.announced.add(f"queue/{call.queue}")
        assert added.lastrowid is not None
        return [Pushed((added.lastrowid,))]

    return Direct(push)


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


def claim_at_once(store: SqliteStore, take: Take) -> Alone[Taking]:
    """A claim that hopes to find enough in line."""

    def claim(talk: Conversation) -> Taking:
        texts = store.sql.texts
        found = talk.ask(texts["find_queue"], {"name": take.queue, "now": store.moment()})
        queue = queue_of(found[0]) if found else None
        if queue is None or not queue.is_live:
            raise refusals.unknown_queue(take.queue)
        limits = talk.follow(store.limits_of(queue)) if queue.limits else NO_LIMITS
        if queue.limits or store.rated_queues:
            _note_rate(store, queue, limits)
        if queue.info.has_channels or take.select is not None:
            return talk.follow(store.claim_open(take, queue))
        # Mostly it is none of this.
        if (
            queue.info.is_paused
            or queue.held_until
            or take.version not in (None, queue.info.version)
        ):
            refusal = refused(queue, take)
            if refusal is not None:
                return refusal
        admission: Admission | None = None
        if queue.limits and limits.has(queue.name, "running"):
            admission = Admission(store.sql, queue, limits, may_outlive=store.may_outlive)
            talk.follow(admission.open([None]))
            if admission.fits(None) < take.count:
                # Leases that are over, of items or counters, may hold the room.
                return talk.follow(store.claim_rest(take, queue, 0))
        items = _take_first(store, talk, take, queue)
        if admission is not None and items:
            admission.take(None, len(items))
            talk.follow(admission.close(is_short=False))
        if len(items) == take.count:
            return taking(queue, items, None)
        if items and admission is None:
            # Then nothing is planned for now and no lease is over: these are all there are.
            return taking(queue, items, talk.follow(store.next_due(queue, items)))
        # Planned items that are due, leases to end, or nothing at all.
        rest = talk.follow(store.claim_rest(take, queue, len(items)))
        items += rest.items
        discipline = queue.settings.discipline
        items.sort(key=lambda item: (-rank_of(discipline, item.priority), item.position))
        return taking(queue, items, rest.next_due)

    return Direct(claim)


def _take_first(
    store: SqliteStore, talk: Conversation, take: Take, queue: QueueRow
) -> list[ItemState]:
    """Take who is first in line, and count them."""
    texts = store.sql.texts
    settings = queue.info.settings
    lease = round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms
    first = {
        "queue": queue.id,
        "token": take.token,
        "worker": take.worker,
        "lease": lease,
        "count": take.count,
        "now": queue.now,
    }
    # As they shall be, and then written: an update that returns them costs more.
    rows = talk.ask(texts["next_items"], first)
    items = [_item_of(row, take.queue) for row in rows]
    if items:
        talk.tell_many(texts["hand_out_items"], [claim_values(item) for item in items])
        if settings.metrics:
            talk.tell(texts["count_claim"], {"queue": queue.id, "count": len(items)})
    return items


def _item_of(row: sqlite3.Row, queue: str) -> ItemState:
    """An item from a row that has all of it and nothing else; by place, not name by name."""
    return ItemState(queue=queue, **dict(zip(row.keys(), row, strict=True)))
