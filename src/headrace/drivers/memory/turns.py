"""Which items of a queue in memory are next, with channels and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.contract.items import Take
from headrace.drivers.memory.queue_data import QueueData
from headrace.model.channels import Sharing, selects
from headrace.model.items import ItemState
from headrace.model.limiting import NO_LIMITS, Limits, Room


class Chosen(NamedTuple):
    """What a claim would get, and the channels whose turn that was."""

    items: list[ItemState]
    served: list[str]


class Admission:
    """What limits let through, for one claim; everything, if there are none."""

    def __init__(
        self, queue: str = "", limits: Limits = NO_LIMITS, room: Room | None = None
    ) -> None:
        self._queue = queue
        self._limits = limits
        self.room = room or Room()

    def fits(self, channel: str | None) -> int:
        """How many more items of a channel."""
        return self.room.fits(self._limits.bounds(self._queue, channel, "running"))

    def take(self, channel: str | None, count: int) -> None:
        """So many go out."""
        self.room.take(self._limits.bounds(self._queue, channel, "running"), count)


def next_items(queue: QueueData, take: Take, now: int, admission: Admission) -> Chosen:
    """What a claim on a queue would get now; nothing is changed."""
    if take.select is not None and take.order == "fair":
        return _in_turn(queue, take, now, admission)
    found: list[ItemState] = []
    for item in _in_line(queue, take.select, now, admission):
        admission.take(item.key_values, 1)
        found.append(item)
        if len(found) == take.count:
            break
    return Chosen(found, [])


def _in_line(
    queue: QueueData, select: str | None, now: int, admission: Admission
) -> Iterator[ItemState]:
    used: set[str] = set()
    for entry in queue.line:
        item = queue.items[entry[-1]]
        channel = item.key_values
        if select is not None and (channel is None or not selects(select, channel)):
            continue
        if queue.is_waiting(channel, now):
            continue
        if channel is not None and queue.is_serial:
            if channel in used or queue.is_blocked(channel):
                continue
            used.add(channel)
        if admission.fits(channel):
            yield item


def _in_turn(queue: QueueData, take: Take, now: int, admission: Admission) -> Chosen:
    channels = [
        channel
        for channel in sorted(queue.turns, key=queue.turns.__getitem__)
        if selects(take.select or "", channel)
        and not queue.is_waiting(channel, now)
        and not (queue.is_serial and queue.is_blocked(channel))
    ]
    sharing = Sharing(take.count, take.quantum, is_strict=queue.is_serial)
    found: list[ItemState] = []
    taken: dict[str, int] = {}

    def ask(some: list[str], each: int) -> None:
        given: dict[str, int] = {}
        left = sharing.left
        for channel in some:
            start = taken.get(channel, 0)
            wanted = min(each, left)
            room = admission.fits(channel) if left else 0
            entries = queue.lines[channel][start : start + min(wanted, room)]
            if entries:
                admission.take(channel, len(entries))
                given[channel] = len(entries)
                taken[channel] = start + len(entries)
                left -= len(entries)
                found.extend(queue.items[entry[-1]] for entry in entries)
                if len(entries) == room < min(wanted, len(queue.lines[channel]) - start):
                    # What leaves no room for the rest is noted.
                    admission.fits(channel)
        sharing.note(some, each, given)

    ask(channels, sharing.quantum)
    while sharing.left and sharing.hungry:
        ask(sharing.hungry, sharing.share)
    return Chosen(found, sharing.served)


def was_gone(queue: QueueData, item: int, token: str) -> bool:
    """Whether an item went with its channel while it was out by this token."""
    return item in queue.gone and queue.gone[item][1] == token
