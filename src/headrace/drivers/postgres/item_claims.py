"""Claims and completions in one statement each, where they are simple.

What is not simple (outcomes other than done, history, successors, rates, holds in line) goes the way that all
relational drivers share. A completion leaves a receipt; a claim is found by its token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import Outcome, Settled, Take, Taking
from headrace.contract.op import Steps
from headrace.drivers.postgres import in_turn, limited
from headrace.drivers.postgres.disk import flush_now
from headrace.drivers.postgres.handed import Claim, items_in
from headrace.drivers.postgres.limited import NOT_COUNTING, Counting
from headrace.drivers.postgres.loose import Loose
from headrace.drivers.postgres.receipts import MOST_ON_A_RECEIPT, earlier, found, read
from headrace.drivers.postgres.sending import DIVIDER
from headrace.drivers.relational.queues.claims import taking
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Announce, Insist, Statement, Whole
from headrace.model.items import ItemState, place_of, rank_of
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore

# Said of a completion after which none of the items is left.
ALL = "all"
# Said of a claim that one statement, or one answer, is not enough for.
THE_LONGER_WAY = ("other", "crowded")


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
        asked = _asked(store, queue, take, rules)
        rows = yield from _claim(store, queue, take, rules, asked)
        took = time.perf_counter() - began
        if not rows or rows[0]["held"] in THE_LONGER_WAY:
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
            rows = yield from _claim(store, queue, take, rules, {**asked, "takes_any": True})
            # A claim need not be on the disk, but the end of a lease must.
            yield Insist()
            if not rows or rows[0]["held"] in THE_LONGER_WAY:
                return (yield from slowly(False))
        first = rows[0]
        now = first["clock"]
        items = items_in(
            first["items"],
            Claim(queue.name, take.token, take.worker, now, now + asked["lease"]),
        )
        counted = first.get("counted")
        if counted and items and _can_complete(queue):
            store.known.note_counted(take.token, rules.version, items, counted)
        if take.select is None and not queue.info.has_channels:
            items = _in_order(queue, items)
            store.known.raise_floor(queue, items, take.count, took)
        else:
            order = {id: place for place, id in enumerate((first["line"] or "").split(","))}
            items.sort(key=lambda item: order[str(item.id)])
            if take.select is not None:
                place = (queue, take.select, first["first_turn"])
                store.known.raise_turn_floor(*place, len(items), take.count, took)
        due = first["next_due"]
        if len(items) < take.count:
            times = [due, *(item.lease_until for item in items)]
            due = min((time for time in times if time is not None), default=None)
        is_loose = bool(items) and rules.version > 0 and take.may_be_loose and store.is_safe
        if is_loose:
            store.loose.add(Loose(take.token, queue.id, items[0].id))
        return taking(queue, items, due, now, is_loose=is_loose)

    return steps


def secure_at_once(
    store: PostgresStore, name: str, token: str, item: int
) -> Callable[[], Steps[bool]]:
    """The steps of bringing a claim to the disk that was not waited for."""

    def steps() -> Steps[bool]:
        queue = yield from store.known.queue(name)
        while queue is not None:
            statement = store.loose.secure(store.sql, Loose(token, queue.id, item))
            [[row]] = yield Whole((statement,))
            if token in store.loose.note(row["standing"], statement):
                return True
            # It may be another queue of the same name.
            before, queue = queue, (yield from store.known.queue(name, anew=True))
            if queue is not None and queue.id == before.id:
                break
        return False

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
    if take.select is not None:
        return take.order == "fair"
    return not (queue.info.has_channels and queue.settings.serial)


def _in_order(queue: QueueRow, items: Iterable[ItemState]) -> list[ItemState]:
    """Claimed items in the order of the queue."""
    discipline = queue.settings.discipline
    return sorted(items, key=lambda item: (-rank_of(discipline, item.priority), item.position))


def _asked(store: PostgresStore, queue: QueueRow, take: Take, rules: Counting) -> dict[str, Any]:
    """What all claims in one statement are told."""
    settings = queue.settings
    return {
        "queue": queue.id,
        "version": queue.info.version,
        "token": take.token,
        "count": take.count,
        "lease": round(settings.lock_duration * 1000) if take.lease_ms is None else take.lease_ms,
        "worker": take.worker,
        "keeps_counts": settings.metrics,
        "sign": place_of(settings.discipline, 1),
        "takes_any": False,
        "now": store.clock(),
        "rules": rules.version,
    }


def _claim(
    store: PostgresStore, queue: QueueRow, take: Take, rules: Counting, common: dict[str, Any]
) -> Steps[list[Any]]:
    """The row of a claim, if there is one."""
    if take.select is not None:
        return (yield from in_turn.claim(store, queue, take, rules, common))
    if queue.info.has_channels:
        return (yield from _claim_in_line(store, queue, take, rules, common))
    floor_rank, floor_position = (None, None) if common["takes_any"] else store.known.floor(queue)
    statement = store.sql.claim_at_once(
        **common, floor_rank=floor_rank, floor_position=floor_position
    )

    if not rules.version:
        return limited.rows_of((yield Whole((statement,))))

    def attempt(_: bool, behind: Statement | None) -> Steps[list[Any]]:
        return limited.rows_of((yield Whole((statement,), behind)))

    return (yield from limited.claim(store, queue, take, rules, attempt))


def _claim_in_line(
    store: PostgresStore, queue: QueueRow, take: Take, rules: Counting, common: dict[str, Any]
) -> Steps[list[Any]]:
    """The first items in line, whatever their channels."""

    def attempt(is_tight: bool, behind: Statement | None) -> Steps[list[Any]]:
        statement = store.sql.claim_in_line(**common, is_tight=is_tight)
        return limited.rows_of((yield Whole((statement,), behind)))

    return (yield from limited.claim(store, queue, take, rules, attempt))


def complete_at_once(
    store: PostgresStore, name: str, outcomes: Sequence[Outcome]
) -> Callable[[], Steps[list[Settled]]] | None:
    """The steps of a settlement, if all items are done, and nothing follows."""
    tokens = [outcome.token for outcome in outcomes]
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
    if not is_simple or not is_short:
        return None
    if len(set(tokens)) == 1:
        del tokens[1:]
    receipt = batch_id()
    runs = 0

    def steps() -> Steps[list[Settled]]:
        nonlocal runs
        runs += 1
        queue = yield from store.known.queue(name)
        gone: set[int] | None = None
        if queue is not None and _can_complete(queue):
            gone = yield from _complete(store, queue, tokens, ids, receipt)
        if gone is None and runs > 1 and queue is not None:
            gone = set((yield from earlier(store, queue, receipt)).ids)
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
    store: PostgresStore,
    queue: QueueRow,
    tokens: Sequence[str],
    ids: Sequence[int],
    receipt: str,
) -> Steps[set[int] | None]:
    """The ids of those that are done; None if the queue has changed."""
    common = {
        "queue": queue.id,
        "version": queue.info.version,
        "tokens": DIVIDER.join(tokens),
        "ids": ",".join(map(str, ids)),
        "keeps_counts": queue.settings.metrics,
        "receipt": receipt,
    }
    if queue.limits:
        rules = yield from limited.counting(store, queue)
        if rules is None or rules.limits.has(queue.name, "enqueued"):
            return None
        counted = store.known.counted(tokens, ids)
        statement = store.sql.complete_counted(
            **common,
            channel=store.wakes.hinted,
            counted_by=None if counted is None else counted.rules,
            totals=None if counted is None else counted.totals,
            numbers=None if counted is None else counted.numbers,
        )
        behind = store.loose.flush(store.sql) if store.is_safe else None
    else:
        statement, behind = store.sql.complete_at_once(**common), None
    answer = yield Whole((statement,), behind)
    if answer is None:
        # Sent before and done then, or nobody knows what rules say of the items.
        before = yield from found(store, receipt)
        if before is None:
            return None
        if queue.limits:
            yield from flush_now(store)
        return set(before.ids)
    rows = answer[0]
    if behind is not None and len(answer) > 1:
        store.loose.note(answer[1][0].get("standing"), behind)
    if not rows:
        yield from store.known.queue(queue.name, anew=True)
        return None
    woken = rows[0].get("woken")
    if woken:
        yield Announce(frozenset(f"queue/{name}" for name in woken.split(DIVIDER)))
    done = rows[0]["appended"]
    return set(ids if done == ALL else read(done).ids)
