"""Counters of user code, in memory."""

from __future__ import annotations

import builtins
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.counters import (
    NO_QUEUE,
    CounterAddition,
    CounterAnswer,
    CounterCall,
    CounterRow,
)
from headrace.contract.op import Op
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.limit_counters import free_at, free_slots, usages
from headrace.drivers.memory.topics import immediate
from headrace.model.error_messages import slots_lost
from headrace.model.limits import rates
from headrace.model.limits.limit_set import FreeSlots
from headrace.model.queues.channels import selects

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryCounters:
    """The operations on counters."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def acquire(self, call: CounterCall) -> Op[CounterAnswer]:
        return immediate("counters.acquire", lambda: self._count(call))

    def _count(self, call: CounterCall) -> CounterAnswer:
        data, now = self.data, self.now()
        mine = data.counters.get(call.session)
        if mine is not None:
            return CounterAnswer(state="granted", now=now, until=mine.until or 0)
        bounds = data.limits.bounds(NO_QUEUE, call.key_values, "running")
        slots = free_slots(data, "running", now)
        refusal = slots.first_exceeded(bounds, call.count)
        if refusal is not None:
            free = free_at(data, refusal, now, call.count)
            [usage] = usages(data, [refusal], "running", now, 0)
            ends = [held.until for held in data.counters.values() if held.until is not None]
            times = [*ends, *(() if free is None else (free,))]
            next_at = min(times, default=None)
            refused = replace(usage, free_at=free)
            return CounterAnswer(state="full", now=now, refusal=refused, next_at=next_at)
        slots.acquire(bounds, call.count)
        self._note(slots, now)
        until = now + call.lease_ms
        counter = CounterState(call.key_values, call.count, until, call.holder, now)
        self._context.storage.set_entry(data.counters, call.session, counter)
        return CounterAnswer(state="granted", now=now, until=until)

    def _note(self, slots: FreeSlots, now: int) -> None:
        for counter, count in slots.acquired.items():
            if counter.period_ms is not None and count:
                marks = rates.current(self.data.rates.get(counter, ()), counter.period_ms, now)
                more = rates.added(marks, counter.period_ms, now, count)
                self._context.storage.set_entry(self.data.rates, counter, more)

    def extend(self, session: str, lease_ms: int) -> Op[int]:
        def act() -> int:
            mine = self.data.counters.get(session)
            if mine is None:
                raise slots_lost()
            until = self.now() + lease_ms
            self._context.storage.set_entry(self.data.counters, session, mine._replace(until=until))
            return until

        return immediate("counters.extend", act)

    def release(self, session: str) -> Op[bool]:
        def act() -> bool:
            is_held = session in self.data.counters
            if is_held:
                self._context.storage.drop_counter(session)
            return is_held

        return immediate("counters.release", act)

    def set(self, key_values: str, count: int) -> Op[int]:
        def act() -> int:
            session = f"={key_values}"
            before = self.data.counters.get(session)
            if before is not None:
                self._context.storage.drop_counter(session)
            if count:
                counter = CounterState(key_values, count, None, None, self.now())
                self._context.storage.set_entry(self.data.counters, session, counter)
            return 0 if before is None else before.number

        return immediate("counters.set", act)

    def add(self, key_values: str, count: int) -> Op[CounterAddition]:
        return immediate("counters.add", lambda: self._add(key_values, count))

    def _add(self, key_values: str, count: int) -> CounterAddition:
        data, now, session = self.data, self.now(), f"={key_values}"
        before = data.counters.get(session)
        was = 0 if before is None else before.number
        if count > 0:
            bounds = data.limits.bounds(NO_QUEUE, key_values, "running")
            slots = free_slots(data, "running", now)
            refusal = slots.first_exceeded(bounds, count)
            if refusal is not None:
                free = free_at(data, refusal, now, count)
                [usage] = usages(data, [refusal], "running", now, 0)
                return CounterAddition(count=was, refusal=replace(usage, free_at=free))
            slots.acquire(bounds, count)
            self._note(slots, now)
        after = max(was + count, 0)
        if after < was:
            self._context.storage.drop_counter(session)
        if after:
            since = now if before is None else before.since
            counter = CounterState(key_values, after, None, None, since)
            self._context.storage.set_entry(data.counters, session, counter)
        return CounterAddition(count=after)

    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[CounterRow]]:
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

        return immediate("counters.list", act, writes=False)

    def end(self, limit: int) -> Op[int]:
        return immediate("counters.end", lambda: self._context.storage.end_counter_leases(limit))
