"""Dead items that run again, move or go: in small steps, at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from headrace.client.workflows import Plan
from headrace.client.workflows.inspection import probe
from headrace.contract.items import ItemFilter
from headrace.contract.op import Op
from headrace.contract.store import Session
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.names import writable_queue

STEP = 500
STEPS_PER_SECOND = 10
FASTEST = 10**9

Progress = Callable[[int, int], object]
"""Called with how many are done, and how many there are."""


def redrive_dead(
    store: Session,
    queue: str,
    filter: ItemFilter,
    to: str | None,
    *,
    rate: float | None,
    limit: int | None,
    progress: Progress | None,
) -> Plan[int]:
    """Make dead items live again, here or in another queue; how many."""
    if to is not None:
        writable_queue(to)

    def some(filter: ItemFilter, count: int) -> Op[int]:
        return store.queues.redrive(queue, filter, to, count)

    return (yield from _in_steps(store, queue, filter, some, rate, limit, progress))


def purge_dead(
    store: Session,
    queue: str,
    filter: ItemFilter,
    *,
    limit: int | None,
    progress: Progress | None,
) -> Plan[int]:
    """Remove dead items; how many."""

    def some(filter: ItemFilter, count: int) -> Op[int]:
        return store.queues.purge_dead(queue, filter, count)

    return (yield from _in_steps(store, queue, filter, some, None, limit, progress))


def _in_steps(
    store: Session,
    queue: str,
    filter: ItemFilter,
    some: Callable[[ItemFilter, int], Op[int]],
    rate: float | None,
    limit: int | None,
    progress: Progress | None,
) -> Plan[int]:
    step = _step(rate)
    most = None if limit is None else positive("limit", limit)
    # What runs again may die again while we are at it: that is for another time.
    now = (yield from probe(store, queue)).now
    filter = replace(filter, before=min(filter.before or now + 1, now + 1))
    total = (yield store.queues.count_dead(queue, filter)) if progress else 0
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
    if not is_number or not 0 < rate <= FASTEST:
        raise InvalidOption(
            f"rate is {shown(rate)}: use items per second above zero.", option="rate"
        )
    return max(1, min(STEP, int(rate / STEPS_PER_SECOND)))
