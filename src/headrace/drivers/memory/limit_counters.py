"""The counters of limits in memory: computed from the items when needed, so nothing can leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from headrace.contract.counters import NO_QUEUE
from headrace.contract.limits import Holder, Usage
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.topics import Data
from headrace.model.limits import rates
from headrace.model.limits.limit_set import ChannelLimits, CounterKey, FreeSlots, LimitCheck, named
from headrace.model.limits.rules import Subject
from headrace.model.queues.items import ItemState, State


def bounds_of(data: Data, item: ItemState, on: Subject) -> ChannelLimits:
    """The limits that apply to an item."""
    return data.limits.bounds(item.queue, item.key_values, on)


def free_slots(data: Data, on: Subject, now: int) -> FreeSlots:
    """The free slots that all items leave."""
    used: Counter[CounterKey] = Counter()
    for item in _items(data, on):
        counted = bounds_of(data, item, on).counted
        used.update(key for key in counted if key.period_ms is None)
    if on == "running":
        for counter in data.counters.values():
            for key in _counted(data, counter):
                used[key] += counter.number
    for key, marks in data.rates.items():
        used[key] = rates.total(rates.current(marks, key.period_ms or 0, now))
    return FreeSlots(used)


def free_at(data: Data, check: LimitCheck, now: int, wanted: int = 1) -> int | None:
    """When time frees slots for ``wanted`` more, if there are none."""
    period = check.counter.period_ms
    if period is None or check.limit <= 0:
        return None
    marks = rates.current(data.rates.get(check.counter, ()), period, now)
    has_free_slots = rates.total(marks) + wanted <= check.limit
    return None if has_free_slots else rates.free_at(marks, period, check.limit, wanted)


def usages(
    data: Data, bounds: Sequence[LimitCheck], on: Subject, now: int, holders: int
) -> list[Usage]:
    """Limits with their usage."""
    used = free_slots(data, on, now).used
    return [
        Usage.of(
            check,
            used[check.counter],
            free_at(data, check, now),
            tuple(_holders(data, check.counter, on))[:holders],
        )
        for check in bounds
    ]


def limited_now(data: Data, rule: str, on: Subject) -> set[LimitCheck]:
    """The limits of a rule that apply to anything present."""
    there = {(item.queue, item.key_values) for item in _items(data, on)}
    if on == "running":
        there |= {(NO_QUEUE, counter.key_values) for counter in data.counters.values()}
        # An item admitted in the period of a rate still counts when it is done.
        there |= {(named(key.queue) or NO_QUEUE, key.key_values) for key in data.rates}
    return {
        check
        for queue, channel in there
        for check in data.limits.bounds(queue, channel, on).checked
        if check.rule == rule
    }


def _counted(data: Data, counter: CounterState) -> list[CounterKey]:
    """The limit counters that a counter of user code counts in."""
    bounds = data.limits.bounds(NO_QUEUE, counter.key_values, "running")
    return [key for key in bounds.counted if key.period_ms is None]


def _items(data: Data, on: Subject) -> Iterator[ItemState]:
    for queue in data.queues.values():
        for item in queue.items.values():
            if on == "enqueued" or item.state == State.ACTIVE:
                yield item


def _holders(data: Data, key: CounterKey, on: Subject) -> Iterator[Holder]:
    if key.period_ms is not None:
        return
    for item in sorted(_items(data, on), key=lambda item: item.id):
        if key in bounds_of(data, item, on).counted:
            is_active = item.state == State.ACTIVE
            yield Holder(
                queue=item.queue,
                item=item.id,
                key_values=item.key_values,
                worker=item.worker if is_active else None,
                claimed_at=item.claimed_at if is_active else None,
            )
    if on == "running":
        for counter in sorted(data.counters.values(), key=lambda one: (one.key_values, one.since)):
            if key in _counted(data, counter):
                yield Holder(
                    queue=NO_QUEUE,
                    item=0,
                    key_values=counter.key_values,
                    worker=counter.holder,
                    claimed_at=counter.since,
                )
