"""The ends of claims on items in SQL: outcomes, extensions, and leases that have expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.contract.items import Outcome, Settled, settled
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of
from headrace.drivers.sql_common.queues.unit_of_work import UnitOfWork
from headrace.drivers.sql_common.statements import RequireFlush
from headrace.model.maintenance import ExpiredLeases
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState
from headrace.model.queues.outcomes import apply_outcome
from headrace.model.queues.settings import capacity_word

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

MAX_EXPIRED = 1000


class QueueSettlements:
    """Settles items in flight, extends their leases, and ends expired ones."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Op[list[Settled]]:
        return Op(
            "queues.settle",
            partial(self.settle_steps, queue, outcomes),
            fast=self._context.fastpath.settle(queue, outcomes),
        )

    def settle_steps(self, name: str, outcomes: Sequence[Outcome]) -> Steps[list[Settled]]:
        """The general settlement, for every case."""
        queue = yield from self._context.storage.entered_queue(name)
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
            yield from self._context.topics.append(parts)
        for call in [call for outcome in standing for call in outcome.pushes]:
            yield from self._context.pushes.push_one(call)
        return answers

    def _complete_all(
        self, queue: QueueRow, outcomes: Sequence[Outcome]
    ) -> Steps[list[Settled] | None]:
        """The most frequent case in one statement per claim: all completed, and nothing kept.

        None if it is another case, and nothing was changed.
        """
        # In a strict channel the next item waits for this one.
        if queue.settings.serial or queue.settings.keep != "none":
            return None
        if any(outcome.kind != "complete" or outcome.failure is not None for outcome in outcomes):
            return None
        if any(outcome.channel_delayed_until(queue.now) is not None for outcome in outcomes):
            return None
        ids = Counter(outcome.item for outcome in outcomes)
        if len(ids) < len(outcomes):
            return None
        tokens: dict[str, list[int]] = {}
        for outcome in outcomes:
            tokens.setdefault(outcome.token, []).append(outcome.item)
        gone: set[int] = set()
        unit = self._context.storage.unit_of_work()
        for token, items in tokens.items():
            rows = yield self.sql.delete_completed(queue=queue.id, ids=items, token=token)
            gone |= {row["id"] for row in rows}
            unit.note_ended(queue, (row["key_values"] for row in rows))
        unit.count(queue, active=-len(gone), processed=len(gone))
        if gone and queue.settings.is_limited:
            unit.announced.add(capacity_word(queue.name))
        if queue.limit_version:
            yield from unit.write()
        else:
            yield from unit.write_counts()
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
        unit = self._context.storage.unit_of_work()
        answers = []
        delays: dict[str, int] = {}
        for outcome in outcomes:
            item = items.get(outcome.item)
            if item is None or item.token != outcome.token:
                answers.append(Settled(outcome.item, "lost"))
                continue
            del items[outcome.item]
            answers.append((yield from self._settle_one(unit, queue, item, outcome)))
            until = outcome.channel_delayed_until(queue.now)
            if until is not None and item.key_values is not None:
                delays[item.key_values] = max(until, delays.get(item.key_values, until))
        yield from self._write_parts(unit)
        # In one order, so that two operations cannot deadlock.
        for name, until in sorted(delays.items()):
            yield self.sql.delay_channel(queue=queue.id, key_values=name, until=until)
        lost = [
            (answer.item, outcome.token)
            for answer, outcome in zip(answers, outcomes, strict=True)
            if answer.is_lost
        ]
        gone = (
            (yield from self._context.channels.went(queue, lost))
            if lost and queue.info.has_channels
            else ()
        )
        return [
            Settled(answer.item, "gone")
            if answer.is_lost and (answer.item, outcome.token) in gone
            else answer
            for answer, outcome in zip(answers, outcomes, strict=True)
        ]

    def _write_parts(self, unit: UnitOfWork) -> Steps[None]:
        """Write the unit of work, and commit its records to their topics."""
        yield from unit.write()
        if unit.parts:
            yield from self._context.topics.append(unit.parts)

    def _settle_one(
        self, unit: UnitOfWork, queue: QueueRow, item: ItemState, outcome: Outcome
    ) -> Steps[Settled]:
        verdict, counts, failure = apply_outcome(item, outcome, queue.settings, queue.now)
        unit.count(queue, **counts)
        if failure is not None:
            unit.log(queue, item, failure, queue.now)
        if outcome.kind == "reject":
            waiting = yield from self._context.storage.failed(unit, queue, item, verdict)
        else:
            waiting = yield from self._context.storage.become(unit, queue, item, verdict, queue.now)
        return settled(item.id, verdict, waiting, outcome.channel_delayed_until(queue.now))

    def extend(self, queue: str, token: str, items: Sequence[int], lease_ms: int) -> Op[list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self._context.storage.find_queue(queue)
            if row is None:
                return []
            found = yield self.sql.extend_items(
                queue=row.id, ids=list(items), token=token, lease=lease_ms, now=self.clock()
            )
            extended = {row["id"] for row in found}
            return [id for id in items if id in extended]

        return Op("queues.extend", steps, relaxed=True, repeatable=True)

    def expire_leases(self, queue: str, limit: int) -> Op[list[int]]:
        def steps() -> Steps[list[int]]:
            row = yield from self._context.storage.open_queue(queue)
            return (yield from self.end_leases(row, limit)).items

        return Op("queues.expire_leases", steps)

    def end_leases(self, queue: QueueRow, limit: int = MAX_EXPIRED) -> Steps[ExpiredLeases]:
        """End claims whose lease has expired, at most ``limit``."""
        found = yield self.sql.expired_leases(queue=queue.id, now=queue.now, limit=limit)
        if not found:
            return ExpiredLeases([], 0)
        # A crash of the database must not undo a counted crash, nor revive a dead item.
        yield RequireFlush()
        unit, died = self._context.storage.unit_of_work(), 0
        for row in found:
            item = item_of(row, queue.name)
            unit.count(queue, orphaned=1)
            unit.log(queue, item, rules.crash_of(item), queue.now)
            verdict = rules.expired(item, queue.settings, queue.now)
            yield from self._context.storage.failed(unit, queue, item, verdict)
            died += rules.is_death(verdict)
        yield from self._write_parts(unit)
        return ExpiredLeases([row["id"] for row in found], died)
