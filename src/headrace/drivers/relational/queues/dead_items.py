"""Dead letters in SQL."""

from __future__ import annotations

from typing import Any

from headrace.contract.items import DeadGroup, EndedItem, Filter
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import QueueRow, ended_of
from headrace.drivers.relational.queues.single_items import SingleItems
from headrace.model import letters

PAGE = 500


class DeadItems(SingleItems):
    """What died can be looked at, run again and removed."""

    def dead_items(self, queue: str, filter: Filter, after: int, limit: int) -> Op[list[EndedItem]]:
        def steps() -> Steps[list[EndedItem]]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.look_at_dead(
                queue=row.id, after=after, limit=limit, **_wanted(filter)
            )
            return [ended_of(dead, queue) for dead in found]

        return Op("dead_items", steps, writes=False)

    def dead_groups(self, queue: str) -> Op[list[DeadGroup]]:
        def steps() -> Steps[list[DeadGroup]]:
            row = yield from self.queue_row(queue)
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

        return Op("dead_groups", steps, writes=False)

    def count_dead(self, queue: str, filter: Filter) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.count_dead(queue=row.id, after=0, **_wanted(filter))
            count: int = found[0]["count"]
            return count

        return Op("count_dead", steps, writes=False)

    def redrive(self, queue: str, filter: Filter, to: str | None, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self.open_queue(queue)
            target = row if to is None else (yield from self.made_queue(to))
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

        return Op("redrive", steps)

    def _redrive_some(self, queue: QueueRow, target: QueueRow, page: list[EndedItem]) -> Steps[int]:
        subjects = sorted({s for dead in page if (s := dead.item.subject) is not None})
        taken = set()
        if subjects:
            found = yield self.sql.find_subjects(queue=target.id, subjects=subjects)
            taken = {row["subject"] for row in found}
        done = 0
        for dead in page:
            # One by one: the first of two dead items with one subject takes it from the other.
            subject = dead.item.subject
            if subject is not None and subject in taken:
                continue
            if subject is not None:
                taken.add(subject)
            if (yield from self._redrive_one(queue, target, dead)):
                done += 1
        return done

    def _redrive_one(self, queue: QueueRow, target: QueueRow, dead: EndedItem) -> Steps[bool]:
        """Whether it lives again; somebody may have taken its subject just now."""
        ledger = Ledger(self.sql)
        if target.id == queue.id:
            return (yield from self.revive(ledger, queue, dead)) is not None
        ledger.add(target, letters.again(dead.item), queue.now)
        if not (yield from ledger.write()):
            return False
        ledger = Ledger(self.sql)
        ledger.unkeep(queue, dead)
        yield from ledger.write()
        return True

    def purge_dead(self, queue: str, filter: Filter, limit: int) -> Op[int]:
        def steps() -> Steps[int]:
            row = yield from self.open_queue(queue)
            found = yield self.sql.dead_items(queue=row.id, after=0, limit=limit, **_wanted(filter))
            ledger = Ledger(self.sql)
            for dead in found:
                ledger.unkeep(row, ended_of(dead, queue))
            yield from ledger.write()
            return len(found)

        return Op("purge_dead", steps)


def _wanted(filter: Filter) -> dict[str, Any]:
    return {
        "ids": None if filter.ids is None else list(filter.ids),
        "fingerprint": filter.fingerprint,
        "subject": filter.subject,
        "cause": filter.cause,
        "before_time": filter.before,
        "after_time": filter.after,
    }
