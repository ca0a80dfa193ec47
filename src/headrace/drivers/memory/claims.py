"""Claims on items in memory, and their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from headrace.contract.items import Outcome, Settled, Take, Taking
from headrace.contract.op import Op
from headrace.drivers.memory.pushes import MemoryPushes
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.drivers.memory.totals import room_at, room_in
from headrace.drivers.memory.turns import Admission, next_items, was_gone
from headrace.model import items as rules
from headrace.model import rates
from headrace.model.failures import Failure
from headrace.model.items import Ended, ItemState, State, Verdict
from headrace.model.limiting import Room

EVERYTHING = 2**63 - 1


class MemoryClaims(MemoryPushes):
    """Items go out, and are settled."""

    def claim_items(self, take: Take) -> Op[Taking]:
        return immediate("claim_items", lambda: self._hand_out(take))

    def _hand_out(self, take: Take) -> Taking:
        queue, info = self.queue(take.queue)
        now = self.now()
        if info.is_paused:
            return Taking(state="paused", version=info.version, now=now)
        if queue.is_held(now):
            return Taking(state="paused", version=info.version, now=now, next_due=queue.held_until)
        if take.version not in (None, info.version):
            return Taking(state="stale", version=info.version, now=now)
        self._promote(queue, now)
        admission = Admission()
        limits = self.data.limits
        is_limited = limits.concerns(take.queue, has_channels=info.has_channels)
        if is_limited and limits.has(take.queue, "running"):
            # Leases that are over hold room.
            self.end_leases(queue, EVERYTHING, now)
            self.end_counter_leases(EVERYTHING)
            room = room_in(self.data, "running", now)
            admission = Admission(take.queue, limits, room)
        chosen = next_items(queue, take, now, admission)
        if len(chosen.items) < take.count and self.end_leases(queue, EVERYTHING, now):
            chosen = next_items(queue, take, now, admission)
        self._note_rates(admission.room, now)
        room_times = [room_at(self.data, bound, now) for bound in admission.room.full.values()]
        taken = [self._claim_one(queue, item, take, now) for item in chosen.items]
        for channel in chosen.served:
            if channel in queue.turns:
                self.set_entry(queue.turns, channel, self.next_number("last_turn"))
        self.count(queue, picked=len(taken))
        return Taking(
            state="claimed" if taken else "empty",
            items=tuple(taken),
            version=info.version,
            now=now,
            next_due=min(
                [
                    *(order[0][0] for order in (queue.planned, queue.leases) if order),
                    *(until for until in queue.holds.values() if until > now),
                    *(time for time in room_times if time is not None),
                ],
                default=None,
            ),
        )

    def _note_rates(self, room: Room, now: int) -> None:
        """Remember when things were handed out, where a rate counts them."""
        for bucket, count in room.taken.items():
            if bucket.period_ms is not None and count:
                marks = rates.standing(self.data.rates.get(bucket, ()), bucket.period_ms, now)
                more = rates.with_more(marks, bucket.period_ms, now, count)
                self.set_entry(self.data.rates, bucket, more)

    def _promote(self, queue: QueueData, now: int) -> None:
        """Let planned items that are due stand in line, in the order in which they became so."""
        for item in queue.until(queue.planned, now):
            self.move(queue, item, replace(item, state=State.PENDING))

    def _claim_one(self, queue: QueueData, item: ItemState, take: Take, now: int) -> ItemState:
        lease = rules.lease_ms(queue.settings, take.lease_ms, item)
        claimed = rules.claimed(
            item, token=take.token, lease_until=now + lease, worker=take.worker, now=now
        )
        return self.move(queue, item, claimed)

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
                self._commit(commits)
            for call in [call for outcome in standing for call in outcome.pushes]:
                self.push_one(call)
            return answers

        return immediate("settle", act)

    def _settle_one(self, name: str, outcome: Outcome) -> Settled:
        queue, now = self.data.queues.get(name), self.now()
        item = _held(queue, outcome.item, outcome.token)
        if queue is None or item is None:
            is_gone = queue is not None and was_gone(queue, outcome.item, outcome.token)
            return Settled(outcome.item, "gone" if is_gone else "lost")
        until = outcome.held_until(now)
        if until is not None and item.key_values is not None:
            self.hold(queue, item.key_values, until)
        verdict = self._judge(queue, item, outcome, now)
        settled = self.failed if outcome.kind == "reject" else self.become
        waiting = settled(queue, item, verdict, now)
        if waiting is not None:
            is_due = waiting.state == State.PENDING
            due = waiting.next_execution if until is None else until
            return Settled(item.id, "pending" if is_due else "planned", due)
        if isinstance(verdict, Ended):
            return Settled(item.id, "completed" if verdict.state == State.COMPLETED else "dead")
        return Settled(item.id, "dropped")

    def _judge(self, queue: QueueData, item: ItemState, outcome: Outcome, now: int) -> Verdict:
        """What becomes of the item; what happened is counted here."""
        if outcome.kind == "release":
            until = outcome.held_until(now)
            return rules.released(item, now) if until is None else rules.held_back(item, until, now)
        settings, kind = queue.settings, outcome.kind
        payload = None if outcome.payload is None else (outcome.payload, outcome.format)
        failure, due = outcome.failure, outcome.due
        if due is None and outcome.delay_ms is not None:
            due = now + outcome.delay_ms
        if failure is not None or kind == "reject":
            self.log(queue, item, failure or Failure(), now)
        if kind == "complete":
            self.count(queue, processed=1)
            return rules.completed(item, now, payload)
        if kind == "reschedule":
            self.count(queue, processed=1, rescheduled=1)
            if due is None:
                due = now + round(settings.reschedule_delay * 1000)
            return rules.rescheduled(item, due, now, payload)
        if kind == "reject":
            self.count(queue, processed=1, rejected=1)
            return rules.rejected(
                item,
                settings,
                now=now,
                due=due,
                chance=outcome.chance,
                failure=failure,
                payload=payload,
            )
        if kind == "kill":
            self.count(queue, processed=1)
            return rules.killed(item, now, payload, failure)
        if kind == "drop":
            self.count(queue, processed=1, dropped=1)
            return None
        assert_never(kind)

    def secure_claim(self, queue: str, token: str, item: int) -> Op[bool]:
        return immediate(
            "secure_claim", lambda: _held(self.data.queues.get(queue), item, token) is not None
        )

    def is_secured(self, token: str) -> bool:
        return False

    def extend_items(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Op[list[int]]:
        def act() -> list[int]:
            data, until = self.data.queues.get(queue), self.now() + lease_ms
            extended = []
            for id in items:
                item = _held(data, id, token)
                if data is not None and item is not None:
                    self.move(data, item, replace(item, lease_until=until))
                    extended.append(id)
            return extended

        return immediate("extend_items", act)

    def expire_leases(self, queue: str, limit: int) -> Op[list[int]]:
        def act() -> list[int]:
            return self.end_leases(self.queue(queue)[0], limit, self.now())

        return immediate("expire_leases", act)

    def end_leases(self, queue: QueueData, limit: int, now: int) -> list[int]:
        """End the claims whose time is over."""
        over = queue.until(queue.leases, now)[:limit]
        for item in over:
            self.count(queue, orphaned=1)
            self.log(queue, item, rules.crash_of(item), now)
            self.failed(queue, item, rules.expired(item, queue.settings, now), now)
        return [item.id for item in over]


def _held(queue: QueueData | None, id: int, token: str) -> ItemState | None:
    """The item, if this is the token of its present claim."""
    item = None if queue is None else queue.items.get(id)
    return item if item is not None and item.token == token else None
