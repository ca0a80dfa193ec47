"""Pushes, claims and completions in one statement each, where they are simple.

What is not simple (keys, upserts, subjects that count for ever, history, successors) goes the
way that all relational drivers share. A push or a completion leaves a receipt: when its answer
is lost it is sent again, waits for the first if that is still under way, and then finds the
receipt. A claim is found by its token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contract.items import (
    Note,
    Outcome,
    PushCall,
    Pushed,
    PushOutcome,
    Settled,
    Skip,
    Take,
    Taking,
)
from headrace.contract.op import Steps
from headrace.drivers.postgres import in_turn, limited
from headrace.drivers.postgres.limited import NOT_COUNTING, Counting
from headrace.drivers.postgres.sending import DIVIDER, NULL
from headrace.drivers.relational.queues.claims import taking
from headrace.drivers.relational.queues.rows import QueueRow, plain_item_of, queue_of
from headrace.drivers.relational.queues.selections import Selection
from headrace.drivers.relational.queues.walks import Walks
from headrace.drivers.relational.sql import Announce, Insist, Statement, Whole
from headrace.model.channels import is_updateable
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
_FIELDS = tuple(field for field in Document.__struct_fields__ if field != "key_values")
# What stands for an id when there is more to it: the queue's settings have changed, say.
OTHER = -1
# What stands for one where a queue is named that somebody waits for.
WOKEN = -2
# On a receipt: what divides an id from a subject, and what says that another way is gone.
SUBJECT = "\x1f"
ELSEWHERE = "elsewhere"
MOST_KNOWN = 1000


class Known:
    """Queues as they were last seen, and how far claims have come in each of them.

    What is known may be old: every statement checks the version of the settings.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._queues: dict[str, QueueRow] = {}
        self._floors: dict[str, Floor] = {}
        self.walks = Walks()
        # Until when claims on queues expect that totals have hardly any room.
        self.tight: dict[int, float] = {}
        self._selections: dict[tuple[int, int, str], Selection | None] = {}

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

    def selection(self, queue: QueueRow, select: str) -> Steps[Selection | None]:
        """A query, if it is registered: whoever changes that changes the version, too."""
        place = (queue.id, queue.selections, select)
        if queue.selections and place not in self._selections:
            statement = self._store.sql.find_selection(queue=queue.id, form=select)
            [rows] = yield Whole((statement,))
            if len(self._selections) > MOST_KNOWN:
                self._selections.clear()
            found = Selection(rows[0]["id"], rows[0]["since"]) if rows else None
            self._selections[place] = found
        return self._selections.get(place)

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

    def lower_floors(self, announced: Collection[str]) -> None:
        """Items have come to stand in line, some perhaps at an old place of theirs."""
        for topic in announced:
            floor = self._floors.get(topic.removeprefix("queue/"))
            if floor is not None:
                floor.reset()


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


class Receipt(NamedTuple):
    """What a statement did: ids, and the subjects of new items. Or it was to be done elsewhere."""

    done: Sequence[tuple[int, str | None]]
    is_elsewhere: bool = False


def push_at_once(
    store: PostgresStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push, if all calls only add to one queue."""
    queues = {call.queue for call in calls}
    documents = [document for call in calls for document in call.documents]
    is_simple = len(queues) == 1 and all(call.mode == "push" and call.key is None for call in calls)
    homes = {document.key_values is None for document in documents}
    if not is_simple or len(homes) != 1 or any(map(is_updateable, documents)):
        return None
    [name] = queues
    has_receipt = len(documents) <= MOST_ON_A_RECEIPT
    receipts: list[str] = []
    runs = 0

    def steps() -> Steps[list[PushOutcome]]:
        nonlocal runs
        runs += 1
        queue = yield from store.known.queue(name)
        ids: list[int] = [0] * len(documents)
        skipped: dict[int, Skip] = {}
        left = list(range(len(documents)))
        turn = 0
        while left:
            if turn == len(receipts):
                receipts.append(batch_id())
            receipt = receipts[turn] if has_receipt else None
            pushed = None
            if queue is not None and _can_push(store, queue, documents):
                pushed = yield from _push(store, queue, [documents[i] for i in left], receipt)
                if pushed is None:
                    queue = yield from store.known.queue(name, anew=True)
                    if queue is not None and _can_push(store, queue, documents):
                        continue
            is_undone = pushed is None or pushed.is_elsewhere
            if is_undone and runs > 1 and queue is not None and receipt is not None:
                pushed = yield from _earlier(store, queue, receipt)
            if pushed is None or pushed.is_elsewhere:
                if turn == 0:
                    return (yield from store.pushed_slowly(calls))
                yield from _push_rest(store, name, documents, left, ids, skipped)
                break
            turn += 1
            assert queue is not None
            left = yield from _sort_out(store, queue, documents, left, pushed.done, ids, skipped)
        yield Announce(frozenset({f"queue/{name}"}))
        return _shares(calls, ids, skipped)

    return steps


def _can_push(store: PostgresStore, queue: QueueRow, documents: Sequence[Document]) -> bool:
    is_unique = queue.settings.unique != "live"
    has_subjects = is_unique and any(document.subject is not None for document in documents)
    is_known = queue.info.has_channels or documents[0].key_values is None
    is_counted = queue.settings.metrics and not queue.settings.is_limited
    return is_known and is_counted and not has_subjects and not _is_limited(store, queue)


def _is_limited(store: PostgresStore, queue: QueueRow) -> bool:
    """Whether a rule may be about what is pushed to a queue, as far as is known."""
    known = store.known_limits
    if not queue.limits:
        return False
    return known is None or known.version < queue.limits or known.has(queue.name, "enqueued")


def _push(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], receipt: str | None
) -> Steps[Receipt | None]:
    """The ids and subjects of new items; None if the queue has changed."""
    statement = push_statement(store, queue, documents, receipt)
    # Without a receipt it is a transaction, that can be asked about by its number.
    found = (yield Whole((statement,))) if receipt else (yield (statement,))
    if found is None:
        # Sent before, and done then.
        return (yield from _found(store, receipt))
    [rows] = found
    if not rows:
        # The queue has changed, or all subjects are taken: only a look can tell.
        fresh = yield from store.known.queue(queue.name, anew=True)
        if fresh is None or (fresh.id, fresh.info.version) != (queue.id, queue.info.version):
            return None
    done = [(row["appended"], row["subject"]) for row in rows]
    return Receipt((), is_elsewhere=True) if done == [(OTHER, None)] else Receipt(done)


def _found(store: PostgresStore, receipt: str | None) -> Steps[Receipt]:
    """What a receipt says."""
    [rows] = yield Whole((store.sql.find_receipt(receipt=receipt),))
    text = rows[0]["ids"] if rows else None
    if text == ELSEWHERE:
        return Receipt((), is_elsewhere=True)
    done: list[tuple[int, str | None]] = []
    for entry in (text or "").split(DIVIDER) if text else ():
        id, has_subject, subject = entry.partition(SUBJECT)
        done.append((int(id), subject if has_subject else None))
    return Receipt(done)


def _earlier(store: PostgresStore, queue: QueueRow, receipt: str) -> Steps[Receipt]:
    """What became of a statement whose answer was lost, before the same is done in another way.

    If it has not been done yet it never will: its receipt is taken.
    """
    yield Whole((store.sql.take_receipt(queue=queue.id, receipt=receipt, now=store.clock()),))
    return (yield from _found(store, receipt))


def _push_rest(
    store: PostgresStore,
    name: str,
    documents: Sequence[Document],
    left: Sequence[int],
    ids: list[int],
    skipped: dict[int, Skip],
) -> Steps[None]:
    """Push what is left when the queue's settings have changed in the middle of it."""
    rest = PushCall(queue=name, documents=tuple(documents[index] for index in left))
    [pushed] = yield from store.pushed_slowly([rest])
    assert isinstance(pushed, Pushed)
    for index, id in zip(left, pushed.ids, strict=True):
        ids[index] = id
    for note in pushed.notes:
        skipped[left[note.index]] = note.reason or "exists"


def push_statement(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], receipt: str | None
) -> Statement:
    """The statement that is a push; what it did is found by its receipt, if it has one."""
    discipline = queue.settings.discipline
    common = {
        "queue": queue.id,
        "version": queue.info.version,
        "receipt": receipt,
        "sign": place_of(discipline, 1),
        "now": store.clock(),
        "channel": store.wakes.hinted,
    }
    if documents[0].key_values is not None:
        return _channel_statement(store, queue, documents, common)
    if len(documents) == 1:
        [document] = documents
        return store.sql.push_one_at_once(
            **common,
            rank=-rank_of(discipline, document.priority),
            **{field: getattr(document, field) for field in _FIELDS},
        )
    return store.sql.push_at_once(**common, **_columns(queue, documents))


def _channel_statement(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], common: dict[str, Any]
) -> Statement:
    names = sorted({document.key_values or "" for document in documents})
    homes = {name: place for place, name in enumerate(names, 1)}
    return store.sql.push_to_channels(
        **common,
        names=DIVIDER.join(names),
        homes=_column(documents, lambda document: homes[document.key_values or ""]),
        **_columns(queue, documents),
    )


def _columns(queue: QueueRow, documents: Sequence[Document]) -> dict[str, str]:
    """What new items are made of, column by column."""
    discipline = queue.settings.discipline
    ranks = _column(documents, lambda document: -rank_of(discipline, document.priority))
    return {"rank": ranks} | {field: _column(documents, attrgetter(field)) for field in _FIELDS}


def _sort_out(
    store: PostgresStore,
    queue: QueueRow,
    documents: Sequence[Document],
    left: Sequence[int],
    done: Sequence[tuple[int, str | None]],
    ids: list[int],
    skipped: dict[int, Skip],
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
            skipped[index] = "exists"
        else:
            again.append(index)
    return again


def _shares(
    calls: Sequence[PushCall], ids: Sequence[int], skipped: dict[int, Skip]
) -> list[PushOutcome]:
    outcomes: list[PushOutcome] = []
    start = 0
    for call in calls:
        stop = start + len(call.documents)
        notes = tuple(
            Note(index - start, "skipped", skipped[index])
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
        if queue is not None and take.version not in (None, queue.info.version):
            queue = yield from store.known.queue(take.queue, anew=True)
            if queue is None or take.version not in (None, queue.info.version):
                return (yield from slowly(runs > 1))
        if runs > 1 or queue is None or not _can_claim(queue, take):
            return (yield from _claim_slowly(store, queue, slowly, runs))
        rules = (yield from limited.counting(store, queue)) if queue.limits else NOT_COUNTING
        if rules is None:
            return (yield from slowly(False))
        began = time.perf_counter()
        rows = yield from _claim(store, queue, take, rules)
        took = time.perf_counter() - began
        if not rows or rows[0]["held"] == "other":
            yield from store.known.queue(take.queue, anew=True)
            return (yield from slowly(False))
        if rows[0]["held"] == "short" and rules.version:
            return (yield from slowly(False))
        if rows[0]["held"] == "short":
            # There are leases to end: what they give back may stand before the rest.
            fresh = yield from store.entered_queue(queue.name)
            if fresh is None or fresh.info.version != queue.info.version:
                return (yield from slowly(False))
            yield from store.end_leases_slowly(fresh)
            rows = yield from _claim(store, queue, take, rules, takes_any=True)
            # A claim need not be on the disk, but the end of a lease must.
            yield Insist()
            if not rows or rows[0]["held"] == "other":
                return (yield from slowly(False))
        first = rows[0]
        if rules.version and len(rows) > 1:
            yield from limited.flush(store)
        if take.select is None:
            items = _items(queue, rows)
            store.known.raise_floor(queue, items, take.count, took)
        else:
            items = in_turn.items_of(queue, rows)
        due = first["next_due"]
        if len(items) < take.count:
            times = [due, *(item.lease_until for item in items)]
            due = min((time for time in times if time is not None), default=None)
        return taking(queue._replace(now=first["clock"]), items, due)

    return steps


def _claim_slowly(
    store: PostgresStore,
    queue: QueueRow | None,
    slowly: Callable[[bool], Steps[Taking]],
    runs: int,
) -> Steps[Taking]:
    taken = yield from slowly(runs > 1)
    if runs > 1 and queue is not None and queue.limits:
        # What an earlier run has taken and counted may not be on the disk yet.
        yield store.sql.flush()
        yield Insist()
    return taken


def _can_claim(queue: QueueRow, take: Take) -> bool:
    """Whether one statement can do it, as far as is known."""
    return take.order == "fair" if take.select is not None else not queue.info.has_channels


def _items(queue: QueueRow, rows: Sequence[Any]) -> list[ItemState]:
    """Claimed items in the order of the queue."""
    items = [plain_item_of(row, queue.name) for row in rows if row["id"] is not None]
    discipline = queue.settings.discipline
    return sorted(items, key=lambda item: (-rank_of(discipline, item.priority), item.position))


def _claim(
    store: PostgresStore,
    queue: QueueRow,
    take: Take,
    rules: Counting,
    *,
    takes_any: bool = False,
) -> Steps[list[Any]]:
    settings = queue.settings
    common = {
        "queue": queue.id,
        "version": queue.info.version,
        "token": take.token,
        "count": take.count,
        "lease": round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms,
        "worker": take.worker,
        "keeps_counts": settings.metrics,
        "sign": place_of(settings.discipline, 1),
        "takes_any": takes_any,
        "now": store.clock(),
        "rules": rules.version,
    }
    if take.select is not None:
        return (yield from in_turn.claim(store, queue, take, rules, common))
    floor_rank, floor_position = (None, None) if takes_any else store.known.floor(queue)
    statement = store.sql.claim_at_once(
        **common, floor_rank=floor_rank, floor_position=floor_position
    )

    def attempt(_: bool) -> Steps[list[Any]]:
        [rows] = yield Whole((statement,))
        return list(rows)

    return (yield from limited.claim(store, queue, rules, attempt))


def complete_at_once(
    store: PostgresStore, name: str, outcomes: Sequence[Outcome]
) -> Callable[[], Steps[list[Settled]]] | None:
    """The steps of a settlement, if all items are done, of one claim, and nothing follows."""
    tokens = {outcome.token for outcome in outcomes}
    ids = [outcome.item for outcome in outcomes]
    is_simple = all(
        outcome.kind == "complete"
        and outcome.failure is None
        and outcome.hold_until is None
        and outcome.hold_ms is None
        and not outcome.commits
        and not outcome.pushes
        for outcome in outcomes
    )
    is_short = len(set(ids)) == len(ids) <= MOST_ON_A_RECEIPT
    if not is_simple or not is_short or len(tokens) != 1:
        return None
    [token] = tokens
    receipt = batch_id()
    runs = 0

    def steps() -> Steps[list[Settled]]:
        nonlocal runs
        runs += 1
        queue = yield from store.known.queue(name)
        gone: set[int] | None = None
        if queue is not None and _can_complete(queue):
            gone = yield from _complete(store, queue, token, ids, receipt)
            if gone is not None and queue.limits:
                yield from limited.flush(store)
        if gone is None and runs > 1 and queue is not None:
            gone = {id for id, _ in (yield from _earlier(store, queue, receipt)).done}
        if gone is not None and len(gone) == len(ids):
            return [Settled(id, "completed") for id in ids]
        left = [outcome for outcome in outcomes if gone is None or outcome.item not in gone]
        rest = iter((yield from store.settled_slowly(name, left)))
        return [Settled(id, "completed") if gone and id in gone else next(rest) for id in ids]

    return steps


def _can_complete(queue: QueueRow) -> bool:
    # Somebody may wait for it: in a strict channel, or for room.
    is_awaited = queue.settings.serial or queue.settings.is_limited
    return queue.settings.keep == "none" and not is_awaited


def _complete(
    store: PostgresStore, queue: QueueRow, token: str, ids: Sequence[int], receipt: str
) -> Steps[set[int] | None]:
    """The ids of those that are done; None if the queue has changed."""
    common = {
        "queue": queue.id,
        "version": queue.info.version,
        "token": token,
        "ids": ",".join(map(str, ids)),
        "keeps_counts": queue.settings.metrics,
        "receipt": receipt,
    }
    if queue.limits:
        rules = yield from limited.counting(store, queue)
        if rules is None or rules.limits.has(queue.name, "enqueued"):
            return None
        statement = store.sql.complete_counted(**common, channel=store.wakes.hinted)
    else:
        statement = store.sql.complete_at_once(**common)
    found = yield Whole((statement,))
    if found is None:
        # Sent before, and done then.
        return {id for id, _ in (yield from _found(store, receipt)).done}
    gone = {row["appended"] for row in found[0]}
    if WOKEN in gone:
        gone.discard(WOKEN)
        yield Announce(frozenset(f"queue/{row['woken']}" for row in found[0] if row["woken"]))
    if OTHER in gone:
        yield from store.known.queue(queue.name, anew=True)
        return None
    return gone
