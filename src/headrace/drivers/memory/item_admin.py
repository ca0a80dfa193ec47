"""Single items in memory: inspection, and changes by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import FinishedItem, QueuePosition
from headrace.contract.op import Op
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model import error_messages
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import ItemState, State, place_of, rank_of

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryItemAdmin:
    """What operators do with one item."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def item(self, queue: str, item: int | str) -> Op[ItemState | FinishedItem]:
        def act() -> ItemState | FinishedItem:
            data, _ = self._context.storage.queue(queue)
            if isinstance(item, int):
                return self._find(data, queue, item)
            if item in data.subjects:
                return data.items[data.subjects[item]]
            ended = [kept for kept in data.ended() if kept.item.subject == item]
            if not ended:
                raise error_messages.unknown_item(queue, item)
            return max(ended, key=lambda kept: (kept.ended_at, kept.item.id))

        return immediate("queues.item", act, writes=False)

    def _find(self, queue: QueueData, name: str, id: int) -> ItemState | FinishedItem:
        found = queue.items.get(id) or queue.completed.get(id) or queue.dead.get(id)
        if found is None:
            raise error_messages.unknown_item(name, id)
        return found

    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[list[ItemState | FinishedItem]]:
        def act() -> list[ItemState | FinishedItem]:
            data, _ = self._context.storage.queue(queue)
            found: dict[int, ItemState | FinishedItem] = {
                **{id: item for id, item in data.items.items() if item.state == state},
                **{kept.item.id: kept for kept in data.ended() if kept.item.state == state},
            }
            return [found[id] for id in sorted(found) if id > after][:limit]

        return immediate("queues.items", act, writes=False)

    def position(self, queue: str, item: int) -> Op[QueuePosition]:
        def act() -> QueuePosition:
            data, _ = self._context.storage.queue(queue)
            found, now = self._context.storage.live_item(data, queue, item), self.now()
            is_active = found.state == State.ACTIVE
            before = 0 if is_active else self._order(data, now).index(item)
            is_delayed = data.is_delayed(found.key_values, now)
            until = data.delays[found.key_values or ""] if is_delayed else None
            return QueuePosition(item=found, before=before, now=now, delayed_until=until)

        return immediate("queues.position", act, writes=False)

    def _order(self, queue: QueueData, now: int) -> list[int]:
        """The ids of all waiting items, in the order in which they would be claimed."""
        due = queue.until(queue.planned, now)
        line = list(queue.line)
        for turn, item in enumerate(due, self.data.last_turn + 1):
            place = place_of(queue.discipline, turn)
            rank = rank_of(queue.discipline, item.priority)
            line.append((-rank, place if item.position is None else item.position, item.id))
        return [entry[-1] for entry in [*sorted(line), *queue.planned[len(due) :]]]

    def cancel_item(self, queue: str, item: int) -> Op[ItemState | FinishedItem]:
        def act() -> ItemState | FinishedItem:
            data, _ = self._context.storage.queue(queue)
            found = self._find(data, queue, item)
            if isinstance(found, FinishedItem):
                self._unkeep(data, item)
                return found
            if found.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            self._context.storage.remove(data, found)
            self._context.storage.free(data, found)
            return found

        return immediate("queues.cancel_item", act)

    def retry_item(self, queue: str, item: int, claimed: ItemState | None = None) -> Op[ItemState]:
        def act() -> ItemState:
            data, _ = self._context.storage.queue(queue)
            if claimed is not None and item not in data.items:
                return self._retry_ended(data, queue, claimed)
            found = self._find(data, queue, item)
            if isinstance(found, FinishedItem):
                return self._retry_ended(data, queue, found.item)
            if found.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            return self._context.storage.move(data, found, rules.revived(found, self.now()))

        return immediate("queues.retry_item", act)

    def _retry_ended(self, queue: QueueData, name: str, item: ItemState) -> ItemState:
        if item.subject is not None and item.subject in queue.subjects:
            raise error_messages.subject_taken(name, item.subject)
        return self.revive(queue, item)

    def revive(self, queue: QueueData, item: ItemState) -> ItemState:
        """Make a finished item live again."""
        self._unkeep(queue, item.id)
        return self._context.storage.move(queue, None, rules.revived(item, self.now()))

    def _unkeep(self, queue: QueueData, id: int) -> None:
        """Keep a finished item no longer."""
        self._context.storage.set_entry(queue.dead, id, None)
        self._context.storage.set_entry(queue.completed, id, None)

    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | FinishedItem]:
        def act() -> ItemState | FinishedItem:
            data, _ = self._context.storage.queue(queue)
            found = self._find(data, queue, item)
            before = found.item if isinstance(found, FinishedItem) else found
            if before.state == State.ACTIVE:
                raise error_messages.item_active(queue, item)
            after = rules.edited(before, self.now(), payload=payload, priority=priority, due=due)
            if not isinstance(found, FinishedItem):
                return self._context.storage.move(data, before, after)
            kept = replace(found, item=after)
            ended = data.dead if after.state == State.DEAD else data.completed
            self._context.storage.set_entry(ended, item, kept)
            return kept

        return immediate("queues.edit_item", act)
