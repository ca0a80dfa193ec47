"""Pushes, claims and completions in one statement each, where they are simple.

What is not simple (keys, upserts, subjects that count for ever, history, successors) goes the
way that all relational drivers share. A push or a completion leaves a receipt: when its answer
is lost it is sent again, waits for the first if that is still under way, and then finds the
receipt. A claim is found by its token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from headrace.contract.items import (
    Note,
    Outcome,
    PushCall,
    Pushed,
    PushOutcome,
    Settled,
    Take,
    Taking,
)
from headrace.contract.op import Steps
from headrace.drivers.postgres.sending import DIVIDER, NULL
from headrace.drivers.relational.queues.claims import taking
from headrace.drivers.relational.queues.rows import QueueRow, item_of, queue_of
from headrace.drivers.relational.sql import Announce, Statement, Whole
from headrace.model.items import Document, ItemState, place_of, rank_of
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# A receipt lists what was done; with more than this a transaction is the better proof.
MOST_ON_A_RECEIPT = 200
# Claims that take so many times the best one, so many of them in a row, are slow.
SLOW = 3.0
SLOW_CLAIMS = 5
FLOOR_SECONDS = 1.0
_FIELDS = Document.__struct_fields__
# What stands for an id when the queue's settings have changed.
OTHER = -1
MOST_KNOWN = 1000


class Known:
    """Queues as they were last seen, and how far claims have come in each of them.

    What is known may be old: every statement checks the version of the settings.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queues: dict[str, QueueRow] = {}
        self._floors: dict[str, Floor] = {}

    def queue(self, name: str, *, anew: bool = False) -> Steps[QueueRow | None]:
        """A queue that was live when it was last seen."""
        queue = self._queues.get(name)
        if queue is None or anew:
            sql = self._store.sql
            [rows] = yield Whole((sql.find_queue(name=name, now=self._store.clock()),))
            queue = queue_of(rows[0]) if rows and rows[0]["is_live"] else None
            if len(self._queues) > MOST_KNOWN:
                self._queues.clear()
            if queue is None:
                self._queues.pop(name, None)
            else:
                self._queues[name] = queue
        return queue

    def floor(self, queue: QueueRow) -> tuple[int | None, int | None]:
        """The rank and place up to which everything was claimed, if that is of any use."""
        floor = self._floors.get(queue.name)
        if floor is None or not floor.is_wanted or queue.settings.discipline == "lifo":
            return None, None
        return floor.rank, floor.position

    def raise_floor(
        self, queue: QueueRow, items: Sequence[ItemState], most: int, seconds: float
    ) -> None:
        """Remember how far a claim has come, and how long it took."""
        floor = self._floors.setdefault(queue.name, Floor())
        if len(items) < most:
            floor.reset()
            return
        last = items[-1]
        floor.rank = -rank_of(queue.settings.discipline, last.priority)
        floor.position = (last.position or 0) + 1
        floor.note(seconds / most)


class Floor:
    """How far the claims on a queue have come, and whether they have become slow.

    Under somebody's old snapshot the front of the line fills up with rows that are gone, and
    each claim reads past all of them. Only then are places passed over that were claimed
    before: an item that comes back to its old place, or a push that is committed late, may
    stand among them and waits for the next look from the bottom, a second at the most.
    """

    def __init__(self) -> None:
        self.rank = 0
        self.position = 0
        self._best = float("inf")
        self.reset()

    def reset(self) -> None:
        """Start from the bottom."""
        self._slow = 0
        self._until = 0.0

    @property
    def is_wanted(self) -> bool:
        return time.monotonic() < self._until

    def note(self, seconds: float) -> None:
        """A claim took so long for each item."""
        if self.is_wanted:
            return
        self._best = min(self._best, seconds)
        self._slow = self._slow + 1 if seconds > SLOW * self._best else 0
        if self._slow >= SLOW_CLAIMS:
            self._until = time.monotonic() + FLOOR_SECONDS


def push_at_once(
    store: PostgresStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push, if all calls only add to one queue."""
    queues = {call.queue for call in calls}
    documents = [document for call in calls for document in call.documents]
    is_simple = len(queues) == 1 and all(call.mode == "push" and call.key is None for call in calls)
    if not is_simple or not documents:
        return None
    [name] = queues
    has_receipt = len(documents) <= MOST_ON_A_RECEIPT
    receipts: list[str] = []

    def steps() -> Steps[list[PushOutcome]]:
        queue = yield from store.known.queue(name)
        if queue is None or not _can_push(queue, documents):
            return (yield from store.pushed_slowly(calls))
        ids: list[int] = [0] * len(documents)
        skipped: set[int] = set()
        left = list(range(len(documents)))
        turn = 0
        while left:
            if turn == len(receipts):
                receipts.append(batch_id())
            receipt = receipts[turn] if has_receipt else None
            done = yield from _push(store, queue, [documents[i] for i in left], receipt)
            if done is None:
                queue = yield from store.known.queue(name, anew=True)
                if queue is None or not _can_push(queue, documents):
                    return (yield from store.pushed_slowly(calls))
                continue
            turn += 1
            left = yield from _sort_out(store, queue, documents, left, done, ids, skipped)
        yield Announce(frozenset({f"queue/{name}"}))
        return _shares(calls, ids, skipped)

    return steps


def _can_push(queue: QueueRow, documents: Sequence[Document]) -> bool:
    is_unique = queue.settings.unique != "live"
    has_subjects = is_unique and any(document.subject is not None for document in documents)
    return queue.settings.metrics and not has_subjects


def _push(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], receipt: str | None
) -> Steps[list[tuple[int, str | None]] | None]:
    """The ids and subjects of new items; None if the queue has changed."""
    statement = _push_statement(store, queue, documents, receipt)
    # Without a receipt it is a transaction, that can be asked about by its number.
    found = (yield Whole((statement,))) if receipt else (yield (statement,))
    if found is None:
        # Sent before, and done then.
        [[row]] = yield Whole((store.sql.find_receipt(receipt=receipt),))
        ids = [int(id) for id in (row["ids"] or "").split(",") if id]
        subjects = yield from _subjects(store, queue, ids)
        return [(id, subjects.get(id)) for id in ids]
    [rows] = found
    if not rows:
        # The queue has changed, or all subjects are taken: only a look can tell.
        fresh = yield from store.known.queue(queue.name, anew=True)
        if fresh is None or fresh.info.version != queue.info.version:
            return None
    return [(row["appended"], row["subject"]) for row in rows]


def _push_statement(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], receipt: str | None
) -> Statement:
    discipline = queue.settings.discipline
    common = {
        "queue": queue.name,
        "version": queue.info.version,
        "receipt": receipt,
        "sign": place_of(discipline, 1),
        "now": store.clock(),
        "channel": store.wakes.channel if store.wakes.is_hinting else None,
    }
    if len(documents) == 1:
        [document] = documents
        return store.sql.push_one_at_once(
            **common,
            rank=-rank_of(discipline, document.priority),
            **{field: getattr(document, field) for field in _FIELDS},
        )
    return store.sql.push_at_once(
        **common,
        rank=_column(documents, lambda document: -rank_of(discipline, document.priority)),
        **{field: _column(documents, attrgetter(field)) for field in _FIELDS},
    )


def _subjects(store: PostgresStore, queue: QueueRow, ids: list[int]) -> Steps[dict[int, str]]:
    [rows] = yield Whole((store.sql.item_subjects(queue=queue.id, ids=ids),))
    return {row["id"]: row["subject"] for row in rows}


def _sort_out(
    store: PostgresStore,
    queue: QueueRow,
    documents: Sequence[Document],
    left: Sequence[int],
    done: Sequence[tuple[int, str | None]],
    ids: list[int],
    skipped: set[int],
) -> Steps[list[int]]:
    """Give each document its id; those whose subject was in the way and is so no more are left."""
    unnamed = iter(sorted(id for id, subject in done if subject is None))
    named = {subject: id for id, subject in done if subject is not None}
    in_the_way: dict[str, int] = {}
    missing = sorted(
        {s for i in left if (s := documents[i].subject) is not None and s not in named}
    )
    if missing:
        [rows] = yield Whole((store.sql.subject_items(queue=queue.id, subjects=missing),))
        in_the_way = {row["subject"]: row["id"] for row in rows}
    again = []
    for index in left:
        subject = documents[index].subject
        if subject is None:
            ids[index] = next(unnamed, 0)
        elif subject in named:
            ids[index] = named[subject]
            in_the_way[subject] = named.pop(subject)
        elif subject in in_the_way:
            ids[index] = in_the_way[subject]
            skipped.add(index)
        else:
            again.append(index)
    return again


def _shares(calls: Sequence[PushCall], ids: Sequence[int], skipped: set[int]) -> list[PushOutcome]:
    outcomes: list[PushOutcome] = []
    start = 0
    for call in calls:
        stop = start + len(call.documents)
        notes = tuple(
            Note(index - start, "skipped", "exists")
            for index in range(start, stop)
            if index in skipped
        )
        outcomes.append(Pushed(tuple(ids[start:stop]), notes))
        start = stop
    return outcomes


def _column(documents: Sequence[Document], get: Callable[[Document], Any]) -> str:
    values = [get(document) for document in documents]
    if all(value is None for value in values):
        # Padded with nulls by the database.
        return NULL
    return DIVIDER.join(
        NULL if value is None else value if type(value) is str else str(value) for value in values
    )


def claim_at_once(
    store: PostgresStore, take: Take, slowly: Callable[[bool], Steps[Taking]]
) -> Callable[[], Steps[Taking]]:
    """The steps of a claim that hopes to be simple."""
    runs = 0

    def steps() -> Steps[Taking]:
        nonlocal runs
        runs += 1
        queue = yield from store.known.queue(take.queue)
        if runs > 1 or queue is None:
            return (yield from slowly(runs > 1))
        if take.version not in (None, queue.info.version):
            queue = yield from store.known.queue(take.queue, anew=True)
            if queue is None or take.version not in (None, queue.info.version):
                return (yield from slowly(False))
        began = time.perf_counter()
        rows = yield from _claim(store, queue, take)
        took = time.perf_counter() - began
        if not rows or rows[0]["held"] == "other":
            yield from store.known.queue(take.queue, anew=True)
            return (yield from slowly(False))
        first = rows[0]
        items = _items(queue, rows)
        store.known.raise_floor(queue, items, take.count, took)
        if first["held"] == "short":
            # There are leases to end: what they give back is claimed with the same token.
            yield from store.end_leases_slowly(queue._replace(now=first["clock"]))
            more = yield from _claim(store, queue, take, but=len(items))
            if more and more[0]["held"] != "other":
                first = more[0]
                items = _items(queue, [*rows, *more])
        return taking(queue._replace(now=first["clock"]), items, first["next_due"])

    return steps


def _items(queue: QueueRow, rows: Sequence[Any]) -> list[ItemState]:
    """Claimed items in the order of the queue."""
    items = [item_of(row, queue.name) for row in rows if row["id"] is not None]
    discipline = queue.settings.discipline
    return sorted(items, key=lambda item: (-rank_of(discipline, item.priority), item.position))


def _claim(store: PostgresStore, queue: QueueRow, take: Take, but: int = 0) -> Steps[list[Any]]:
    settings = queue.settings
    floor_rank, floor_position = (None, None) if but else store.known.floor(queue)
    lease = round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms
    statement = store.sql.claim_at_once(
        queue=queue.name,
        version=queue.info.version,
        token=take.token,
        count=take.count - but,
        lease=lease,
        worker=take.worker,
        keeps_counts=settings.metrics,
        sign=place_of(settings.discipline, 1),
        floor_rank=floor_rank,
        floor_position=floor_position,
        now=store.clock(),
    )
    [rows] = yield Whole((statement,))
    return list(rows)


def complete_at_once(
    store: PostgresStore, name: str, outcomes: Sequence[Outcome]
) -> Callable[[], Steps[list[Settled]]] | None:
    """The steps of a settlement, if all items are done, of one claim, and nothing follows."""
    tokens = {outcome.token for outcome in outcomes}
    ids = [outcome.item for outcome in outcomes]
    is_simple = all(
        outcome.kind == "complete"
        and outcome.failure is None
        and not outcome.commits
        and not outcome.pushes
        for outcome in outcomes
    )
    is_short = len(set(ids)) == len(ids) <= MOST_ON_A_RECEIPT
    if not is_simple or not is_short or len(tokens) != 1:
        return None
    [token] = tokens
    receipt = batch_id()

    def steps() -> Steps[list[Settled]]:
        queue = yield from store.known.queue(name)
        if queue is None or queue.settings.keep != "none":
            return (yield from store.settled_slowly(name, outcomes))
        statement = store.sql.complete_at_once(
            queue=queue.id,
            version=queue.info.version,
            token=token,
            ids=",".join(map(str, ids)),
            keeps_counts=queue.settings.metrics,
            receipt=receipt,
        )
        found = yield Whole((statement,))
        if found is None:
            # Sent before, and done then.
            [[row]] = yield Whole((store.sql.find_receipt(receipt=receipt),))
            gone = {int(id) for id in (row["ids"] or "").split(",") if id}
        else:
            gone = {row["appended"] for row in found[0]}
        if OTHER in gone:
            yield from store.known.queue(name, anew=True)
            return (yield from store.settled_slowly(name, outcomes))
        if len(gone) == len(ids):
            return [Settled(id, "completed") for id in ids]
        left = [outcome for outcome in outcomes if outcome.item not in gone]
        rest = iter((yield from store.settled_slowly(name, left)))
        return [Settled(id, "completed") if id in gone else next(rest) for id in ids]

    return steps
