"""Single items in SQL: reading them, and changing them by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import FinishedItem, QueuePosition
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import (
    QueueRow,
    all_values,
    ended_of,
    item_of,
)
from headrace.drivers.sql_common.queues.unit_of_work import UnitOfWork
from headrace.model import error_messages
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState, State, place_of

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

ENDED = (State.DEAD, State.COMPLETED)


class ItemAdmin:
    """Operations on one item."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def item(self, queue: str, item: int | str) -> Op[ItemState | FinishedItem]:
        def steps() -> Steps[ItemState | FinishedItem]:
            row = yield from self._context.storage.queue_row(queue)
            if isinstance(item, int):
                return (yield from self._find_item(row, item, is_locked=False))
            found = yield self.sql.find_subject(queue=row.id, subject=item)
            if found:
                return item_of(found[0], queue)
            found = yield self.sql.find_finished_subject(queue=row.id, subject=item)
            if not found:
                raise error_messages.unknown_item(queue, item)
            return ended_of(found[0], queue)

        return Op("queues.item", steps, writes=False)

    def _find_item(
        self, queue: QueueRow, id: int, *, is_locked: bool
    ) -> Steps[ItemState | FinishedItem]:
        found = yield from self._find(queue, id, is_locked=is_locked)
        if found is None:
            raise error_messages.unknown_item(queue.name, id)
        return found

    def _find(
        self, queue: QueueRow, id: int, *, is_locked: bool
    ) -> Steps[ItemState | FinishedItem | None]:
        find = self.sql.lock_item if is_locked else self.sql.find_item
        find_ended = self.sql.lock_finished if is_locked else self.sql.find_finished
        found = yield find(queue=queue.id, id=id)
        if found:
            return item_of(found[0], queue.name)
        found = yield find_ended(queue=queue.id, id=id)
        if found:
            return ended_of(found[0], queue.name)
        # Between the two reads another transaction may have made it live again.
        found = yield find(queue=queue.id, id=id)
        return item_of(found[0], queue.name) if found else None

    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[list[ItemState | FinishedItem]]:
        def steps() -> Steps[list[ItemState | FinishedItem]]:
            row = yield from self._context.storage.queue_row(queue)
            is_ended = state in ENDED
            find = self.sql.list_finished if is_ended else self.sql.list_items
            found = yield find(queue=row.id, state=int(state), after=after, limit=limit)
            return [ended_of(r, queue) if is_ended else item_of(r, queue) for r in found]

        return Op("queues.items", steps, writes=False)

    def position(self, queue: str, item: int) -> Op[QueuePosition]:
        def steps() -> Steps[QueuePosition]:
            row = yield from self._context.storage.queue_row(queue)
            found = yield self.sql.find_item(queue=row.id, id=item)
            if not found:
                raise error_messages.unknown_item(queue, item)
            state = item_of(found[0], queue)
            before = 0
            if state.state != State.ACTIVE:
                before = yield from self._before(row, item)
            until = None
            if state.key_values is not None:
                until = yield from self._context.storage.delayed_until(row, state.key_values)
            return QueuePosition(item=state, before=before, now=row.now, delayed_until=until)

        return Op("queues.position", steps, writes=False)

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
            place = place_of(queue.settings.discipline, turn)
            line.append((rank, place if position is None else position, item))
        order = [entry[-1] for entry in sorted(line)]
        order += [entry[1] for entry in planned[len(due) :]]
        # An item that was claimed just now has no items before it.
        return order.index(id) if id in order else 0

    def cancel_item(self, queue: str, item: int) -> Op[ItemState | FinishedItem]:
        def steps() -> Steps[ItemState | FinishedItem]:
            row = yield from self._context.storage.open_queue(queue)
            found = yield from self._find_item(row, item, is_locked=True)
            unit = self._context.storage.unit_of_work()
            if isinstance(found, FinishedItem):
                unit.unkeep(row, found)
            elif found.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            else:
                unit.move(row, found, None)
                unit.free(row, found)
            yield from unit.write()
            return found

        return Op("queues.cancel_item", steps)

    def retry_item(self, queue: str, item: int, claimed: ItemState | None = None) -> Op[ItemState]:
        def steps() -> Steps[ItemState]:
            row = yield from self._context.storage.open_queue(queue)
            found = yield from self._find(row, item, is_locked=True)
            unit = self._context.storage.unit_of_work()
            if found is None or isinstance(found, FinishedItem):
                ended = claimed if found is None else claimed or found.item
                if ended is None:
                    raise error_messages.unknown_item(queue, item)
                alive = yield from self.revive(unit, row, ended, found)
                if alive is None:
                    raise error_messages.subject_taken(queue, ended.subject or "")
                return alive
            if found.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            return (yield from self._move(unit, row, found, rules.revived(found, row.now)))

        return Op("queues.retry_item", steps)

    def revive(
        self, unit: UnitOfWork, queue: QueueRow, item: ItemState, kept: FinishedItem | None
    ) -> Steps[ItemState | None]:
        """Make an ended item live again, with its own id, unless another item has its subject.

        ``kept`` is the locked row that the queue keeps of it.
        """
        unit.move(queue, None, rules.revived(item, queue.now))
        yield from unit.place()
        yield from unit.lock_channels()
        alive = unit.entries[item.id].after
        assert alive is not None
        channel = unit.channel_of(queue, alive)
        restored = yield self.sql.restore_item(**all_values(alive, queue, channel))
        if not restored:
            return None
        if kept is not None:
            unit.unkeep(queue, kept)
        yield from unit.write()
        return alive

    def _move(
        self, unit: UnitOfWork, queue: QueueRow, before: ItemState | None, after: ItemState
    ) -> Steps[ItemState]:
        """Change one item, and write it; returns the changed item."""
        unit.move(queue, before, after)
        yield from unit.write()
        placed = unit.entries[after.id].after
        assert placed is not None
        return placed

    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | FinishedItem]:
        def steps() -> Steps[ItemState | FinishedItem]:
            row = yield from self._context.storage.open_queue(queue)
            found = yield from self._find_item(row, item, is_locked=True)
            before = found.item if isinstance(found, FinishedItem) else found
            if before.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            after = rules.edited(before, row.now, payload=payload, priority=priority, due=due)
            if not isinstance(found, FinishedItem):
                return (
                    yield from self._move(self._context.storage.unit_of_work(), row, before, after)
                )
            yield self.sql.save_finished(
                id=item,
                payload=after.payload,
                format=after.format,
                priority=after.priority,
                next_execution=after.next_execution,
            )
            return replace(found, item=after)

        return Op("queues.edit_item", steps)
