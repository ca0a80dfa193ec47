"""Pushes in one statement each, where they are simple.

What is not simple (keys, upserts, subjects that count for ever, limits) goes the way that all
relational drivers share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from headrace.contract.items import Note, PushCall, Pushed, PushOutcome, Skip
from headrace.contract.op import Steps
from headrace.drivers.postgres.disk import flush, flush_now
from headrace.drivers.postgres.receipts import (
    MOST_ON_A_RECEIPT,
    OTHER,
    Receipt,
    earlier,
    found,
    read,
)
from headrace.drivers.postgres.sending import DIVIDER, NULL
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Announce, Statement, Whole
from headrace.model.channels import is_updateable
from headrace.model.items import Document, place_of, rank_of
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

_FIELDS = tuple(field for field in Document.__struct_fields__ if field != "key_values")
_beside = attrgetter(*(field for field in Document.__struct_fields__ if field != "payload"))
_PLAIN = {_beside(Document(payload=""))}


def push_at_once(
    store: PostgresStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push, if all calls only add to one queue."""
    documents = _documents(calls)
    if documents is None:
        return None
    name = calls[0].queue
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
                pushed = yield from earlier(store, queue, receipt)
            if pushed is None or pushed.is_elsewhere:
                if turn == 0:
                    return (yield from store.pushed_slowly(calls))
                yield from _push_rest(store, name, documents, left, ids, skipped)
                break
            if len(pushed.ids) == len(documents) and (len(documents) == 1 or not pushed.named):
                # No subject was in the way of any.
                ids = sorted(pushed.ids)
                break
            turn += 1
            assert queue is not None
            left = yield from _sort_out(store, queue, documents, left, pushed, ids, skipped)
        yield Announce(frozenset({f"queue/{name}"}))
        return _shares(calls, ids, skipped)

    return steps


def _documents(calls: Sequence[PushCall]) -> Sequence[Document] | None:
    """What is pushed, unless there is more to it than to add it to one queue."""
    if len(calls) == 1 and len(calls[0].documents) == 1:
        # Most are like this, and for them all that is below would be a good part of the work.
        [call] = calls
        [document] = call.documents
        is_simple = call.mode == "push" and call.key is None
        return call.documents if is_simple and not is_updateable(document) else None
    documents = [document for call in calls for document in call.documents]
    queues = {call.queue for call in calls}
    is_simple = len(queues) == 1 and all(call.mode == "push" and call.key is None for call in calls)
    homes = {document.key_values is None for document in documents}
    if not is_simple or len(homes) != 1 or any(map(is_updateable, documents)):
        return None
    return documents


def _can_push(store: PostgresStore, queue: QueueRow, documents: Sequence[Document]) -> bool:
    settings = queue.settings
    is_unique = settings.unique != "live"
    has_subjects = is_unique and any(document.subject is not None for document in documents)
    is_known = queue.info.has_channels or documents[0].key_values is None
    is_counted = settings.metrics and not settings.is_limited
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
    if receipt is None:
        # It is a transaction, that can be asked about by its number.
        [rows] = yield (statement,)
    else:
        # While somebody waits, it is not on the disk by itself.
        behind = flush(store) if store.known.are_awaited else None
        answer = yield Whole((statement,), behind)
        if answer is None:
            # Sent before, and done then.
            done = yield from found(store, receipt)
            yield from flush_now(store)
            return done or Receipt()
        rows = answer[0]
        if rows and rows[0]["appended"]:
            is_under_way = store.known.are_awaited = bool(rows[0]["is_under_way"])
            if is_under_way and behind is None:
                yield from flush_now(store)
    if not rows:
        return None
    pushed = read(rows[0]["appended"])
    return Receipt(is_elsewhere=True) if pushed.ids == [OTHER] else pushed


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
            payload=document.payload,
            format=document.format,
            subject=document.subject,
            priority=document.priority,
            due=document.due,
            delay=document.delay,
            headers=document.headers,
            overrides=document.overrides,
        )
    if set(map(_beside, documents)) == _PLAIN:
        payloads = DIVIDER.join([document.payload for document in documents])
        return store.sql.push_payloads(**common, payload=payloads)
    return store.sql.push_at_once(**common, **_columns(queue, documents))


def _channel_statement(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], common: dict[str, Any]
) -> Statement:
    names = sorted({document.key_values or "" for document in documents})
    homes = {name: place for place, name in enumerate(names, 1)}
    return store.sql.push_to_channels(
        **common,
        names=DIVIDER.join(names),
        homes=_column([homes[document.key_values or ""] for document in documents]),
        **_columns(queue, documents),
    )


def _columns(queue: QueueRow, documents: Sequence[Document]) -> dict[str, str]:
    """What new items are made of, column by column."""
    discipline = queue.settings.discipline
    columns: dict[str, list[Any]] = {
        field: list(map(attrgetter(field), documents)) for field in _FIELDS
    }
    columns["rank"] = [-rank_of(discipline, priority) for priority in columns["priority"]]
    for field in ("rank", "format", "priority"):
        if not any(columns[field]):
            # The database has zeros of its own.
            columns[field] = [None]
    return {field: _column(values) for field, values in columns.items()}


def _sort_out(
    store: PostgresStore,
    queue: QueueRow,
    documents: Sequence[Document],
    left: Sequence[int],
    pushed: Receipt,
    ids: list[int],
    skipped: dict[int, Skip],
) -> Steps[list[int]]:
    """Give each document its id; those whose subject was in the way and is so no more are left."""
    named = dict(pushed.named)
    unnamed = iter(sorted(set(pushed.ids).difference(named.values())))
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


def _column(values: Sequence[Any]) -> str:
    kinds = set(map(type, values))
    if kinds == {str}:
        return DIVIDER.join(values)
    if kinds == {type(None)}:
        # Padded with nulls by the database.
        return NULL
    return DIVIDER.join(
        NULL if value is None else value if type(value) is str else str(value) for value in values
    )
