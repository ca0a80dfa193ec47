"""Dead letters in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contract.items import DeadGroup, FinishedItem, ItemFilter
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, ended_of
from headrace.model.queues import dead_letter

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

PAGE = 500


class QueueDeadLetters:
    """Lists, redrives and removes dead items."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def dead_items(
        self, queue: str, filter: ItemFilter, after: int, limit: int
    ) -> Op[list[FinishedItem]]:
        def steps() -> Steps[list[FinishedItem]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.read_dead(
                queue=row.id, after=after, limit=limit, **_wanted(filter)
            )
            return [ended_of(dead, queue) for dead in found]

        return Op("queues.dead_items", steps, writes=False)

    def dead_groups(self, queue: str) -> Op[list[DeadGroup]]:
        def steps() -> Steps[list[DeadGroup]]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.dead_groups(queue=row.id)
            return [
                DeadGroup(
                    fingerprint=group["fingerprint"],
                    title=group["title"],
                    cause=group["cause"],
                    count=group["count"],
                    first_at=group["first_at"],
                    last_at=group["last_at"],
                    example=group["example"],
                )
                for group in found
            ]

        return Op("queues.dead_groups", steps, writes=False)

    def count_dead(self, queue: str, filter: ItemFilter) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.count_dead(queue=row.id, after=0, **_wanted(filter))
            count: int = found[0]["count"]
            return count

        return Op("queues.count_dead", steps, writes=False)

    def redrive(self, queue: str, filter: ItemFilter, to: str | None, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self._context.storage.open_queue(queue)
            target = row if to is None else (yield from self._context.storage.made_queue(to))
            done = after = 0
            while done < limit:
                found = yield self.sql.dead_items(
                    queue=row.id, after=after, limit=min(PAGE, limit - done), **_wanted(filter)
                )
                if not found:
                    break
                page = [ended_of(dead, queue) for dead in found]
                done += yield from self._redrive_some(row, target, page)
                after = page[-1].item.id
            return done

        return Op("queues.redrive", steps)

    def _redrive_some(
        self, queue: QueueRow, target: QueueRow, page: list[FinishedItem]
    ) -> Steps[int]:
        is_own = target.id == queue.id
        named = [
            (
                dead,
                dead.item.subject if is_own else dead_letter.subject_in(dead.item, target.settings),
            )
            for dead in page
        ]
        subjects = sorted({subject for _, subject in named if subject is not None})
        used = set()
        if subjects:
            found = yield self.sql.find_subjects(queue=target.id, subjects=subjects)
            used = {row["subject"] for row in found}
        done = 0
        for dead, subject in named:
            # One by one: of two dead items with one subject, only the first gets it.
            if subject is not None and subject in used:
                continue
            if subject is not None:
                used.add(subject)
            if (yield from self._redrive_one(queue, target, dead)):
                done += 1
        return done

    def _redrive_one(self, queue: QueueRow, target: QueueRow, dead: FinishedItem) -> Steps[bool]:
        """Whether it is live again; another item may have got its subject meanwhile."""
        unit = self._context.storage.unit_of_work()
        if target.id == queue.id:
            return (
                yield from self._context.item_admin.revive(unit, queue, dead.item, dead)
            ) is not None
        unit.add(target, dead_letter.redriven(dead.item, target.settings), queue.now)
        if not (yield from unit.write()):
            return False
        unit = self._context.storage.unit_of_work()
        unit.unkeep(queue, dead)
        yield from unit.write()
        return True

    def purge_dead(self, queue: str, filter: ItemFilter, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self._context.storage.open_queue(queue)
            found = yield self.sql.dead_items(queue=row.id, after=0, limit=limit, **_wanted(filter))
            unit = self._context.storage.unit_of_work()
            for dead in found:
                unit.unkeep(row, ended_of(dead, queue))
            yield from unit.write()
            return len(found)

        return Op("queues.purge_dead", steps)


def _wanted(filter: ItemFilter) -> dict[str, Any]:
    return {
        "ids": None if filter.ids is None else list(filter.ids),
        "fingerprint": filter.fingerprint,
        "subject": filter.subject,
        "cause": filter.cause,
        "before_time": filter.before,
        "after_time": filter.after,
    }
