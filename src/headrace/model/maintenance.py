"""Reports of maintenance."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.model.topics.retention import Collected


class Tended(msgspec.Struct, frozen=True):
    """What maintenance did to a queue.

    ``removed`` is how many old rows it deleted: finished items, errors, metrics, subjects.
    ``expired`` is how many leases expired, ``died`` how many of those items are now dead.
    """

    queue: str
    removed: int = 0
    expired: int = 0
    died: int = 0

    def __add__(self, other: Tended) -> Tended:
        return Tended(
            self.queue,
            self.removed + other.removed,
            self.expired + other.expired,
            self.died + other.died,
        )


class ExpiredLeases(NamedTuple):
    """Items whose lease expired, and how many of them are now dead."""

    items: list[int]
    died: int


class MaintenanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What maintenance did. ``is_skipped`` if another client is doing it, or has just done it.

    ``tended`` are queues with removed rows or expired leases, ``expired_leases`` and
    ``dead_items`` their sums. ``forgotten_clients`` sent no heartbeat for a day,
    ``dropped_stages`` counts stages that were not published within a day, ``forgotten_locks``
    locks without holder and waiter for an hour, ``ended_counters`` holders of slots whose lease
    expired. The next round is due in ``interval`` seconds.
    """

    is_skipped: bool = False
    collected: tuple[Collected, ...] = ()
    expired_procs: tuple[str, ...] = ()
    tended: tuple[Tended, ...] = ()
    forgotten_clients: tuple[str, ...] = ()
    dropped_stages: int = 0
    forgotten_locks: int = 0
    ended_counters: int = 0
    interval: float = 30.0

    @property
    def expired_leases(self) -> int:
        """How many leases of items expired."""
        return sum(queue.expired for queue in self.tended)

    @property
    def dead_items(self) -> int:
        """How many items are dead because of it."""
        return sum(queue.died for queue in self.tended)
