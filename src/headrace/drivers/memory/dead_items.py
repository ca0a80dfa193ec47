"""Dead letters in memory."""

from __future__ import annotations

from itertools import groupby, islice

from headrace.contract.items import DeadGroup, EndedItem, Filter
from headrace.contract.op import Op
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.single_items import MemorySingleItems
from headrace.drivers.memory.topics import immediate
from headrace.model import letters


class MemoryDeadItems(MemorySingleItems):
    """What died can be looked at, run again and removed."""

    def dead_items(self, queue: str, filter: Filter, after: int, limit: int) -> Op[list[EndedItem]]:
        def act() -> list[EndedItem]:
            found = self._matching(self.queue(queue)[0], filter)
            return [dead for dead in found if dead.item.id > after][:limit]

        return immediate("dead_items", act, writes=False)

    def dead_groups(self, queue: str) -> Op[list[DeadGroup]]:
        def act() -> list[DeadGroup]:
            everything = self._matching(self.queue(queue)[0], Filter())
            alike = groupby(sorted(everything, key=_fingerprint), key=_fingerprint)
            groups = [_group(fingerprint, list(members)) for fingerprint, members in alike]
            return sorted(groups, key=lambda group: (-group.count, group.fingerprint))

        return immediate("dead_groups", act, writes=False)

    def count_dead(self, queue: str, filter: Filter) -> Op[int]:
        return immediate(
            "count_dead", lambda: len(self._matching(self.queue(queue)[0], filter)), writes=False
        )

    def redrive(self, queue: str, filter: Filter, to: str | None, limit: int) -> Op[int]:
        def act() -> int:
            data, _ = self.queue(queue)
            target = data if to is None else self.queue_made(to)
            # One by one: the first of two dead items with one subject takes it from the other.
            movable = (
                dead
                for dead in self._matching(data, filter)
                if dead.item.subject not in target.subjects
            )
            done = 0
            for dead in islice(movable, limit):
                self._redrive_one(data, target, dead)
                done += 1
            return done

        return immediate("redrive", act)

    def _redrive_one(self, queue: QueueData, target: QueueData, dead: EndedItem) -> None:
        if target is queue:
            self.revive(queue, dead)
        else:
            self.set_entry(queue.dead, dead.item.id, None)
            self.add(target, letters.again(dead.item), self.now())

    def purge_dead(self, queue: str, filter: Filter, limit: int) -> Op[int]:
        def act() -> int:
            data, _ = self.queue(queue)
            gone = self._matching(data, filter)[:limit]
            for dead in gone:
                self.set_entry(data.dead, dead.item.id, None)
            return len(gone)

        return immediate("purge_dead", act)

    def _matching(self, queue: QueueData, filter: Filter) -> list[EndedItem]:
        return [queue.dead[id] for id in sorted(queue.dead) if _matches(filter, queue.dead[id])]


def _matches(filter: Filter, dead: EndedItem) -> bool:
    return (
        (filter.ids is None or dead.item.id in filter.ids)
        and (filter.fingerprint is None or dead.fingerprint == filter.fingerprint)
        and (filter.subject is None or dead.item.subject == filter.subject)
        and (filter.cause is None or dead.cause == filter.cause)
        and (filter.before is None or dead.ended_at < filter.before)
        and (filter.after is None or dead.ended_at > filter.after)
    )


def _fingerprint(dead: EndedItem) -> str:
    return dead.fingerprint or ""


def _group(fingerprint: str, members: list[EndedItem]) -> DeadGroup:
    example = max(members, key=lambda dead: dead.item.id)
    return DeadGroup(
        fingerprint=fingerprint,
        title=example.title or "",
        cause=example.cause,
        count=len(members),
        first_at=min(dead.ended_at for dead in members),
        last_at=max(dead.ended_at for dead in members),
        example=example.item.id,
    )
