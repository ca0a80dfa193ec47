"""Maintenance: which chores there are and in what order, for both clients."""

from __future__ import annotations

import uuid
from typing import Any, Final

from headrace.client.plans import Plan
from headrace.contract.op import Op
from headrace.contract.store import Store
from headrace.model.checks import milliseconds
from headrace.model.collecting import Collected, MaintenanceReport
from headrace.model.names import check_topic
from headrace.model.record import TopicInfo

TASK: Final = "maintenance"
INTERVAL_MS: Final = 30_000
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
    return MaintenanceReport(collected=tuple(collected), expired_procs=tuple(expired))
