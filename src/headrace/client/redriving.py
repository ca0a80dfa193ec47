"""Dead items that run again, move or go: in small steps, at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from headrace.client.looks import glance
from headrace.client.plans import Plan
from headrace.contract.items import Filter
from headrace.contract.op import Op
from headrace.contract.queues import QueueStore
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.names import check_queue

STEP = 500
STEPS_PER_SECOND = 10

Progress = Callable[[int, int], object]
"""Called with how many are done, and how many there are."""


def redriving(
    store: QueueStore,
    queue: str,
    filter: Filter,
    to: str | None,
    *,
    rate: float | None,
    limit: int | None,
    progress: Progress | None,
) -> Plan[int]:
    """Make dead items live again, here or in another queue; how many."""
    if to is not None:
        check_queue(to)

    def some(filter: Filter, count: int) -> Op[int]:
        return store.redrive(queue, filter, to, count)

    return (yield from _in_steps(store, queue, filter, some, rate, limit, progress))


def purging(
    store: QueueStore, queue: str, filter: Filter, *, limit: int | None, progress: Progress | None
) -> Plan[int]:
    """Remove dead items; how many."""

    def some(filter: Filter, count: int) -> Op[int]:
        return store.purge_dead(queue, filter, count)

    return (yield from _in_steps(store, queue, filter, some, None, limit, progress))


def _in_steps(
    store: QueueStore,
    queue: str,
    filter: Filter,
    some: Callable[[Filter, int], Op[int]],
    rate: float | None,
    limit: int | None,
    progress: Progress | None,
) -> Plan[int]:
    step = _step(rate)
    most = None if limit is None else positive("limit", limit)
    # What runs again may die again while we are at it: that is for another time.
    now = (yield from glance(store, queue)).now
    filter = replace(filter, before=min(filter.before or now + 1, now + 1))
    total = (yield store.count_dead(queue, filter)) if progress else 0
    total = total if most is None else min(total, most)
    start = time.monotonic()
    done = 0
    while most is None or done < most:
        count = step if most is None else min(step, most - done)
        moved: int = yield some(filter, count)
        done += moved
        if progress and moved:
            progress(done, total)
        if moved < count:
            break
        if rate is not None:
            yield max(start + done / rate - time.monotonic(), 0.0)
    return done


def _step(rate: float | None) -> int:
    if rate is None:
        return STEP
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not is_number or not 0 < rate < float("inf"):
        raise InvalidOption(f"rate is {rate!r}: use items per second above zero.", option="rate")
    return max(1, min(STEP, int(rate / STEPS_PER_SECOND)))
