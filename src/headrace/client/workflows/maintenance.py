"""Maintenance: which chores there are and in what order, for both clients."""

from __future__ import annotations

import uuid
from typing import Any, Final

from headrace.client.workflows import Plan
from headrace.client.workflows.inspection import all_queues
from headrace.contract.locks import LOCK_KEPT_MS
from headrace.contract.missing_part import has_part
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.errors import NotAllowed, UnknownQueue
from headrace.model.maintenance import MaintenanceReport, Tended
from headrace.model.names import writable_topic
from headrace.model.times import duration_ms, optional_ms
from headrace.model.topics.records import TopicInfo
from headrace.model.topics.retention import Collected, Retention

TASK: Final = "maintenance"
INTERVAL: Final = 30.0
SILENT_MS: Final = 24 * 3600 * 1000
STAGE_MS: Final = 24 * 3600 * 1000
STEP: Final = 1000
MAX_STEPS: Final = 100
DEFAULT_MIN_AGE: Final = 30.0


def keep_op(store: Store, topic: str, min_age: Any, max_age: Any) -> Op[TopicInfo]:
    """The operation that says how long a topic keeps its records."""
    return store.admin.set_retention(
        writable_topic(topic), optional_ms("min_age", min_age), optional_ms("max_age", max_age)
    )


def keep_all_op(store: Store, min_age: Any, max_age: Any, interval: Any) -> Op[Retention]:
    """The operation that says how long topics keep their records."""
    between = duration_ms("interval", interval, least=1)
    return store.admin.set_default_retention(
        optional_ms("min_age", min_age), optional_ms("max_age", max_age), between
    )


def maintenance(store: Store, *, force: bool) -> Plan[MaintenanceReport]:
    """The operations of one round; each is a transaction of its own, so none is long."""
    holder = str(uuid.uuid4())
    interval = INTERVAL
    try:
        retention: Retention = yield store.admin.default_retention()
        interval = retention.interval
        is_due = yield store.admin.acquire_lease(TASK, holder, round(interval * 1000), force)
    except NotAllowed:
        # A client of a node, which maintains its store itself.
        if force:
            raise
        is_due = False
    if not is_due:
        return MaintenanceReport(is_skipped=True, interval=interval)
    expired = yield store.admin.expire()
    collected: list[Collected] = []
    for topic in (yield store.admin.prunable()):
        done = yield store.admin.prune(topic)
        if done.first_seq > done.from_seq:
            collected.append(done)
    tended, forgotten = yield from _tend_queues(store)
    dropped = (yield store.sinks.prune_stages(STAGE_MS)) if has_part(store, "sinks") else 0
    forgotten_locks = yield from _forget_locks(store)
    ended_counters = (yield store.counters.end(STEP)) if has_part(store, "counters") else 0
    return MaintenanceReport(
        collected=tuple(collected),
        expired_procs=tuple(expired),
        tended=tuple(tended),
        forgotten_clients=tuple(forgotten),
        dropped_stages=dropped,
        forgotten_locks=forgotten_locks,
        ended_counters=ended_counters,
        interval=interval,
    )


def _forget_locks(store: Store) -> Plan[int]:
    total = 0
    for _ in range(MAX_STEPS if has_part(store, "locks") else 0):
        forgotten: int = yield store.locks.forget(LOCK_KEPT_MS, STEP)
        total += forgotten
        if forgotten < STEP:
            break
    return total


def _tend_queues(store: Store) -> Plan[tuple[list[Tended], list[str]]]:
    tended: list[Tended] = []
    for name in (yield from all_queues(store)):
        done = yield from _tend(store, name)
        if done != Tended(name):
            tended.append(done)
    forgotten: list[str] = yield store.queues.forget_clients(SILENT_MS)
    return tended, forgotten


def _tend(store: Store, queue: str) -> Plan[Tended]:
    total = Tended(queue)
    try:
        for _ in range(MAX_STEPS):
            done: Tended = yield store.queues.maintain(queue, STEP)
            total += done
            if max(done.removed, done.expired) < STEP:
                break
    except UnknownQueue:
        pass  # it was dropped meanwhile
    return total
