"""Pushes in one statement each, for simple cases.

Pushes with idempotency keys are in ``keyed_push``. All other cases (upserts, subjects that are unique
for ever, limits) use the general path that all SQL drivers share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from headrace.contract.items import PushCall, Pushed, PushOutcome, PushWarning, Skip
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath.receipts import (
    MAX_ITEMS,
    OTHER,
    PushReceipt,
    earlier,
    found,
    read,
)
from headrace.drivers.postgres.fastpath.wal_flush import flush, flush_now
from headrace.drivers.postgres.round_trip import DIVIDER, NULL
from headrace.drivers.sql_common.queues.conditions import can_push, only_adds
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Autocommit, Notify, Statement
from headrace.model.queues.items import Document, place_of, rank_of
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

_FIELDS = tuple(field for field in Document.__struct_fields__ if field != "key_values")
_beside = attrgetter(*(field for field in Document.__struct_fields__ if field != "payload"))
_PLAIN = {_beside(Document(payload=""))}


def fast_push(
    store: PostgresStore, calls: Sequence[PushCall]
) -> Callable[[], Steps[list[PushOutcome]]] | None:
    """The steps of a push, if all calls only add to one queue."""
    if not only_adds(calls):
        return None
    documents: Sequence[Document] = calls[0].documents
    if len(calls) > 1:
        documents = [document for call in calls for document in call.documents]
    name = calls[0].queue
    has_receipt = len(documents) <= MAX_ITEMS
    receipts: list[str] = []
    runs = 0

    def steps() -> Steps[list[PushOutcome]]:
        nonlocal runs
        runs += 1
        queue = yield from store.queue_cache.queue(name)
        ids: list[int] = [0] * len(documents)
        skipped: dict[int, Skip] = {}
        left = list(range(len(documents)))
        turn = 0
        while left:
            if turn == len(receipts):
                receipts.append(batch_id())
            receipt = receipts[turn] if has_receipt else None
            pushed = None
            if queue is not None and can_push(queue, documents, store.context.cached_limits):
                some = [documents[i] for i in left]
                statement = push_statement(store, queue, some, receipt)
                pushed = yield from send_push(store, statement, receipt)
                if pushed is None:
                    queue = yield from store.queue_cache.queue(name, reload=True)
                    if queue is not None and can_push(
                        queue, documents, store.context.cached_limits
                    ):
                        continue
            is_undone = pushed is None or pushed.is_elsewhere
            if is_undone and runs > 1 and queue is not None and receipt is not None:
                pushed = yield from earlier(store, queue, receipt)
            if pushed is None or pushed.is_elsewhere:
                if turn == 0:
                    return (yield from store.context.pushes.push_steps(calls))
                yield from _push_rest(store, name, documents, left, ids, skipped)
                break
            if len(pushed.ids) == len(documents) and (len(documents) == 1 or not pushed.named):
                # No subject was in use.
                ids = sorted(pushed.ids)
                break
            turn += 1
            assert queue is not None
            left = yield from _sort_out(store, queue, documents, left, pushed, ids, skipped)
        yield Notify(frozenset({f"queue/{name}"}))
        return _shares(calls, ids, skipped)

    return steps


def send_push(
    store: PostgresStore, statement: Statement, receipt: str | None
) -> Steps[PushReceipt | None]:
    """The ids and subjects of new items; None if the queue has changed."""
    if receipt is None:
        # It runs in a transaction, whose number resolves a lost answer.
        [rows] = yield (statement,)
    else:
        # While a client waits for items, the push commits without a flush.
        behind = flush(store) if store.queue_cache.are_awaited else None
        answer = yield Autocommit((statement,), behind)
        if answer is None:
            # An earlier run did it.
            done = yield from found(store, receipt)
            yield from flush_now(store)
            return done or PushReceipt()
        rows = answer[0]
        if rows and rows[0]["done"]:
            is_under_way = store.queue_cache.are_awaited = bool(rows[0]["is_under_way"])
            if is_under_way and behind is None:
                yield from flush_now(store)
    if not rows:
        return None
    used = rows[0].get("used")
    if used is not None:
        return PushReceipt(used=used)
    pushed = read(rows[0]["done"])
    return PushReceipt(is_elsewhere=True) if pushed.ids == [OTHER] else pushed


def _push_rest(
    store: PostgresStore,
    name: str,
    documents: Sequence[Document],
    left: Sequence[int],
    ids: list[int],
    skipped: dict[int, Skip],
) -> Steps[None]:
    """Push the rest after the queue's settings have changed in the middle.

    Also if it has a limit now: a part of the call is stored, so the rest has to follow.
    """
    rest = PushCall(queue=name, documents=tuple(documents[index] for index in left))
    pushed = yield from store.context.pushes.push_one(rest, is_admitted=True)
    for index, id in zip(left, pushed.ids, strict=True):
        ids[index] = id
    for note in pushed.notes:
        skipped[left[note.index]] = note.reason or "exists"


def push_statement(
    store: PostgresStore, queue: QueueRow, documents: Sequence[Document], receipt: str | None
) -> Statement:
    """The statement of a push; a lost answer is found by its receipt, if it has one."""
    common = common_values(store, queue, receipt)
    if documents[0].key_values is not None:
        return store.sql.push_to_channels(**common, **channel_columns(queue, documents))
    if len(documents) == 1:
        [document] = documents
        discipline = queue.info.settings.discipline
        return store.sql.push_item(
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
    if are_payloads(documents):
        return store.sql.push_payloads(**common, payload=joined_payloads(documents))
    return store.sql.push_items(**common, **columns_of(queue, documents))


def common_values(store: PostgresStore, queue: QueueRow, receipt: str | None) -> dict[str, Any]:
    """The parameters that all pushes have."""
    return {
        "queue": queue.id,
        "version": queue.info.version,
        "receipt": receipt,
        "now": store.clock(),
        "channel": store.notifier.channel if store.notifier.is_hinting else None,
        "sign": place_of(queue.info.settings.discipline, 1),
    }


def are_payloads(documents: Sequence[Document]) -> bool:
    """Whether documents are a payload each and nothing else, as most are."""
    return set(map(_beside, documents)) == _PLAIN


def joined_payloads(documents: Sequence[Document]) -> str:
    """The one column of such documents."""
    return DIVIDER.join([document.payload for document in documents])


def channel_columns(queue: QueueRow, documents: Sequence[Document]) -> dict[str, str]:
    """The columns of new items in channels, and the names of these."""
    names = sorted({document.key_values or "" for document in documents})
    numbers = {name: number for number, name in enumerate(names, 1)}
    return {
        "names": DIVIDER.join(names),
        "channel_numbers": _column([numbers[document.key_values or ""] for document in documents]),
        **columns_of(queue, documents),
    }


def columns_of(queue: QueueRow, documents: Sequence[Document]) -> dict[str, str]:
    """The columns of new items."""
    discipline = queue.info.settings.discipline
    columns: dict[str, list[Any]] = {
        field: list(map(attrgetter(field), documents)) for field in _FIELDS
    }
    columns["rank"] = [-rank_of(discipline, priority) for priority in columns["priority"]]
    for field in ("rank", "format", "priority"):
        if not any(columns[field]):
            # The database fills in zeros.
            columns[field] = [None]
    return {field: _column(values) for field, values in columns.items()}


def _sort_out(
    store: PostgresStore,
    queue: QueueRow,
    documents: Sequence[Document],
    left: Sequence[int],
    pushed: PushReceipt,
    ids: list[int],
    skipped: dict[int, Skip],
) -> Steps[list[int]]:
    """Assign ids to documents; returns those whose subject was in use and no longer is."""
    named = dict(pushed.named)
    unnamed = iter(sorted(set(pushed.ids).difference(named.values())))
    in_the_way: dict[str, int] = {}
    missing = sorted(
        {s for i in left if (s := documents[i].subject) is not None and s not in named}
    )
    if missing:
        statement = store.sql.subject_items(queue=queue.id, subjects=missing)
        [rows] = yield Autocommit((statement,), reads=True)
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
            PushWarning(index - start, "skipped", skipped[index])
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
        # The database pads it with nulls.
        return NULL
    return DIVIDER.join(
        NULL if value is None else value if type(value) is str else str(value) for value in values
    )
