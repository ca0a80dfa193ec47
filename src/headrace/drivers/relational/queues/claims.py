"""Claims on items in SQL, and their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from headrace.contract.items import Outcome, Settled, Take, Taking
from headrace.contract.op import Alone, Op, Steps
from headrace.drivers.relational.queues.admission import Admission
from headrace.drivers.relational.queues.channel_claims import ChannelClaims
from headrace.drivers.relational.queues.counters import end_leases
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.pushes import Pushes
from headrace.drivers.relational.queues.rows import QueueRow, item_of
from headrace.drivers.relational.queues.turning import Channels, take_turns
from headrace.drivers.relational.queues.verdicts import judged
from headrace.drivers.relational.sql import Announce, Finally, Insist, Many
from headrace.model import items as rules
from headrace.model.items import Ended, ItemState, State
from headrace.model.queues import room_word

MOST_PROMOTED = 1000
MOST_EXPIRED = 1000


class Claims(ChannelClaims, Pushes):
    """Items go out, and are settled."""

    # Whether who has items may live on after a crash that the database has forgotten them in.
    # Where all are on one machine, nobody does.
    may_outlive = True

    def claim_items(self, take: Take) -> Op[Taking]:
        runs = 0

        def steps() -> Steps[Taking]:
            nonlocal runs
            runs += 1
            return (yield from self.claim_steps(take, is_repeat=runs > 1))

        # Repeatable: what was claimed by a run whose answer was lost is found by its token.
        return Op(
            "claim_items",
            steps,
            relaxed=self.is_relaxed(take.queue),
            repeatable=True,
            alone=self.claim_items_at_once(take),
        )

    def is_relaxed(self, queue: str) -> bool:
        """Whether claims on a queue begin without waiting for the disk. Some insist later."""
        return True

    def claim_items_at_once(self, take: Take) -> Alone[Taking] | None:
        """The claim without a transaction around it, if the database can."""
        return None

    def claim_steps(self, take: Take, *, is_repeat: bool) -> Steps[Taking]:
        """A claim under locks."""
        queue = yield from self.open_queue(take.queue)
        if is_repeat:
            found = yield self.sql.held_items(queue=queue.id, token=take.token)
            if found:
                return taking(queue, [item_of(row, queue.name) for row in found], None)
        return (yield from self.claim_open(take, queue))

    def claim_open(self, take: Take, queue: QueueRow) -> Steps[Taking]:
        """A claim on a queue that was entered."""
        refusal = refused(queue, take)
        if refusal is not None:
            return refusal
        return (yield from self.claim_rest(take, queue, 0))

    def claim_rest(self, take: Take, queue: QueueRow, but: int) -> Steps[Taking]:
        """A claim on an open queue, of which some items are taken already."""
        count = take.count - but
        promoted = yield from self._promote(queue)
        admission = yield from self._admission(queue)
        chosen = yield from self.next_items(queue, take, count, admission)
        is_short = len(chosen.items) < count and admission is None
        if is_short and (yield from self._end_leases(queue, MOST_EXPIRED)):
            chosen = yield from self.next_items(queue, take, count, None)
        items = [self._taken(item, queue, take) for item in chosen.items]
        if items:
            yield Finally(
                (Many.of(self.sql.hand_out_items, [claim_values(item) for item in items]),)
            )
            yield from self.had_their_turn(queue, chosen)
        yield from self._count_claims(queue, promoted, len(items))
        due = room_at = None
        if len(items) < count:
            due = yield from self.next_due(queue, items, chosen.next_at)
        if admission is not None:
            room_at = yield from admission.close(is_short=len(items) < count)
        if chosen.filing is not None:
            yield from chosen.filing.write(chosen.served, is_short=len(items) < count)
        due = min((time for time in (due, room_at) if time is not None), default=None)
        return taking(queue, items, due)

    def _admission(self, queue: QueueRow) -> Steps[Admission | None]:
        """What limits let through, if there are any on what is handed out."""
        limits = yield from self.limits_of(queue)
        if not limits.has(queue.name, "running"):
            return None
        [over] = yield self.sql.overdue(queue=queue.id, now=queue.now)
        freed = 0
        if over["leases"]:
            # They hold room. Totals are locked once; the next claim does what is left.
            freed = len((yield from self._end_leases(queue, MOST_EXPIRED)))
        if over["counters"] and not freed:
            freed, woken = yield from end_leases(self.sql, limits, queue.now, MOST_EXPIRED)
            yield Announce(frozenset(f"queue/{name}" for name in woken))
        may_outlive = self.may_outlive
        return Admission(
            self.sql,
            queue,
            limits,
            holds_some=freed > 0,
            may_outlive=may_outlive,
            has_files=bool(over["files"]),
        )

    def _taken(self, item: ItemState, queue: QueueRow, take: Take) -> ItemState:
        lease = rules.lease_ms(queue.settings, take.lease_ms, item)
        return rules.claimed(
            item,
            token=take.token,
            lease_until=queue.now + lease,
            worker=take.worker,
            now=queue.now,
        )

    def _promote(self, queue: QueueRow) -> Steps[int]:
        """Let planned items that are due stand in line, in the order in which they became so."""
        total = 0
        while True:
            due = yield self.sql.due_items(queue=queue.id, now=queue.now, limit=MOST_PROMOTED)
            if not due:
                return total
            new = [row["id"] for row in due if row["position"] is None]
            turns = iter((yield from take_turns(self.sql, len(new))) if new else ())
            places = [
                {
                    "id": row["id"],
                    "position": rules.place_of(queue.settings.discipline, next(turns))
                    if row["position"] is None
                    else row["position"],
                }
                for row in due
            ]
            channels = Channels(self.sql)
            for row in due:
                channels.want(queue, row["key_values"])
            yield from channels.hold()
            yield Finally((Many.of(self.sql.place_items, places),))
            yield from channels.join((queue, row["key_values"]) for row in due)
            total += len(due)
            if len(due) < MOST_PROMOTED:
                return total

    def _count_claims(self, queue: QueueRow, promoted: int, picked: int) -> Steps[None]:
        ledger = self.ledger()
        ledger.count(queue, planned=-promoted, pending=promoted - picked, active=picked)
        ledger.count(queue, picked=picked)
        yield from ledger.write()

    def next_due(
        self, queue: QueueRow, items: Sequence[ItemState], held_until: int | None = None
    ) -> Steps[int | None]:
        """When the next planned item is due or the next lease over, or a channel free again."""
        [row] = yield self.sql.next_times(queue=queue.id)
        times = [row["due"], row["lease"], held_until, *(item.lease_until for item in items)]
        return min((time for time in times if time is not None), default=None)

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Op[list[Settled]]:
        return Op(
            "settle",
            lambda: self.settled_slowly(queue, outcomes),
            alone=self.settle_at_once(queue, outcomes),
        )

    def settle_at_once(
        self, queue: str, outcomes: Sequence[Outcome]
    ) -> Callable[[], Steps[list[Settled]]] | None:
        """The settlement without a transaction around it, if it is simple and the database can."""
        return None

    def settled_slowly(self, queue: str, outcomes: Sequence[Outcome]) -> Steps[list[Settled]]:
        """The settlement, whatever it takes."""
        return self._settle(queue, outcomes)

    def _settle(self, name: str, outcomes: Sequence[Outcome]) -> Steps[list[Settled]]:
        queue = yield from self.entered_queue(name)
        if queue is None:
            return [Settled(outcome.item, "lost") for outcome in outcomes]
        answers = yield from self._complete_all(queue, outcomes)
        if answers is None:
            answers = yield from self._settle_each(queue, outcomes)
        standing = [
            outcome for outcome, answer in zip(outcomes, answers, strict=True) if not answer.is_lost
        ]
        parts = [part for outcome in standing for call in outcome.commits for part in call.parts]
        if parts:
            yield from self.append(parts)
        for call in [call for outcome in standing for call in outcome.pushes]:
            yield from self.push_one(call)
        return answers

    def _complete_all(
        self, queue: QueueRow, outcomes: Sequence[Outcome]
    ) -> Steps[list[Settled] | None]:
        """The most frequent case in one statement per claim: all is done, and nothing is kept.

        None if it is another case, and nothing was changed.
        """
        # In a strict channel somebody waits for it.
        if queue.settings.serial or queue.settings.keep != "none":
            return None
        if any(outcome.kind != "complete" or outcome.failure is not None for outcome in outcomes):
            return None
        if any(outcome.held_until(queue.now) is not None for outcome in outcomes):
            return None
        ids = Counter(outcome.item for outcome in outcomes)
        if len(ids) < len(outcomes):
            return None
        tokens: dict[str, list[int]] = {}
        for outcome in outcomes:
            tokens.setdefault(outcome.token, []).append(outcome.item)
        gone: set[int] = set()
        ledger = self.ledger()
        for token, items in tokens.items():
            rows = yield self.sql.complete_items(queue=queue.id, ids=items, token=token)
            gone |= {row["id"] for row in rows}
            ledger.ended_out(queue, (row["key_values"] for row in rows))
        ledger.count(queue, active=-len(gone), processed=len(gone))
        if gone and queue.settings.is_limited:
            ledger.announced.add(room_word(queue.name))
        yield from ledger.write()
        left = [outcome for outcome in outcomes if outcome.item not in gone]
        rest = iter((yield from self._settle_each(queue, left)) if left else ())
        return [
            Settled(outcome.item, "completed") if outcome.item in gone else next(rest)
            for outcome in outcomes
        ]

    def _settle_each(self, queue: QueueRow, outcomes: Sequence[Outcome]) -> Steps[list[Settled]]:
        ids = sorted({outcome.item for outcome in outcomes})
        found = yield self.sql.load_items(queue=queue.id, ids=ids)
        items: dict[int, ItemState] = {row["id"]: item_of(row, queue.name) for row in found}
        ledger = self.ledger()
        answers = []
        holds: dict[str, int] = {}
        for outcome in outcomes:
            item = items.get(outcome.item)
            if item is None or item.token != outcome.token:
                answers.append(Settled(outcome.item, "lost"))
                continue
            del items[outcome.item]
            answers.append((yield from self._settle_one(ledger, queue, item, outcome)))
            until = outcome.held_until(queue.now)
            if until is not None and item.key_values is not None:
                holds[item.key_values] = max(until, holds.get(item.key_values, until))
        yield from self._write_parts(ledger)
        # In one order, whoever does it.
        for name, until in sorted(holds.items()):
            yield self.sql.hold_channel(queue=queue.id, key_values=name, until=until)
        lost = [
            (answer.item, outcome.token)
            for answer, outcome in zip(answers, outcomes, strict=True)
            if answer.is_lost
        ]
        gone = (yield from self.went(queue, lost)) if lost and queue.info.has_channels else ()
        return [
            Settled(answer.item, "gone")
            if answer.is_lost and (answer.item, outcome.token) in gone
            else answer
            for answer, outcome in zip(answers, outcomes, strict=True)
        ]

    def _write_parts(self, ledger: Ledger) -> Steps[None]:
        """Write the ledger, and commit what it has for topics."""
        yield from ledger.write()
        if ledger.parts:
            yield from self.append(ledger.parts)

    def _settle_one(
        self, ledger: Ledger, queue: QueueRow, item: ItemState, outcome: Outcome
    ) -> Steps[Settled]:
        verdict = judged(ledger, queue, item, outcome)
        if outcome.kind == "reject":
            waiting = yield from self.failed(ledger, queue, item, verdict)
        else:
            waiting = yield from self.become(ledger, queue, item, verdict, queue.now)
        if waiting is not None:
            is_due = waiting.state == State.PENDING
            until = outcome.held_until(queue.now)
            due = waiting.next_execution if until is None else until
            return Settled(item.id, "pending" if is_due else "planned", due)
        if isinstance(verdict, Ended):
            return Settled(item.id, "completed" if verdict.state == State.COMPLETED else "dead")
        return Settled(item.id, "dropped")

    def secure_claim(self, queue: str, token: str, item: int) -> Op[bool]:
        def steps() -> Steps[bool]:
            row = yield from self.find_queue(queue)
            if row is None:
                return False
            found = yield self.sql.find_claim(queue=row.id, item=item, token=token)
            return bool(found)

        alone = self.secure_at_once(queue, token, item)
        return Op("secure_claim", steps, repeatable=True, alone=alone)

    def secure_at_once(self, queue: str, token: str, item: int) -> Alone[bool] | None:
        """The same without a transaction around it, if the database can."""
        return None

    def is_secured(self, token: str) -> bool:
        return False

    def extend_items(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Op[list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self.find_queue(queue)
            if row is None:
                return []
            found = yield self.sql.extend_items(
                queue=row.id, ids=list(items), token=token, lease=lease_ms, now=self.clock()
            )
            held = {row["id"] for row in found}
            return [id for id in items if id in held]

        return Op("extend_items", steps, relaxed=True, repeatable=True)

    def expire_leases(self, queue: str, limit: int) -> Op[list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self.open_queue(queue)
            return (yield from self._end_leases(row, limit))

        return Op("expire_leases", steps)

    def end_leases_slowly(self, queue: QueueRow) -> Steps[list[int]]:
        """End the claims whose time is over, as many as one operation may."""
        return self._end_leases(queue, MOST_EXPIRED)

    def _end_leases(self, queue: QueueRow, limit: int) -> Steps[list[int]]:
        """End the claims whose time is over."""
        found = yield self.sql.ended_leases(queue=queue.id, now=queue.now, limit=limit)
        if not found:
            return []
        # A crash that was counted must not be forgotten, nor a dead item come back.
        yield Insist()
        ledger = self.ledger()
        for row in found:
            item = item_of(row, queue.name)
            ledger.count(queue, orphaned=1)
            ledger.log(queue, item, rules.crash_of(item), queue.now)
            verdict = rules.expired(item, queue.settings, queue.now)
            yield from self.failed(ledger, queue, item, verdict)
        yield from self._write_parts(ledger)
        return [row["id"] for row in found]


def refused(queue: QueueRow, take: Take) -> Taking | None:
    """The answer to a claim that gets nothing, whatever waits."""
    version, now = queue.info.version, queue.now
    if queue.info.is_paused:
        return Taking(state="paused", version=version, now=now)
    if queue.is_held:
        return Taking(state="paused", version=version, now=now, next_due=queue.held_until)
    if take.version not in (None, version):
        return Taking(state="stale", version=version, now=now)
    return None


def taking(
    queue: QueueRow,
    items: Sequence[ItemState],
    due: int | None,
    now: int | None = None,
    *,
    is_loose: bool = False,
) -> Taking:
    """The answer to a claim, made when the queue was read or later."""
    return Taking(
        state="claimed" if items else "empty",
        items=tuple(items),
        version=queue.info.version,
        now=queue.now if now is None else now,
        next_due=due,
        is_loose=is_loose,
    )


def claim_values(item: ItemState) -> dict[str, Any]:
    """What is written of a claim."""
    return {
        "id": item.id,
        "token": item.token,
        "lease_until": item.lease_until,
        "claimed_at": item.claimed_at,
        "worker": item.worker,
    }
