"""Claims on items in memory, and their settlement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import ClaimRequest, ClaimResponse, Outcome, Settled, settled
from headrace.contract.op import Op
from headrace.drivers.memory.candidates import MemoryAdmission, next_items, was_gone
from headrace.drivers.memory.limit_counters import free_at, free_slots
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model.limits import rates
from headrace.model.limits.limit_set import FreeSlots
from headrace.model.maintenance import ExpiredLeases
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState, State, rank_of
from headrace.model.queues.outcomes import apply_outcome

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

EVERYTHING = 2**63 - 1


class MemoryClaims:
    """Items are claimed and settled."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def claim(self, request: ClaimRequest) -> Op[ClaimResponse]:
        return immediate("queues.claim", lambda: self._claim(request))

    def _claim(self, request: ClaimRequest) -> ClaimResponse:
        queue, info = self._context.storage.queue(request.queue)
        now = self.now()
        if request.is_repeat and (held := _items_of(queue, request.token)):
            return ClaimResponse(state="claimed", items=held, version=info.version, now=now)
        if info.is_paused:
            return ClaimResponse(state="paused", version=info.version, now=now)
        if queue.is_frozen(now):
            return ClaimResponse(
                state="paused", version=info.version, now=now, next_due=queue.frozen_until
            )
        if request.version not in (None, info.version):
            return ClaimResponse(state="stale", version=info.version, now=now)
        self._promote(queue, now)
        # First: items of expired leases may come before the rest, and they occupy slots.
        self.end_leases(queue, EVERYTHING, now)
        admission = MemoryAdmission()
        limits = self.data.limits
        is_limited = limits.concerns(request.queue, has_channels=info.has_channels)
        if is_limited and limits.has(request.queue, "running"):
            self._context.storage.end_counter_leases(EVERYTHING)
            slots = free_slots(self.data, "running", now)
            admission = MemoryAdmission(request.queue, limits, slots)
        chosen = next_items(queue, request, now, admission)
        self._note_rates(admission.slots, now)
        free_times = [free_at(self.data, bound, now) for bound in admission.slots.full.values()]
        claimed = [self._claim_one(queue, item, request, now) for item in chosen.items]
        for channel in chosen.served:
            if channel in queue.turns:
                self._context.storage.set_entry(
                    queue.turns, channel, self._context.storage.next_number("last_turn")
                )
        self._context.storage.count(queue, picked=len(claimed))
        return ClaimResponse(
            state="claimed" if claimed else "empty",
            items=tuple(claimed),
            version=info.version,
            now=now,
            next_due=min(
                [
                    *(order[0][0] for order in (queue.planned, queue.leases) if order),
                    *(until for until in queue.delays.values() if until > now),
                    *(time for time in free_times if time is not None),
                ],
                default=None,
            ),
        )

    def _note_rates(self, slots: FreeSlots, now: int) -> None:
        """Remember when items were claimed, where a rate counts them."""
        for counter, count in slots.acquired.items():
            if counter.period_ms is not None and count:
                marks = rates.current(self.data.rates.get(counter, ()), counter.period_ms, now)
                more = rates.added(marks, counter.period_ms, now, count)
                self._context.storage.set_entry(self.data.rates, counter, more)

    def _promote(self, queue: QueueData, now: int) -> None:
        """Put planned items that are due in line, in the order of their times."""
        for item in queue.until(queue.planned, now):
            self._context.storage.move(queue, item, replace(item, state=State.PENDING))

    def _claim_one(
        self, queue: QueueData, item: ItemState, request: ClaimRequest, now: int
    ) -> ItemState:
        lease = rules.lease_ms(queue.settings, request.lease_ms, item)
        claimed = rules.claimed(
            item, token=request.token, lease_until=now + lease, worker=request.worker, now=now
        )
        return self._context.storage.move(queue, item, claimed)

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Op[list[Settled]]:
        def act() -> list[Settled]:
            answers = [self._settle_one(queue, outcome) for outcome in outcomes]
            standing = [
                outcome
                for outcome, answer in zip(outcomes, answers, strict=True)
                if not answer.is_lost
            ]
            commits = [call for outcome in standing for call in outcome.commits]
            if commits:
                self._context.topics.commit_now(commits)
            for call in [call for outcome in standing for call in outcome.pushes]:
                self._context.pushes.push_one(call)
            return answers

        return immediate("queues.settle", act)

    def _settle_one(self, name: str, outcome: Outcome) -> Settled:
        queue, now = self.data.queues.get(name), self.now()
        item = _claimed_item(queue, outcome.item, outcome.token)
        if queue is None or item is None:
            is_gone = queue is not None and was_gone(queue, outcome.item, outcome.token)
            return Settled(outcome.item, "gone" if is_gone else "lost")
        until = outcome.channel_delayed_until(now)
        if until is not None and item.key_values is not None:
            self._context.storage.delay_channel(queue, item.key_values, until)
        storage = self._context.storage
        verdict, counts, failure = apply_outcome(item, outcome, queue.settings, now)
        storage.count(queue, **counts)
        if failure is not None:
            storage.log(queue, item, failure, now)
        apply = storage.failed if outcome.kind == "reject" else storage.become
        waiting = apply(queue, item, verdict, now)
        return settled(item.id, verdict, waiting, until)

    def extend(self, queue: str, token: str, items: Sequence[int], lease_ms: int) -> Op[list[int]]:
        def act() -> list[int]:
            data, until = self.data.queues.get(queue), self.now() + lease_ms
            extended = []
            for id in items:
                item = _claimed_item(data, id, token)
                if data is not None and item is not None:
                    self._context.storage.move(data, item, replace(item, lease_until=until))
                    extended.append(id)
            return extended

        return immediate("queues.extend", act)

    def expire_leases(self, queue: str, limit: int) -> Op[list[int]]:
        def act() -> list[int]:
            return self.end_leases(self._context.storage.queue(queue)[0], limit, self.now()).items

        return immediate("queues.expire_leases", act)

    def end_leases(self, queue: QueueData, limit: int, now: int) -> ExpiredLeases:
        """End expired claims."""
        over, died = queue.until(queue.leases, now)[:limit], 0
        for item in over:
            self._context.storage.count(queue, orphaned=1)
            self._context.storage.log(queue, item, rules.crash_of(item), now)
            verdict = rules.expired(item, queue.settings, now)
            self._context.storage.failed(queue, item, verdict, now)
            died += rules.is_death(verdict)
        return ExpiredLeases([item.id for item in over], died)


def _claimed_item(queue: QueueData | None, id: int, token: str) -> ItemState | None:
    """The item, if this is the token of its present claim."""
    item = None if queue is None else queue.items.get(id)
    return item if item is not None and item.token == token else None


def _items_of(queue: QueueData, token: str) -> tuple[ItemState, ...]:
    """The items of a claim, in order."""

    def place(item: ItemState) -> tuple[int, ...]:
        return -rank_of(queue.discipline, item.priority), item.position or 0, item.id

    return tuple(sorted((item for item in queue.items.values() if item.token == token), key=place))
