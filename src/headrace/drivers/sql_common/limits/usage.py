"""The usage of limits, in SQL, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.contract.counters import NO_QUEUE
from headrace.contract.limits import Holder, Usage
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.limits.rule_rows import ALL_ROWS, rules_of
from headrace.drivers.sql_common.queues.rows import item_of
from headrace.model import error_messages
from headrace.model.limits import rates
from headrace.model.limits.limit_set import CounterKey, LimitCheck, LimitSet, named
from headrace.model.limits.rules import ALL, Subject
from headrace.model.queues.items import State

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

PAGE = 1000


class RuleUsage:
    """Which limits apply, how full their counters are, and which items they count."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def of_item(self, queue: str, item: int, holders: int) -> Op[list[Usage]]:
        def steps() -> Steps[list[Usage]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.find_item(queue=row.id, id=item)
            if not found:
                raise error_messages.unknown_item(queue, item)
            state = item_of(found[0], queue)
            limits = yield from self._all_limits()
            bounds = limits.bounds(queue, state.key_values, "running").checked
            return (yield from self._usages(limits, bounds, "running", holders, row.now))

        return Op("limits.of_item", steps, writes=False)

    def usage(self, rule: str, holders: int) -> Op[list[Usage]]:
        def steps() -> Steps[list[Usage]]:
            found = yield from self._context.limit_rules.find_rule(rule)
            limits = yield from self._all_limits()
            queues = yield from self._queues_of(found.scope)
            counts = yield from self._context.limit_rules.count_in_scope(
                found.scope, queues, found.on
            )
            there = set(counts)
            if found.period_ms is not None:
                # Items that were claimed within the period count even after they have ended.
                rows = yield self.sql.list_limit_counters(queue=found.scope, measure=found.measure)
                some = [CounterKey.read(row["name"]) for row in rows]
                there |= {(named(one.queue) or NO_QUEUE, one.key_values) for one in some}
            bounds = {
                check
                for queue, form in there
                for check in limits.bounds(queue, form, found.on).checked
                if check.rule == rule
            }
            ordered = sorted(bounds, key=lambda check: (check.counter, check.override or ""))
            now = yield from self._context.storage.time()
            usages = yield from self._usages(limits, ordered, found.on, holders, now)
            return [usage for usage in usages if usage.used]

        return Op("limits.usage", steps, writes=False)

    def _all_limits(self) -> Steps[LimitSet]:
        rows = yield self.sql.list_limits(after="", limit=ALL_ROWS)
        return LimitSet(rules_of(rows).values())

    def _queues_of(self, scope: str) -> Steps[dict[int, str]]:
        rows = yield self.sql.queue_names(is_all=scope == ALL, names=[scope])
        return {row["id"]: row["name"] for row in rows}

    def _usages(
        self, limits: LimitSet, bounds: Sequence[LimitCheck], on: Subject, holders: int, now: int
    ) -> Steps[list[Usage]]:
        names = sorted({check.counter.name for check in bounds})
        rows = yield self.sql.read_limit_counters(names=names)
        known = {row["name"]: row for row in rows}
        usages = []
        for check in bounds:
            row, period = known.get(check.counter.name), check.counter.period_ms
            used, free_at = row["used"] if row is not None else 0, None
            if row is not None and period is not None:
                marks = rates.current(rates.read_marks(row["marks"]), period, now)
                used = rates.total(marks)
                free_at = rates.free_at(marks, period, check.limit) if used >= check.limit else None
            some = yield from self._holders(limits, check.counter, on, holders)
            usages.append(Usage.of(check, used, free_at, tuple(some)))
        return usages

    def _holders(
        self, limits: LimitSet, counter: CounterKey, on: Subject, count: int
    ) -> Steps[list[Holder]]:
        found: list[Holder] = []
        if counter.period_ms is not None or not count:
            return found
        queues = yield from self._queues_of(counter.queue)
        after = 0
        while len(found) < count:
            some = self.sql.list_running if on == "running" else self.sql.list_live
            page = yield some(queues=sorted(queues), after=after, limit=PAGE)
            found += [
                _holder(row)
                for row in page
                if counter in limits.bounds(row["queue"], row["key_values"], on).counted
            ]
            if len(page) < PAGE:
                break
            after = page[-1]["id"]
        if counter.queue == ALL and on == "running" and len(found) < count:
            rows = yield self.sql.counter_holders(limit=ALL_ROWS)
            found += [
                Holder(
                    queue=NO_QUEUE,
                    item=0,
                    key_values=row["key_values"],
                    worker=row["holder"],
                    claimed_at=row["since"],
                )
                for row in rows
                if counter in limits.bounds(NO_QUEUE, row["key_values"], on).counted
            ]
        return found[:count]


def _holder(row: Any) -> Holder:
    is_active = row["state"] == State.ACTIVE
    return Holder(
        queue=row["queue"],
        item=row["id"],
        key_values=row["key_values"],
        worker=row["worker"] if is_active else None,
        claimed_at=row["claimed_at"] if is_active else None,
    )
