"""Counters of user code, in SQL."""

from __future__ import annotations

from collections import Counter

from headrace.contract.counters import NO_QUEUE, CounterAnswer, CounterCall, CounterRow
from headrace.contract.limits import Usage
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.buckets import Buckets, change_totals
from headrace.drivers.relational.queues.limit_looks import LimitLooks
from headrace.drivers.relational.sql import Announce, Sql
from headrace.model.channels import selects
from headrace.model.limiting import Bound, Bucket, Limits, Room, named
from headrace.model.refusals import slots_lost

PAGE = 1000


class Counters(LimitLooks):
    """The operations on counters over a dialect's statements."""

    def acquire_counter(self, call: CounterCall) -> Op[CounterAnswer]:
        return Op("acquire_counter", lambda: self._count(call), repeatable=True)

    def _count(self, call: CounterCall) -> Steps[CounterAnswer]:
        limits, now = yield from self._entered()
        found = yield self.sql.find_counter(session=call.session)
        if found:
            return CounterAnswer(state="granted", now=now, until=found[0]["until"])
        bounds = limits.bounds(NO_QUEUE, call.key_values, "running")
        buckets = Buckets(self.sql, now)
        room = Room((yield from buckets.lock(bounds.buckets)))
        refusal = room.refusal(bounds, call.count)
        if refusal is not None:
            if call.waits:
                yield from buckets.wait_for_room([refusal.bucket])
            [row] = yield self.sql.next_counter_end()
            free = buckets.room_at([refusal], call.count)
            times = [time for time in (row["until"], free) if time is not None]
            return CounterAnswer(
                state="full",
                now=now,
                refusal=_usage(refusal, room.used[refusal.bucket], free),
                next_at=min(times, default=None),
            )
        room.take(bounds, call.count)
        yield from buckets.add(room.taken)
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

    def _entered(self) -> Steps[tuple[Limits, int]]:
        """The rules, which stay as they are until the operation's end, and the time."""
        sql = self.sql
        _, [row], [clock] = yield (
            sql.enter_limits(),
            sql.limit_version(),
            sql.read_clock(now=self.clock()),
        )
        return (yield from self.limits_at(row["version"])), clock["now"]

    def extend_counter(self, session: str, lease_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            kept = yield self.sql.extend_counter(session=session, lease=lease_ms, now=self.clock())
            if not kept:
                raise slots_lost()
            until: int = kept[0]["until"]
            return until

        return Op("extend_counter", steps, repeatable=True)

    def give_back(self, session: str) -> Op[bool]:
        def steps() -> Steps[bool]:
            limits, _ = yield from self._entered()
            gone = yield self.sql.drop_counters(sessions=[session])
            yield from self._given_back(limits, gone)
            return bool(gone)

        return Op("give_back", steps)

    def set_counter(self, key_values: str, count: int) -> Op[int]:
        def steps() -> Steps[int]:
            limits, now = yield from self._entered()
            session = f"={key_values}"
            # Made first, if need be, so that two who set it do so one after the other.
            yield self.sql.add_counter(
                session=session, key_values=key_values, count=0, until=None, holder=None, since=now
            )
            [row] = yield self.sql.lock_counter(session=session)
            before: int = row["count"]
            if count:
                yield self.sql.change_counter(session=session, count=count)
            else:
                yield self.sql.drop_counters(sessions=[session])
            changes = counted(limits, key_values, count - before)
            yield from self._woken((yield from change_totals(self.sql, changes)))
            return before

        return Op("set_counter", steps)

    def counters(self, select: str | None, after: str, limit: int) -> Op[list[CounterRow]]:
        def steps() -> Steps[list[CounterRow]]:
            found: list[CounterRow] = []
            last, most = after, limit if select is None else PAGE
            while len(found) < limit:
                rows = yield self.sql.list_counters(after=last, limit=most)
                page = [CounterRow(**row) for row in rows]
                found += [row for row in page if select is None or selects(select, row.key_values)]
                if len(page) < most:
                    break
                last = page[-1].key_values
            return found[:limit]

        return Op("counters", steps, writes=False)

    def end_counters(self, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            limits, now = yield from self._entered()
            ended, woken = yield from end_leases(self.sql, limits, now, limit)
            yield from self._woken(woken)
            return ended

        return Op("end_counters", steps)

    def _given_back(self, limits: Limits, rows: list[dict[str, object]]) -> Steps[None]:
        yield from self._woken((yield from give_back(self.sql, limits, rows)))

    def _woken(self, queues: set[str]) -> Steps[None]:
        if queues:
            yield Announce(frozenset(f"queue/{name}" for name in queues))


def end_leases(sql: Sql, limits: Limits, now: int, limit: int) -> Steps[tuple[int, set[str]]]:
    """Give back what holders have whose lease is over; how many, and who is to be woken."""
    over = yield sql.ended_counters(now=now, limit=limit)
    if not over:
        return 0, set()
    gone = yield sql.drop_counters(sessions=[row["session"] for row in over])
    return len(gone), (yield from give_back(sql, limits, gone))


def give_back(sql: Sql, limits: Limits, rows: list[dict[str, object]]) -> Steps[set[str]]:
    """Count what was in removed counters no longer; who is to be woken."""
    changes: Counter[Bucket] = Counter()
    for row in rows:
        changes.update(counted(limits, str(row["key_values"]), -int(str(row["count"]))))
    return (yield from change_totals(sql, changes))


def counted(limits: Limits, key_values: str, change: int) -> Counter[Bucket]:
    """How totals change with a counter."""
    bounds = limits.bounds(NO_QUEUE, key_values, "running")
    return Counter({bucket: change for bucket in bounds.counted if bucket.period_ms is None})


def _usage(bound: Bound, used: int, room_at: int | None) -> Usage:
    return Usage(
        rule=bound.rule,
        override=bound.override,
        queue=named(bound.bucket.queue),
        measure=bound.bucket.measure,
        key_values=bound.bucket.key_values,
        limit=bound.limit,
        used=used,
        room_at=room_at,
    )
