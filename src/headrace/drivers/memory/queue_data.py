"""The data of a queue in memory, in the orders in which operations read it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from headrace.contract.items import COUNTED, Counts, FinishedItem, LoggedError, MetricSample
from headrace.model.queues.channels import blocks
from headrace.model.queues.items import ItemState, State, rank_of
from headrace.model.queues.settings import Discipline, QueueInfo, QueueSettings

Entry = tuple[int, ...]


@dataclass
class QueueData:
    """A queue and all that belongs to it.

    Without ``info`` there is no queue: it was dropped and its data kept, with the last ``version``
    of its settings, and with channels if it had some.

    ``discipline``  the one by which ``line`` is sorted now.
    ``channels``    the ids of each channel's items.
    ``lines``       each channel's part of the line.
    ``turns``       the last turn of each channel.
    ``delays``      until when each channel is delayed.
    ``gone``        the claims of items that were deleted with a channel, and when that was.
    ``selections``  the registered queries, and since when.
    """

    info: QueueInfo | None = None
    version: int = 0
    has_channels: bool = False
    frozen_until: int | None = None
    discipline: Discipline = "fifo"
    items: dict[int, ItemState] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    line: list[Entry] = field(default_factory=list)
    channels: dict[str, set[int]] = field(default_factory=dict)
    lines: dict[str, list[Entry]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    delays: dict[str, int] = field(default_factory=dict)
    gone: dict[int, tuple[int, str | None]] = field(default_factory=dict)
    selections: dict[str, int] = field(default_factory=dict)
    planned: list[Entry] = field(default_factory=list)
    leases: list[Entry] = field(default_factory=list)
    completed: dict[int, FinishedItem] = field(default_factory=dict)
    dead: dict[int, FinishedItem] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    errors: dict[int, LoggedError] = field(default_factory=dict)
    samples: dict[int, MetricSample] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    @property
    def settings(self) -> QueueSettings:
        assert self.info is not None
        return self.info.settings

    @property
    def is_serial(self) -> bool:
        return self.info is not None and self.info.settings.serial

    def is_frozen(self, now: int) -> bool:
        """Whether it is frozen for an update of its settings."""
        return self.frozen_until is not None and now < self.frozen_until

    def is_delayed(self, channel: str | None, now: int) -> bool:
        """Whether a channel is delayed."""
        return channel is not None and self.delays.get(channel, now) > now

    def swap(self, before: ItemState | None, after: ItemState | None) -> None:
        """Replace one state of an item by another; None means absent."""
        if before is not None:
            del self.items[before.id]
            if before.subject is not None:
                del self.subjects[before.subject]
            for order, entry in self._entries(before):
                del order[bisect_left(order, entry)]
            self._leave_channel(before)
        if after is not None:
            self.items[after.id] = after
            if after.subject is not None:
                self.subjects[after.subject] = after.id
            if after.key_values is not None:
                self.channels.setdefault(after.key_values, set()).add(after.id)
            for order, entry in self._entries(after):
                insort(order, entry)

    def restore(self, after: ItemState | None, before: ItemState | None) -> None:
        """Undo a swap, at any point of it."""
        if after is not None:
            self.items.pop(after.id, None)
            if after.subject is not None and self.subjects.get(after.subject) == after.id:
                del self.subjects[after.subject]
            for order, entry in self._entries(after):
                index = bisect_left(order, entry)
                if order[index : index + 1] == [entry]:
                    del order[index]
            if after.key_values is not None:
                self.channels.setdefault(after.key_values, set())
                self._leave_channel(after)
        if before is not None:
            self.items[before.id] = before
            if before.subject is not None:
                self.subjects[before.subject] = before.id
            if before.key_values is not None:
                self.channels.setdefault(before.key_values, set()).add(before.id)
            for order, entry in self._entries(before):
                index = bisect_left(order, entry)
                if order[index : index + 1] != [entry]:
                    order.insert(index, entry)

    def _leave_channel(self, item: ItemState) -> None:
        if item.key_values is None:
            return
        self.channels[item.key_values].discard(item.id)
        if not self.channels[item.key_values]:
            del self.channels[item.key_values]
        if not self.lines.get(item.key_values, True):
            del self.lines[item.key_values]

    def _entries(self, item: ItemState) -> list[tuple[list[Entry], Entry]]:
        """The orders an item is in, with its entry in each; the id comes last."""
        if item.state == State.PENDING:
            assert item.position is not None
            entry = (-rank_of(self.discipline, item.priority), item.position, item.id)
            if item.key_values is None:
                return [(self.line, entry)]
            return [(self.line, entry), (self.lines.setdefault(item.key_values, []), entry)]
        if item.state == State.PLANNED:
            return [(self.planned, (item.next_execution, item.id))]
        assert item.lease_until is not None
        return [(self.leases, (item.lease_until, item.id))]

    def is_blocked(self, channel: str) -> bool:
        """Whether a strict channel waits: an item is in flight, or will return to its place."""
        return any(blocks(self.items[id]) for id in self.channels.get(channel, ()))

    def first(self, order: list[Entry], count: int) -> list[ItemState]:
        """The first items in one of the orders."""
        return [self.items[entry[-1]] for entry in order[:count]]

    def until(self, order: list[Entry], time: int) -> list[ItemState]:
        """The items whose time has come: planned items that are due, leases that have expired."""
        return self.first(order, bisect_left(order, (time + 1,)))

    def ended(self) -> list[FinishedItem]:
        """All finished items that are kept."""
        return [*self.completed.values(), *self.dead.values()]

    def counts(self) -> Counts:
        """Its counts; totals over its life are zero unless it keeps running numbers."""
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
