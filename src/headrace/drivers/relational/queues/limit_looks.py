"""What limits count, in SQL, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.contract.counters import NO_QUEUE
from headrace.contract.limits import Holder, Usage
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.limit_rows import EVERY, rules_of
from headrace.drivers.relational.queues.limits import LimitRules
from headrace.drivers.relational.queues.rows import item_of
from headrace.model import rates, refusals
from headrace.model.items import State
from headrace.model.limiting import Bound, Bucket, Limits, named
from headrace.model.limits import ALL, Subject

PAGE = 1000


class LimitLooks(LimitRules):
    """Who uses what."""

    def item_limits(self, queue: str, item: int, holders: int) -> Op[list[Usage]]:
        def steps() -> Steps[list[Usage]]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.find_item(queue=row.id, id=item)
            if not found:
                raise refusals.unknown_item(queue, item)
            state = item_of(found[0], queue)
            limits = yield from self._all_limits()
            bounds = limits.bounds(queue, state.key_values, "running").checked
            return (yield from self._usages(limits, bounds, "running", holders, row.now))

        return Op("item_limits", steps, writes=False)

    def limit_usage(self, rule: str, holders: int) -> Op[list[Usage]]:
        def steps() -> Steps[list[Usage]]:
            found = yield from self.rule(rule)
            limits = yield from self._all_limits()
            queues = yield from self._queues_of(found.scope)
            held = yield from self.held_in(found.scope, queues, found.on)
            bounds = {
                bound
                for queue, form in held
                for bound in limits.bounds(queue, form, found.on).checked
                if bound.rule == rule
            }
            ordered = sorted(bounds, key=lambda bound: (bound.bucket, bound.override or ""))
            now = yield from self.time()
            usages = yield from self._usages(limits, ordered, found.on, holders, now)
            return [usage for usage in usages if usage.used]

        return Op("limit_usage", steps, writes=False)

    def _all_limits(self) -> Steps[Limits]:
        rows = yield self.sql.list_limits(after="", limit=EVERY)
        return Limits(rules_of(rows).values())

    def _queues_of(self, scope: str) -> Steps[dict[int, str]]:
        rows = yield self.sql.queue_names(is_all=scope == ALL, names=[scope])
        return {row["id"]: row["name"] for row in rows}

    def _usages(
        self, limits: Limits, bounds: Sequence[Bound], on: Subject, holders: int, now: int
    ) -> Steps[list[Usage]]:
        names = sorted({bound.bucket.name for bound in bounds})
        rows = yield self.sql.look_at_buckets(names=names)
        known = {row["name"]: row for row in rows}
        usages = []
        for bound in bounds:
            row, period = known.get(bound.bucket.name), bound.bucket.period_ms
            used, room_at = row["used"] if row is not None else 0, None
            if row is not None and period is not None:
                marks = rates.standing(rates.read_marks(row["marks"]), period, now)
                used = rates.total(marks)
                room_at = rates.room_at(marks, period, bound.limit) if used >= bound.limit else None
            some = yield from self._holders(limits, bound.bucket, on, holders)
            usages.append(
                Usage(
                    rule=bound.rule,
                    override=bound.override,
                    queue=named(bound.bucket.queue),
                    measure=bound.bucket.measure,
                    key_values=bound.bucket.key_values,
                    limit=bound.limit,
                    used=used,
                    room_at=room_at,
                    holders=tuple(some),
                )
            )
        return usages

    def _holders(
        self, limits: Limits, bucket: Bucket, on: Subject, most: int
    ) -> Steps[list[Holder]]:
        found: list[Holder] = []
        if bucket.period_ms is not None or not most:
            return found
        queues = yield from self._queues_of(bucket.queue)
        after = 0
        while len(found) < most:
            some = self.sql.list_running if on == "running" else self.sql.list_held
            page = yield some(queues=sorted(queues), after=after, limit=PAGE)
            found += [
                _holder(row)
                for row in page
                if bucket in limits.bounds(row["queue"], row["key_values"], on).counted
            ]
            if len(page) < PAGE:
                break
            after = page[-1]["id"]
        if bucket.queue == ALL and on == "running" and len(found) < most:
            rows = yield self.sql.counter_holders(limit=EVERY)
            found += [
                Holder(
                    queue=NO_QUEUE,
                    item=0,
                    key_values=row["key_values"],
                    worker=row["holder"],
                    claimed_at=row["since"],
                )
                for row in rows
                if bucket in limits.bounds(NO_QUEUE, row["key_values"], on).counted
            ]
        return found[:most]


def _holder(row: Any) -> Holder:
    is_out = row["state"] == State.ACTIVE
    return Holder(
        queue=row["queue"],
        item=row["id"],
        key_values=row["key_values"],
        worker=row["worker"] if is_out else None,
        claimed_at=row["claimed_at"] if is_out else None,
    )
