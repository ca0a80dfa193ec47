"""Maintenance: which chores there are and in what order, for both clients."""

from __future__ import annotations

import uuid
from typing import Any, Final

from headrace.client.looks import all_queues
from headrace.client.plans import Plan
from headrace.contract.locks import LOCK_KEPT_MS
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.errors import UnknownQueue
from headrace.model.checks import milliseconds
from headrace.model.collecting import Collected, MaintenanceReport, Tended
from headrace.model.names import check_topic
from headrace.model.record import TopicInfo

TASK: Final = "maintenance"
INTERVAL_MS: Final = 30_000
SILENT_MS: Final = 24 * 3600 * 1000
STAGE_MS: Final = 24 * 3600 * 1000
STEP: Final = 1000
MOST_STEPS: Final = 100
DEFAULT_MIN_AGE: Final = 30.0


def keep_op(store: Store, topic: str, min_age: Any, max_age: Any) -> Op[TopicInfo]:
    """The operation that says how long a topic keeps its records."""
    return store.set_ages(
        check_topic(topic), milliseconds("min_age", min_age), milliseconds("max_age", max_age)
    )


def maintenance(store: Store, *, force: bool) -> Plan[MaintenanceReport]:
    """The operations of one round; each is a transaction of its own, so none is long."""
    holder = str(uuid.uuid4())
    if not (yield store.take_lease(TASK, holder, INTERVAL_MS, force)):
        return MaintenanceReport(is_skipped=True)
    expired = yield store.expire()
    collected: list[Collected] = []
    for topic in (yield store.collectable()):
        done = yield store.collect(topic)
        if done.first_seq > done.from_seq:
            collected.append(done)
    tended, forgotten = yield from _tend_queues(store)
    dropped = yield store.collect_stages(STAGE_MS)
    forgotten_locks = yield from _forget_locks(store)
    ended_counters = yield store.end_counters(STEP)
    return MaintenanceReport(
        collected=tuple(collected),
        expired_procs=tuple(expired),
        tended=tuple(tended),
        forgotten_clients=tuple(forgotten),
        dropped_stages=dropped,
        forgotten_locks=forgotten_locks,
        ended_counters=ended_counters,
    )


def _forget_locks(store: Store) -> Plan[int]:
    total = 0
    for _ in range(MOST_STEPS):
        forgotten: int = yield store.forget_locks(LOCK_KEPT_MS, STEP)
        total += forgotten
        if forgotten < STEP:
            break
    return total


def _tend_queues(store: Store) -> Plan[tuple[list[Tended], list[str]]]:
    tended: list[Tended] = []
    for name in (yield from all_queues(store)):
        removed = yield from _tend(store, name)
        if removed:
            tended.append(Tended(name, removed))
    forgotten: list[str] = yield store.forget_clients(SILENT_MS)
    return tended, forgotten


def _tend(store: Store, queue: str) -> Plan[int]:
    total = 0
    try:
        for _ in range(MOST_STEPS):
            removed: int = yield store.tend_queue(queue, STEP)
            total += removed
            if removed < STEP:
                break
    except UnknownQueue:
        pass  # it was dropped meanwhile
    return total
