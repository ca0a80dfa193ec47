"""Slots of user code, in SQL."""

from __future__ import annotations

import builtins
from collections import Counter
from typing import TYPE_CHECKING

from headrace.contract.counters import (
    NO_QUEUE,
    CounterAddition,
    CounterAnswer,
    CounterCall,
    CounterRow,
)
from headrace.contract.limits import Usage
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.limits.locked_counters import LockedCounters, change_limit_counters
from headrace.drivers.sql_common.statements import Notify, Statements
from headrace.model.error_messages import slots_lost
from headrace.model.limits.limit_set import CounterKey, FreeSlots, LimitSet
from headrace.model.queues.channels import selects

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

PAGE = 1000


class SqlCounters:
    """The operations on counters over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def acquire(self, call: CounterCall) -> Op[CounterAnswer]:
        return Op("counters.acquire", lambda: self._count(call), repeatable=True)

    def _count(self, call: CounterCall) -> Steps[CounterAnswer]:
        limits, now = yield from self._entered()
        found = yield self.sql.find_counter(session=call.session)
        if found:
            return CounterAnswer(state="granted", now=now, until=found[0]["until"])
        bounds = limits.bounds(NO_QUEUE, call.key_values, "running")
        limit_counters = LockedCounters(self.sql, now)
        slots = FreeSlots((yield from limit_counters.lock(bounds.counters)))
        refusal = slots.first_exceeded(bounds, call.count)
        if refusal is not None:
            if call.waits:
                yield from limit_counters.wait_for_slots([refusal.counter])
            [row] = yield self.sql.next_counter_end()
            free = limit_counters.free_at([refusal], call.count)
            times = [time for time in (row["until"], free) if time is not None]
            return CounterAnswer(
                state="full",
                now=now,
                refusal=Usage.of(refusal, slots.used[refusal.counter], free),
                next_at=min(times, default=None),
            )
        slots.acquire(bounds, call.count)
        yield from limit_counters.add(slots.acquired)
        until = now + call.lease_ms
        yield self.sql.add_counter(
            session=call.session,
            key_values=call.key_values,
            count=call.count,
            until=until,
            holder=call.holder,
            since=now,
        )
        return CounterAnswer(state="granted", now=now, until=until)

    def _entered(self) -> Steps[tuple[LimitSet, int]]:
        """The rules, which do not change before the operation ends, and the time."""
        sql = self.sql
        _, [row], [clock] = yield (
            sql.lock_limits_shared(),
            sql.limit_version(),
            sql.read_clock(now=self.clock()),
        )
        return (yield from self._context.storage.limits_at(row["version"])), clock["now"]

    def extend(self, session: str, lease_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            kept = yield self.sql.extend_counter(session=session, lease=lease_ms, now=self.clock())
            if not kept:
                raise slots_lost()
            until: int = kept[0]["until"]
            return until

        return Op("counters.extend", steps, repeatable=True)

    def release(self, session: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            limits, _ = yield from self._entered()
            gone = yield self.sql.drop_counters(sessions=[session])
            yield from self._release_slots(limits, gone)
            return bool(gone)

        return Op("counters.release", steps)

    def set(self, key_values: str, count: int) -> Op[int]:
        def steps() -> Steps[int]:
            limits, now = yield from self._entered()
            before = yield from self._locked_count(key_values, now)
            yield from self._write_count(key_values, count)
            changes = counted(limits, key_values, count - before)
            changed = yield from change_limit_counters(self.sql, changes)
            yield from self._notify(changed.waiting_queues)
            return before

        return Op("counters.set", steps)

    def _locked_count(self, key_values: str, now: int) -> Steps[int]:
        """The count that was set, locked; 0 if there is none."""
        session = f"={key_values}"
        while True:
            # A missing row is made first, so that two callers set it one after the other.
            yield self.sql.add_counter(
                session=session, key_values=key_values, count=0, until=None, holder=None, since=now
            )
            found = yield self.sql.lock_counter(session=session)
            # While we waited for its lock, another caller may have removed it.
            if found:
                count: int = found[0]["count"]
                return count

    def _write_count(self, key_values: str, count: int) -> Steps[None]:
        session = f"={key_values}"
        if count:
            yield self.sql.change_counter(session=session, count=count)
        else:
            yield self.sql.drop_counters(sessions=[session])

    def add(self, key_values: str, count: int) -> Op[CounterAddition]:
        return Op("counters.add", lambda: self._add(key_values, count))

    def _add(self, key_values: str, count: int) -> Steps[CounterAddition]:
        limits, now = yield from self._entered()
        before = yield from self._locked_count(key_values, now)
        after = max(before + count, 0)
        if count <= 0:
            yield from self._write_count(key_values, after)
            changes = counted(limits, key_values, after - before)
            changed = yield from change_limit_counters(self.sql, changes)
            yield from self._notify(changed.waiting_queues)
            return CounterAddition(count=after)
        bounds = limits.bounds(NO_QUEUE, key_values, "running")
        limit_counters = LockedCounters(self.sql, now)
        slots = FreeSlots((yield from limit_counters.lock(bounds.counters)))
        refusal = slots.first_exceeded(bounds, count)
        if refusal is not None:
            yield from self._write_count(key_values, before)
            free = limit_counters.free_at([refusal], count)
            usage = Usage.of(refusal, slots.used[refusal.counter], free)
            return CounterAddition(count=before, refusal=usage)
        slots.acquire(bounds, count)
        yield from limit_counters.add(slots.acquired)
        yield from self._write_count(key_values, after)
        return CounterAddition(count=after)

    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[CounterRow]]:
        def steps() -> Steps[list[CounterRow]]:
            found: list[CounterRow] = []
            last, page_size = after, limit if select is None else PAGE
            while len(found) < limit:
                rows = yield self.sql.list_counters(after=last, limit=page_size)
                page = [CounterRow(**row) for row in rows]
                found += [row for row in page if select is None or selects(select, row.key_values)]
                if len(page) < page_size:
                    break
                last = page[-1].key_values
            return found[:limit]

        return Op("counters.list", steps, writes=False)

    def end(self, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            limits, now = yield from self._entered()
            ended, woken = yield from end_leases(self.sql, limits, now, limit)
            yield from self._notify(woken)
            return ended

        return Op("counters.end", steps)

    def _release_slots(
        self, limits: LimitSet, rows: builtins.list[dict[str, object]]
    ) -> Steps[None]:
        yield from self._notify((yield from release_slots(self.sql, limits, rows)))

    def _notify(self, queues: builtins.set[str]) -> Steps[None]:
        if queues:
            yield Notify(frozenset(f"queue/{name}" for name in queues))


def end_leases(
    sql: Statements, limits: LimitSet, now: int, limit: int
) -> Steps[tuple[int, set[str]]]:
    """Release the slots of holders whose lease is over; how many, and which waiters to notify."""
    over = yield sql.ended_counters(now=now, limit=limit)
    if not over:
        return 0, set()
    gone = yield sql.drop_counters(sessions=[row["session"] for row in over])
    return len(gone), (yield from release_slots(sql, limits, gone))


def release_slots(
    sql: Statements, limits: LimitSet, rows: list[dict[str, object]]
) -> Steps[set[str]]:
    """Subtract removed slots from their counters; returns which waiters to notify."""
    changes: Counter[CounterKey] = Counter()
    for row in rows:
        changes.update(counted(limits, str(row["key_values"]), -int(str(row["count"]))))
    return (yield from change_limit_counters(sql, changes)).waiting_queues


def counted(limits: LimitSet, key_values: str, change: int) -> Counter[CounterKey]:
    """How counters change with slots of these key-values."""
    bounds = limits.bounds(NO_QUEUE, key_values, "running")
    return Counter({counter: change for counter in bounds.counted if counter.period_ms is None})
