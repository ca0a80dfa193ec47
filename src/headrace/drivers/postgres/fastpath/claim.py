"""Claims in one statement, for simple cases.

All other cases (rates, delays in a line) use the general path that all SQL drivers share. A claim
whose answer was lost is found by its token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import ClaimRequest, ClaimResponse
from headrace.contract.op import Steps
from headrace.drivers.postgres.fastpath import channel_claim, limited_claim
from headrace.drivers.postgres.fastpath.answers import FALLS_BACK, ClaimAnswer
from headrace.drivers.postgres.fastpath.claim_codec import DecodedClaim, items_in
from headrace.drivers.postgres.fastpath.limited_claim import NOT_COUNTING, Counting
from headrace.drivers.postgres.fastpath.unflushed import UnflushedClaim, confirm_later
from headrace.drivers.sql_common.queues.claim import claim_response
from headrace.drivers.sql_common.queues.conditions import can_claim, can_complete
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Autocommit, RequireFlush, Statement
from headrace.model.queues.items import ItemState, place_of, rank_of

if TYPE_CHECKING:
    from headrace.drivers.postgres.store import PostgresStore


def fast_claim(store: PostgresStore, request: ClaimRequest) -> Callable[[], Steps[ClaimResponse]]:
    """The steps of a claim that is probably simple."""
    runs = 0

    def steps() -> Steps[ClaimResponse]:
        nonlocal runs
        runs += 1
        queue = yield from _cached_queue(store, request)
        if runs > 1:
            return (yield from _claim_again(store, request, queue))
        response = None
        if queue is not None and can_claim(queue, request):
            response = yield from _claim_fast(store, request, queue)
        if response is None:
            response = yield from store.context.claims.claim_steps(request, is_repeat=False)
        return response

    return steps


def _cached_queue(store: PostgresStore, request: ClaimRequest) -> Steps[QueueRow | None]:
    """The queue at the version of the request, if the cache or the database has it."""
    queue = yield from store.queue_cache.queue(request.queue)
    if queue is None or request.version in (None, queue.info.version):
        return queue
    queue = yield from store.queue_cache.queue(request.queue, reload=True)
    return queue if queue is not None and request.version == queue.info.version else None


def _claim_again(
    store: PostgresStore, request: ClaimRequest, queue: QueueRow | None
) -> Steps[ClaimResponse]:
    """A claim whose answer was lost: the general path finds its items by the token."""
    response = yield from store.context.claims.claim_steps(request, is_repeat=True)
    if queue is not None and queue.limit_version:
        # What the earlier run has claimed and counted may not be flushed yet.
        yield store.sql.flush()
        yield RequireFlush()
    return response


def _claim_fast(
    store: PostgresStore, request: ClaimRequest, queue: QueueRow
) -> Steps[ClaimResponse | None]:
    """Claim in one statement; None if the general path must do it."""
    rules: Counting | None = NOT_COUNTING
    if queue.limit_version:
        rules = yield from limited_claim.counting(store, queue)
    if rules is None:
        return None
    began = time.perf_counter()
    asked = _asked(store, queue, request, rules)
    rows = yield from _claim(store, queue, request, rules, asked)
    seconds = time.perf_counter() - began
    if not rows or rows[0]["answer"] in FALLS_BACK:
        yield from store.queue_cache.queue(request.queue, reload=True)
        return None
    if rows[0]["answer"] == ClaimAnswer.SHORT:
        rows = yield from _claim_behind_leases(store, queue, request, rules, asked)
        if not rows:
            return None
    first = rows[0]
    now = first["clock"]
    claim = DecodedClaim(request.queue, request.token, request.worker, now, now + asked["lease"])
    items = _in_order(queue, request, first, items_in(first["items"], claim))
    _note_claim(store, queue, request, rules, first, items, seconds)
    due = first["next_due"]
    if len(items) < request.count:
        times = [due, *(item.lease_until for item in items)]
        due = min((time for time in times if time is not None), default=None)
    confirm = None
    if items and rules.version > 0 and request.may_confirm and store.is_safe:
        confirm = confirm_later(store, UnflushedClaim(request.token, queue.id, items[0].id))
    return claim_response(queue, items, due, now, confirm=confirm)


def _claim_behind_leases(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    rules: Counting,
    asked: dict[str, Any],
) -> Steps[list[Any]]:
    """End expired leases, then claim: the items they return may come before the rest.

    Nothing if the general path must do it.
    """
    if rules.version:
        return []
    fresh = yield from store.context.storage.entered_queue(queue.name)
    if fresh is None or fresh.info.version != queue.info.version:
        return []
    yield from _end_leases(store, fresh)
    rows = yield from _claim(store, queue, request, rules, {**asked, "ignores_expired": True})
    # A claim need not be durable, but the end of a lease must be.
    yield RequireFlush()
    return [] if rows and rows[0]["answer"] in FALLS_BACK else rows


def _end_leases(store: PostgresStore, queue: QueueRow) -> Steps[None]:
    """End expired leases, and remember if that is impossible now."""
    expired = yield from store.context.settlements.end_leases(queue)
    oldest: int | None = None
    if not expired.items:
        [row] = yield store.sql.next_times(queue=queue.id)
        oldest = row["lease"]
    if oldest is None or oldest > queue.now:
        store.queue_cache.note_ended(queue)
    else:
        store.queue_cache.note_missed(queue, oldest)


def _note_claim(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    rules: Counting,
    first: Any,
    items: Sequence[ItemState],
    seconds: float,
) -> None:
    """Remember what a claim has counted, and how far it has come in the line."""
    cache, counted = store.queue_cache, first.get("counted")
    if counted and items and can_complete(queue):
        cache.note_counted(request.token, rules.version, items, counted)
    if request.select is not None:
        place = (queue, request.select, first["first_turn"])
        cache.raise_turn_floor(*place, len(items), request.count, seconds)
    elif not queue.info.has_channels:
        cache.raise_floor(queue, items, request.count, seconds)


def _in_order(
    queue: QueueRow, request: ClaimRequest, first: Any, items: list[ItemState]
) -> list[ItemState]:
    """Claimed items in the order of the queue, or of the turns of its channels."""
    if request.select is None and not queue.info.has_channels:
        discipline = queue.info.settings.discipline
        return sorted(items, key=lambda item: (-rank_of(discipline, item.priority), item.position))
    order = {id: place for place, id in enumerate((first["line"] or "").split(","))}
    return sorted(items, key=lambda item: order[str(item.id)])


def _asked(
    store: PostgresStore, queue: QueueRow, request: ClaimRequest, rules: Counting
) -> dict[str, Any]:
    """The parameters that all claims in one statement share."""
    settings = queue.info.settings
    return {
        "queue": queue.id,
        "version": queue.info.version,
        "token": request.token,
        "count": request.count,
        "lease": round(settings.lease * 1000) if request.lease_ms is None else request.lease_ms,
        "worker": request.worker,
        "keeps_counts": settings.metrics,
        "sign": place_of(settings.discipline, 1),
        "ignores_expired": not store.queue_cache.ends_leases(queue),
        "now": store.clock(),
        "rule_version": rules.version,
    }


def _claim(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    rules: Counting,
    common: dict[str, Any],
) -> Steps[list[Any]]:
    """The row of a claim, if there is one."""
    if request.select is not None:
        return (yield from channel_claim.claim(store, queue, request, rules, common))
    if queue.info.has_channels:
        return (yield from _claim_in_line(store, queue, request, rules, common))
    floor_rank, floor_position = (
        (None, None) if common["ignores_expired"] else store.queue_cache.floor(queue)
    )
    statement = store.sql.claim_items(
        **common, floor_rank=floor_rank, floor_position=floor_position
    )

    if not rules.version:
        return limited_claim.rows_of((yield Autocommit((statement,))))

    def attempt(_: bool, behind: Statement | None) -> Steps[list[Any]]:
        return limited_claim.rows_of((yield Autocommit((statement,), behind)))

    return (yield from limited_claim.claim(store, queue, request, rules, attempt))


def _claim_in_line(
    store: PostgresStore,
    queue: QueueRow,
    request: ClaimRequest,
    rules: Counting,
    common: dict[str, Any],
) -> Steps[list[Any]]:
    """The first items in line, in any channel."""

    def attempt(is_tight: bool, behind: Statement | None) -> Steps[list[Any]]:
        statement = store.sql.claim_in_line(**common, is_tight=is_tight)
        return limited_claim.rows_of((yield Autocommit((statement,), behind)))

    return (yield from limited_claim.claim(store, queue, request, rules, attempt))
