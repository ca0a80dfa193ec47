"""Dead letters in memory."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING

from headrace.contract.items import DeadGroup, FinishedItem, ItemFilter
from headrace.contract.op import Op
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model.queues import dead_letter

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryDeadLetters:
    """Dead items can be read, redriven and removed."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def dead_items(
        self, queue: str, filter: ItemFilter, after: int, limit: int
    ) -> Op[list[FinishedItem]]:
        def act() -> list[FinishedItem]:
            found = self._matching(self._context.storage.queue(queue)[0], filter)
            return [dead for dead in found if dead.item.id > after][:limit]

        return immediate("queues.dead_items", act, writes=False)

    def dead_groups(self, queue: str) -> Op[list[DeadGroup]]:
        def act() -> list[DeadGroup]:
            everything = self._matching(self._context.storage.queue(queue)[0], ItemFilter())
            alike = groupby(sorted(everything, key=_fingerprint), key=_fingerprint)
            groups = [_group(fingerprint, list(members)) for fingerprint, members in alike]
            return sorted(groups, key=lambda group: (-group.count, group.fingerprint))

        return immediate("queues.dead_groups", act, writes=False)

    def count_dead(self, queue: str, filter: ItemFilter) -> Op[int]:
        return immediate(
            "queues.count_dead",
            lambda: len(self._matching(self._context.storage.queue(queue)[0], filter)),
            writes=False,
        )

    def redrive(self, queue: str, filter: ItemFilter, to: str | None, limit: int) -> Op[int]:
        def act() -> int:
            data, _ = self._context.storage.queue(queue)
            target = data if to is None else self._context.storage.queue_made(to)
            # One by one: of two dead items with one subject, the first gets it.
            movable = (
                dead
                for dead in self._matching(data, filter)
                if _subject_in(target, data, dead) not in target.subjects
            )
            done = 0
            for dead in islice(movable, limit):
                self._redrive_one(data, target, dead)
                done += 1
            return done

        return immediate("queues.redrive", act)

    def _redrive_one(self, queue: QueueData, target: QueueData, dead: FinishedItem) -> None:
        if target is queue:
            self._context.item_admin.revive(queue, dead.item)
        else:
            self._context.storage.set_entry(queue.dead, dead.item.id, None)
            self._context.storage.add(
                target, dead_letter.redriven(dead.item, target.settings), self.now()
            )

    def purge_dead(self, queue: str, filter: ItemFilter, limit: int) -> Op[int]:
        def act() -> int:
            data, _ = self._context.storage.queue(queue)
            gone = self._matching(data, filter)[:limit]
            for dead in gone:
                self._context.storage.set_entry(data.dead, dead.item.id, None)
            return len(gone)

        return immediate("queues.purge_dead", act)

    def _matching(self, queue: QueueData, filter: ItemFilter) -> list[FinishedItem]:
        return [queue.dead[id] for id in sorted(queue.dead) if _matches(filter, queue.dead[id])]


def _subject_in(target: QueueData, queue: QueueData, dead: FinishedItem) -> str | None:
    """The subject of a dead item when it is live again."""
    if target is queue:
        return dead.item.subject
    return dead_letter.subject_in(dead.item, target.settings)


def _matches(filter: ItemFilter, dead: FinishedItem) -> bool:
    return (
        (filter.ids is None or dead.item.id in filter.ids)
        and (filter.fingerprint is None or dead.fingerprint == filter.fingerprint)
        and (filter.subject is None or dead.item.subject == filter.subject)
        and (filter.cause is None or dead.cause == filter.cause)
        and (filter.before is None or dead.ended_at < filter.before)
        and (filter.after is None or dead.ended_at > filter.after)
    )


def _fingerprint(dead: FinishedItem) -> str:
    return dead.fingerprint or ""


def _group(fingerprint: str, members: list[FinishedItem]) -> DeadGroup:
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
