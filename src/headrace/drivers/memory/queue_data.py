"""What a queue holds in memory, in the orders in which it is asked for."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from headrace.contract.items import COUNTED, Counts, EndedItem, LoggedError, Sample
from headrace.model.items import ItemState, State, rank_of
from headrace.model.queues import Discipline, QueueInfo, QueueSettings

Entry = tuple[int, ...]


@dataclass
class QueueData:
    """A queue and all that belongs to it.

    Without ``info`` there is no queue: there was one, and its data was kept, with the
    ``version`` that its settings had. ``discipline`` is the one by which ``line`` is sorted now.
    """

    info: QueueInfo | None = None
    version: int = 0
    held_until: int | None = None
    discipline: Discipline = "fifo"
    items: dict[int, ItemState] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    line: list[Entry] = field(default_factory=list)
    planned: list[Entry] = field(default_factory=list)
    leases: list[Entry] = field(default_factory=list)
    completed: dict[int, EndedItem] = field(default_factory=dict)
    dead: dict[int, EndedItem] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    errors: dict[int, LoggedError] = field(default_factory=dict)
    samples: dict[int, Sample] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    @property
    def settings(self) -> QueueSettings:
        assert self.info is not None
        return self.info.settings

    def is_held(self, now: int) -> bool:
        """Whether an update keeps its items back."""
        return self.held_until is not None and now < self.held_until

    def swap(self, before: ItemState | None, after: ItemState | None) -> None:
        """Put one state of an item (None: not there) in place of another."""
        if before is not None:
            del self.items[before.id]
            if before.subject is not None:
                del self.subjects[before.subject]
            order, entry = self._entry(before)
            del order[bisect_left(order, entry)]
        if after is not None:
            self.items[after.id] = after
            if after.subject is not None:
                self.subjects[after.subject] = after.id
            order, entry = self._entry(after)
            insort(order, entry)

    def _entry(self, item: ItemState) -> tuple[list[Entry], Entry]:
        """The order an item stands in, and as what; the id comes last."""
        if item.state == State.PENDING:
            assert item.position is not None
            return self.line, (-rank_of(self.discipline, item.priority), item.position, item.id)
        if item.state == State.PLANNED:
            return self.planned, (item.next_execution, item.id)
        assert item.lease_until is not None
        return self.leases, (item.lease_until, item.id)

    def first(self, order: list[Entry], count: int) -> list[ItemState]:
        """The first items in one of the orders."""
        return [self.items[entry[-1]] for entry in order[:count]]

    def until(self, order: list[Entry], time: int) -> list[ItemState]:
        """The items that a time has come for: the planned that are due, the leases that are over."""
        return self.first(order, bisect_left(order, (time + 1,)))

    def ended(self) -> list[EndedItem]:
        """All that is kept of ended items."""
        return [*self.completed.values(), *self.dead.values()]

    def counts(self) -> Counts:
        """Its numbers; nothing is counted over its life unless it keeps running numbers."""
        numbers: dict[str, Any] = {
            "planned": len(self.planned),
            "pending": len(self.line),
            "active": len(self.leases),
            "completed": len(self.completed),
            "dead": len(self.dead),
        }
        if self.settings.metrics:
            numbers |= {name: n for name, n in self.happened.items() if name in COUNTED}
        return Counts(**numbers)
