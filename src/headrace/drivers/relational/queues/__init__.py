"""Queues in SQL: load under a lock, let ``model.items`` decide, store the answer."""

from headrace.drivers.relational.queues.coordination import Coordination
from headrace.drivers.relational.queues.dead_items import DeadItems
from headrace.drivers.relational.queues.limit_looks import LimitLooks
from headrace.drivers.relational.queues.numbers import Numbers
from headrace.drivers.relational.queues.pushes import PushKeys


class Queues(Numbers, DeadItems, Coordination, LimitLooks):
    """All operations on queues over a dialect's statements."""


__all__ = ["PushKeys", "Queues"]
