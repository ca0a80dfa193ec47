"""What limits look at, in memory: counted whenever somebody asks, so that nothing can leak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from headrace.contract.counters import NO_QUEUE
from headrace.contract.limits import Holder, Usage
from headrace.drivers.memory.counter_data import CounterState
from headrace.drivers.memory.topics import Data
from headrace.model import rates
from headrace.model.items import ItemState, State
from headrace.model.limiting import Bound, Bounds, Bucket, Room, named
from headrace.model.limits import Subject


def bounds_of(data: Data, item: ItemState, on: Subject) -> Bounds:
    """What holds for an item."""
    return data.limits.bounds(item.queue, item.key_values, on)


def room_in(data: Data, on: Subject, now: int) -> Room:
    """What the totals of all items leave."""
    used: Counter[Bucket] = Counter()
    for item in _items(data, on):
        buckets = bounds_of(data, item, on).counted
        used.update(bucket for bucket in buckets if bucket.period_ms is None)
    if on == "running":
        for counter in data.counters.values():
            for bucket in _counted(data, counter):
                used[bucket] += counter.number
    for bucket, marks in data.rates.items():
        used[bucket] = rates.total(rates.standing(marks, bucket.period_ms or 0, now))
    return Room(used)


def room_at(data: Data, bound: Bound, now: int, wanted: int = 1) -> int | None:
    """When time brings room for so many more, if there is none."""
    period = bound.bucket.period_ms
    if period is None or bound.limit <= 0:
        return None
    marks = rates.standing(data.rates.get(bound.bucket, ()), period, now)
    has_room = rates.total(marks) + wanted <= bound.limit
    return None if has_room else rates.room_at(marks, period, bound.limit, wanted)


def usages(data: Data, bounds: Sequence[Bound], on: Subject, now: int, holders: int) -> list[Usage]:
    """Limits with their totals."""
    used = room_in(data, on, now).used
    return [
        Usage(
            rule=bound.rule,
            override=bound.override,
            queue=named(bound.bucket.queue),
            measure=bound.bucket.measure,
            key_values=bound.bucket.key_values,
            limit=bound.limit,
            used=used[bound.bucket],
            room_at=room_at(data, bound, now),
            holders=tuple(_holders(data, bound.bucket, on))[:holders],
        )
        for bound in bounds
    ]


def limited_now(data: Data, rule: str, on: Subject) -> set[Bound]:
    """The limits of a rule that hold for anything that is there."""
    there = {(item.queue, item.key_values) for item in _items(data, on)}
    if on == "running":
        there |= {(NO_QUEUE, counter.key_values) for counter in data.counters.values()}
    return {
        bound
        for queue, channel in there
        for bound in data.limits.bounds(queue, channel, on).checked
        if bound.rule == rule
    }


def _counted(data: Data, counter: CounterState) -> list[Bucket]:
    """The totals that a counter counts in."""
    bounds = data.limits.bounds(NO_QUEUE, counter.key_values, "running")
    return [bucket for bucket in bounds.counted if bucket.period_ms is None]


def _items(data: Data, on: Subject) -> Iterator[ItemState]:
    for queue in data.queues.values():
        for item in queue.items.values():
            if on == "enqueued" or item.state == State.ACTIVE:
                yield item


def _holders(data: Data, bucket: Bucket, on: Subject) -> Iterator[Holder]:
    if bucket.period_ms is not None:
        return
    for item in sorted(_items(data, on), key=lambda item: item.id):
        if bucket in bounds_of(data, item, on).counted:
            is_out = item.state == State.ACTIVE
            yield Holder(
                queue=item.queue,
                item=item.id,
                key_values=item.key_values,
                worker=item.worker if is_out else None,
                claimed_at=item.claimed_at if is_out else None,
            )
    if on == "running":
        for counter in sorted(data.counters.values(), key=lambda one: (one.key_values, one.since)):
            if bucket in _counted(data, counter):
                yield Holder(
                    queue=NO_QUEUE,
                    item=0,
                    key_values=counter.key_values,
                    worker=counter.holder,
                    claimed_at=counter.since,
                )
