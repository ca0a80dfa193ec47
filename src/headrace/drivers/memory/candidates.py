"""Which items of a queue in memory are next, with channels and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.contract.items import ClaimRequest
from headrace.drivers.memory.queue_data import QueueData
from headrace.model.limits.limit_set import NO_LIMITS, FreeSlots, LimitSet
from headrace.model.queues.channels import Sharing, selects
from headrace.model.queues.items import ItemState


class Chosen(NamedTuple):
    """What a claim would get, and the channels whose turn it was."""

    items: list[ItemState]
    served: list[str]


class MemoryAdmission:
    """What limits admit, for one claim; everything, if there are none."""

    def __init__(
        self, queue: str = "", limits: LimitSet = NO_LIMITS, slots: FreeSlots | None = None
    ) -> None:
        self._queue = queue
        self._limits = limits
        self.slots = slots or FreeSlots()

    def fits(self, channel: str | None) -> int:
        """How many more items of a channel fit."""
        return self.slots.available(self._limits.bounds(self._queue, channel, "running"))

    def acquire(self, channel: str | None, count: int) -> None:
        """Count items of a channel as claimed."""
        self.slots.acquire(self._limits.bounds(self._queue, channel, "running"), count)


def next_items(
    queue: QueueData, request: ClaimRequest, now: int, admission: MemoryAdmission
) -> Chosen:
    """What a claim on a queue would get now; changes nothing."""
    if request.select is not None and request.order == "fair":
        return _in_turn(queue, request, now, admission)
    found: list[ItemState] = []
    for item in _in_line(queue, request.select, now, admission):
        admission.acquire(item.key_values, 1)
        found.append(item)
        if len(found) == request.count:
            break
    return Chosen(found, [])


def _in_line(
    queue: QueueData, select: str | None, now: int, admission: MemoryAdmission
) -> Iterator[ItemState]:
    used: set[str] = set()
    for entry in queue.line:
        item = queue.items[entry[-1]]
        channel = item.key_values
        if select is not None and (channel is None or not selects(select, channel)):
            continue
        if queue.is_delayed(channel, now):
            continue
        if channel is not None and queue.is_serial:
            if channel in used or queue.is_blocked(channel):
                continue
            used.add(channel)
        if admission.fits(channel):
            yield item


def _in_turn(
    queue: QueueData, request: ClaimRequest, now: int, admission: MemoryAdmission
) -> Chosen:
    channels = [
        channel
        for channel in sorted(queue.turns, key=queue.turns.__getitem__)
        if selects(request.select or "", channel)
        and not queue.is_delayed(channel, now)
        and not (queue.is_serial and queue.is_blocked(channel))
    ]
    sharing = Sharing(request.count, request.quantum, is_strict=queue.is_serial)
    found: list[ItemState] = []
    taken: dict[str, int] = {}

    def ask(some: list[str], each: int) -> None:
        given: dict[str, int] = {}
        left = sharing.left
        for channel in some:
            start = taken.get(channel, 0)
            wanted = min(each, left)
            free = admission.fits(channel) if left else 0
            entries = queue.lines[channel][start : start + min(wanted, free)]
            if entries:
                admission.acquire(channel, len(entries))
                given[channel] = len(entries)
                taken[channel] = start + len(entries)
                left -= len(entries)
                found.extend(queue.items[entry[-1]] for entry in entries)
                if len(entries) == free < min(wanted, len(queue.lines[channel]) - start):
                    # Note a channel that has too few free slots for the rest.
                    admission.fits(channel)
        sharing.note(some, each, given)

    ask(channels, sharing.quantum)
    while sharing.left and sharing.hungry:
        ask(sharing.hungry, sharing.share)
    return Chosen(found, sharing.served)


def was_gone(queue: QueueData, item: int, token: str) -> bool:
    """Whether an item was deleted with its channel while this token had claimed it."""
    return item in queue.gone and queue.gone[item][1] == token
