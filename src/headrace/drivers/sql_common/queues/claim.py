"""Claims on items in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.items import ClaimRequest, ClaimResponse, Confirm
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.counters import end_leases
from headrace.drivers.sql_common.limits.admission import Admission
from headrace.drivers.sql_common.queues.ready_channels import ReadyChannels, allocate_positions
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of
from headrace.drivers.sql_common.queues.settle import MAX_EXPIRED
from headrace.drivers.sql_common.statements import Many, NoReply, Notify, Row
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState, place_of

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

MAX_PROMOTED = 1000


class QueueClaims:
    """Claims items."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def claim(self, request: ClaimRequest) -> Op[ClaimResponse]:
        runs = 0

        def steps() -> Steps[ClaimResponse]:
            nonlocal runs
            runs += 1
            return self.claim_steps(request, is_repeat=request.is_repeat or runs > 1)

        # Repeatable: the items of a run whose answer was lost are found by their token.
        return Op(
            "queues.claim",
            steps,
            relaxed=request.queue not in self._context.rated_queues,
            repeatable=True,
            fast=None if request.is_repeat else self._context.fastpath.claim(request),
        )

    def claim_steps(self, request: ClaimRequest, *, is_repeat: bool) -> Steps[ClaimResponse]:
        """The general claim, on a queue that is entered first."""
        queue = yield from self._context.storage.open_queue(request.queue)
        if is_repeat:
            found = yield self.sql.claimed_items(queue=queue.id, token=request.token)
            if found:
                return claim_response(queue, [item_of(row, queue.name) for row in found], None)
        return (yield from self.claim_open(request, queue))

    def claim_open(self, request: ClaimRequest, queue: QueueRow) -> Steps[ClaimResponse]:
        """A claim on a queue that was entered."""
        refusal = refused(queue, request)
        if refusal is not None:
            return refusal
        return (yield from self.claim_rest(request, queue, 0))

    def claim_rest(
        self, request: ClaimRequest, queue: QueueRow, already_claimed: int
    ) -> Steps[ClaimResponse]:
        """The rest of a claim on a queue that was entered; returns only the items of the rest."""
        count = request.count - already_claimed
        [over] = yield self.sql.overdue(queue=queue.id, now=queue.now)
        promoted = (yield from self._promote(queue)) if over["planned"] else 0
        # First: their items may return to the head of the line, and they occupy slots.
        has_freed = False
        if over["leases"]:
            has_freed = bool((yield from self._context.settlements.end_leases(queue)).items)
        admission = yield from self._admission(queue, over, has_freed=has_freed)
        chosen = yield from self._context.candidates.next_items(queue, request, count, admission)
        items = [self._claimed(item, queue, request) for item in chosen.items]
        if items:
            yield NoReply((Many.of(self.sql.mark_claimed, [claim_values(item) for item in items]),))
            yield from self._context.candidates.had_their_turn(queue, chosen)
        yield from self._count_claims(queue, promoted, len(items))
        due = free_at = None
        if len(items) < count:
            due = yield from self.next_due(queue, items, chosen.next_at)
        if admission is not None:
            free_at = yield from admission.close(is_short=len(items) < count)
        if chosen.parked is not None:
            yield from chosen.parked.write(chosen.served, is_short=len(items) < count)
        due = min((time for time in (due, free_at) if time is not None), default=None)
        return claim_response(queue, items, due)

    def _admission(self, queue: QueueRow, over: Row, *, has_freed: bool) -> Steps[Admission | None]:
        """The admission of the claim, if the queue has limits on running items.

        ``has_freed`` means that slots were released, so that their counters are locked.
        """
        limits = yield from self._context.storage.limits_of(queue)
        if not limits.has(queue.name, "running"):
            return None
        if over["counters"] and not has_freed:
            # They occupy slots. Counters are locked only once; the next claim does the rest.
            freed, woken = yield from end_leases(self.sql, limits, queue.now, MAX_EXPIRED)
            has_freed = freed > 0
            yield Notify(frozenset(f"queue/{name}" for name in woken))
        may_outlive = self._context.traits.claims_outlive_crash
        return Admission(
            self.sql,
            queue,
            limits,
            has_locked=has_freed,
            may_outlive=may_outlive,
            has_parking_lanes=bool(over["parking_lanes"]),
        )

    def _claimed(self, item: ItemState, queue: QueueRow, request: ClaimRequest) -> ItemState:
        lease = rules.lease_ms(queue.settings, request.lease_ms, item)
        return rules.claimed(
            item,
            token=request.token,
            lease_until=queue.now + lease,
            worker=request.worker,
            now=queue.now,
        )

    def _promote(self, queue: QueueRow) -> Steps[int]:
        """Move planned items that are due into the line, in the order in which they became due."""
        total = 0
        while True:
            due = yield self.sql.due_items(queue=queue.id, now=queue.now, limit=MAX_PROMOTED)
            if not due:
                return total
            new = [row["id"] for row in due if row["position"] is None]
            turns = iter((yield from allocate_positions(self.sql, len(new))) if new else ())
            places = [
                {
                    "id": row["id"],
                    "position": place_of(queue.settings.discipline, next(turns))
                    if row["position"] is None
                    else row["position"],
                }
                for row in due
            ]
            channels = ReadyChannels(self.sql)
            for row in due:
                channels.want(queue, row["key_values"])
            yield from channels.lock()
            yield NoReply((Many.of(self.sql.set_positions, places),))
            yield from channels.join((queue, row["key_values"]) for row in due)
            total += len(due)
            if len(due) < MAX_PROMOTED:
                return total

    def _count_claims(self, queue: QueueRow, promoted: int, picked: int) -> Steps[None]:
        unit = self._context.storage.unit_of_work()
        unit.count(queue, planned=-promoted, pending=promoted - picked, active=picked)
        unit.count(queue, picked=picked)
        yield from unit.write()

    def next_due(
        self, queue: QueueRow, items: Sequence[ItemState], delayed_until: int | None = None
    ) -> Steps[int | None]:
        """When the next planned item is due, the next lease is over, or a channel's delay ends."""
        [row] = yield self.sql.next_times(queue=queue.id)
        times = [row["due"], row["lease"], delayed_until, *(item.lease_until for item in items)]
        return min((time for time in times if time is not None), default=None)


def refused(queue: QueueRow, request: ClaimRequest) -> ClaimResponse | None:
    """The answer to a claim that gets nothing, whatever is in line."""
    version, now = queue.info.version, queue.now
    if queue.info.is_paused:
        return ClaimResponse(state="paused", version=version, now=now)
    if queue.is_frozen:
        return ClaimResponse(state="paused", version=version, now=now, next_due=queue.frozen_until)
    if request.version not in (None, version):
        return ClaimResponse(state="stale", version=version, now=now)
    return None


def claim_response(
    queue: QueueRow,
    items: Sequence[ItemState],
    due: int | None,
    now: int | None = None,
    *,
    confirm: Confirm | None = None,
) -> ClaimResponse:
    """The answer to a claim, made when the queue was read or later."""
    return ClaimResponse(
        state="claimed" if items else "empty",
        items=tuple(items),
        version=queue.info.version,
        now=queue.now if now is None else now,
        next_due=due,
        confirm=confirm,
    )


def claim_values(item: ItemState) -> dict[str, Any]:
    """The columns that a claim writes."""
    return {
        "id": item.id,
        "token": item.token,
        "lease_until": item.lease_until,
        "claimed_at": item.claimed_at,
        "worker": item.worker,
    }
