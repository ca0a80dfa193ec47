"""Single items in SQL: to look at, and to change by hand."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.contract.items import EndedItem, Place
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import (
    QueueRow,
    all_values,
    ended_of,
    item_of,
)
from headrace.model import items as rules
from headrace.model import refusals
from headrace.model.items import ItemState, State

ENDED = (State.DEAD, State.COMPLETED)


class SingleItems(QueueBase):
    """What people do with one item."""

    def item(self, queue: str, item: int | str) -> Op[ItemState | EndedItem]:
        def steps() -> Steps[ItemState | EndedItem]:
            row = yield from self.queue_row(queue)
            if isinstance(item, int):
                return (yield from self._find_item(row, item, is_locked=False))
            found = yield self.sql.find_subject(queue=row.id, subject=item)
            if found:
                return item_of(found[0], queue)
            found = yield self.sql.find_ended_subject(queue=row.id, subject=item)
            if not found:
                raise refusals.unknown_item(queue, item)
            return ended_of(found[0], queue)

        return Op("item", steps, writes=False)

    def _find_item(
        self, queue: QueueRow, id: int, *, is_locked: bool
    ) -> Steps[ItemState | EndedItem]:
        find = self.sql.lock_item if is_locked else self.sql.find_item
        find_ended = self.sql.lock_ended if is_locked else self.sql.find_ended
        found = yield find(queue=queue.id, id=id)
        if found:
            return item_of(found[0], queue.name)
        found = yield find_ended(queue=queue.id, id=id)
        if found:
            return ended_of(found[0], queue.name)
        # Between the two looks somebody may have made it live again.
        found = yield find(queue=queue.id, id=id)
        if found:
            return item_of(found[0], queue.name)
        raise refusals.unknown_item(queue.name, id)

    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[list[ItemState | EndedItem]]:
        def steps() -> Steps[list[ItemState | EndedItem]]:
            row = yield from self.queue_row(queue)
            is_ended = state in ENDED
            find = self.sql.list_ended if is_ended else self.sql.list_items
            found = yield find(queue=row.id, state=int(state), after=after, limit=limit)
            return [ended_of(r, queue) if is_ended else item_of(r, queue) for r in found]

        return Op("items", steps, writes=False)

    def place(self, queue: str, item: int) -> Op[Place]:
        def steps() -> Steps[Place]:
            row = yield from self.queue_row(queue)
            found = yield self.sql.find_item(queue=row.id, id=item)
            if not found:
                raise refusals.unknown_item(queue, item)
            state = item_of(found[0], queue)
            before = 0
            if state.state != State.ACTIVE:
                before = yield from self._before(row, item)
            held = None
            if state.key_values is not None:
                held = yield from self.held_until(row, state.key_values)
            return Place(item=state, before=before, now=row.now, held_until=held)

        return Op("place", steps, writes=False)

    def _before(self, queue: QueueRow, id: int) -> Steps[int]:
        waiting = yield self.sql.waiting_items(queue=queue.id)
        line = [
            (row["rank"], row["position"], row["id"])
            for row in waiting
            if row["state"] == State.PENDING
        ]
        planned = sorted(
            (row["next_execution"], row["id"], row["rank"], row["position"])
            for row in waiting
            if row["state"] == State.PLANNED
        )
        due = [entry for entry in planned if entry[0] <= queue.now]
        places = [row["position"] for row in waiting if row["position"] is not None]
        last = max(map(abs, places), default=0)
        for turn, (_, item, rank, position) in enumerate(due, last + 1):
            place = rules.place_of(queue.settings.discipline, turn)
            line.append((rank, place if position is None else position, item))
        order = [entry[-1] for entry in sorted(line)]
        order += [entry[1] for entry in planned[len(due) :]]
        # Claimed just now, it has nothing before it.
        return order.index(id) if id in order else 0

    def cancel_item(self, queue: str, item: int) -> Op[ItemState]:
        def steps() -> Steps[ItemState]:
            row = yield from self.open_queue(queue)
            found = yield self.sql.load_items(queue=row.id, ids=[item])
            if not found:
                raise refusals.unknown_item(queue, item)
            state = item_of(found[0], queue)
            if state.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            ledger = self.ledger()
            ledger.move(row, state, None)
            ledger.free(row, state)
            yield from ledger.write()
            return state

        return Op("cancel_item", steps)

    def retry_item(self, queue: str, item: int) -> Op[ItemState]:
        def steps() -> Steps[ItemState]:
            row = yield from self.open_queue(queue)
            found = yield from self._find_item(row, item, is_locked=True)
            ledger = self.ledger()
            if isinstance(found, EndedItem):
                alive = yield from self.revive(ledger, row, found)
                if alive is None:
                    raise refusals.subject_taken(queue, found.item.subject or "")
                return alive
            if found.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            return (yield from self._move(ledger, row, found, rules.revived(found, row.now)))

        return Op("retry_item", steps)

    def revive(self, ledger: Ledger, queue: QueueRow, ended: EndedItem) -> Steps[ItemState | None]:
        """Make a locked ended item live again, with its own id, unless its subject is taken."""
        id = ended.item.id
        ledger.move(queue, None, rules.revived(ended.item, queue.now))
        yield from ledger.place()
        yield from ledger.hold_channels()
        alive = ledger.entries[id].after
        assert alive is not None
        channel = ledger.channel_of(queue, alive)
        restored = yield self.sql.restore_item(**all_values(alive, queue, channel))
        if not restored:
            return None
        ledger.unkeep(queue, ended)
        yield from ledger.write()
        return alive

    def _move(
        self, ledger: Ledger, queue: QueueRow, before: ItemState | None, after: ItemState
    ) -> Steps[ItemState]:
        """Change one item, and write it; the item as it is then."""
        ledger.move(queue, before, after)
        yield from ledger.write()
        placed = ledger.entries[after.id].after
        assert placed is not None
        return placed

    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | EndedItem]:
        def steps() -> Steps[ItemState | EndedItem]:
            row = yield from self.open_queue(queue)
            found = yield from self._find_item(row, item, is_locked=True)
            before = found.item if isinstance(found, EndedItem) else found
            if before.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            after = rules.edited(before, row.now, payload=payload, priority=priority, due=due)
            if not isinstance(found, EndedItem):
                return (yield from self._move(self.ledger(), row, before, after))
            yield self.sql.save_ended(
                id=item,
                payload=after.payload,
                format=after.format,
                priority=after.priority,
                next_execution=after.next_execution,
            )
            return replace(found, item=after)

        return Op("edit_item", steps)
