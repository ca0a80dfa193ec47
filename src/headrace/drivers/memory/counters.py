"""Counters of user code, in memory."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from headrace.contract.counters import NO_QUEUE, CounterAnswer, CounterCall, CounterRow
from headrace.contract.op import Op
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.topics import immediate
from headrace.drivers.memory.totals import room_at, room_in, usages
from headrace.model import rates
from headrace.model.channels import selects
from headrace.model.limiting import Room
from headrace.model.refusals import slots_lost


class MemoryCounters(MemoryItems):
    """The operations on counters."""

    def acquire_counter(self, call: CounterCall) -> Op[CounterAnswer]:
        return immediate("acquire_counter", lambda: self._count(call))

    def _count(self, call: CounterCall) -> CounterAnswer:
        data, now = self.data, self.now()
        mine = data.counters.get(call.session)
        if mine is not None:
            return CounterAnswer(state="granted", now=now, until=mine.until or 0)
        bounds = data.limits.bounds(NO_QUEUE, call.key_values, "running")
        room = room_in(data, "running", now)
        refusal = room.refusal(bounds, call.count)
        if refusal is not None:
            free = room_at(data, refusal, now, call.count)
            [usage] = usages(data, [refusal], "running", now, 0)
            ends = [held.until for held in data.counters.values() if held.until is not None]
            times = [*ends, *(() if free is None else (free,))]
            next_at = min(times, default=None)
            refused = replace(usage, room_at=free)
            return CounterAnswer(state="full", now=now, refusal=refused, next_at=next_at)
        room.take(bounds, call.count)
        self._note(room, now)
        until = now + call.lease_ms
        counter = CounterState(call.key_values, call.count, until, call.holder, now)
        self.set_entry(data.counters, call.session, counter)
        return CounterAnswer(state="granted", now=now, until=until)

    def _note(self, room: Room, now: int) -> None:
        for bucket, count in room.taken.items():
            if bucket.period_ms is not None and count:
                marks = rates.standing(self.data.rates.get(bucket, ()), bucket.period_ms, now)
                more = rates.with_more(marks, bucket.period_ms, now, count)
                self.set_entry(self.data.rates, bucket, more)

    def extend_counter(self, session: str, lease_ms: int) -> Op[int]:
        def act() -> int:
            mine = self.data.counters.get(session)
            if mine is None:
                raise slots_lost()
            until = self.now() + lease_ms
            self.set_entry(self.data.counters, session, mine._replace(until=until))
            return until

        return immediate("extend_counter", act)

    def give_back(self, session: str) -> Op[bool]:
        def act() -> bool:
            is_held = session in self.data.counters
            if is_held:
                self.drop_counter(session)
            return is_held

        return immediate("give_back", act)

    def set_counter(self, key_values: str, count: int) -> Op[int]:
        def act() -> int:
            session = f"={key_values}"
            before = self.data.counters.get(session)
            if before is not None:
                self.drop_counter(session)
            if count:
                counter = CounterState(key_values, count, None, None, self.now())
                self.set_entry(self.data.counters, session, counter)
            return 0 if before is None else before.number

        return immediate("set_counter", act)

    def counters(self, select: str | None, after: str, limit: int) -> Op[list[CounterRow]]:
        def act() -> list[CounterRow]:
            count: Counter[str] = Counter()
            holders: Counter[str] = Counter()
            for counter in self.data.counters.values():
                count[counter.key_values] += counter.number
                holders[counter.key_values] += counter.until is not None
            names = [
                name
                for name in sorted(count)
                if name > after and (select is None or selects(select, name))
            ]
            return [
                CounterRow(key_values=name, count=count[name], holders=holders[name])
                for name in names[:limit]
            ]

        return immediate("counters", act, writes=False)

    def end_counters(self, limit: int) -> Op[int]:
        return immediate("end_counters", lambda: self.end_counter_leases(limit))
