"""Queues in SQL: load under a lock, let ``model.items`` decide, store the answer."""

from headrace.drivers.relational.queues.coordination import Coordination
from headrace.drivers.relational.queues.counters import Counters
from headrace.drivers.relational.queues.dead_items import DeadItems
from headrace.drivers.relational.queues.numbers import Numbers
from headrace.drivers.relational.queues.pushes import PushKeys


class Queues(Numbers, DeadItems, Coordination, Counters):
    """All operations on queues over a dialect's statements."""


__all__ = ["PushKeys", "Queues"]
