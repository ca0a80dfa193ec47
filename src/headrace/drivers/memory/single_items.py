"""Single items in memory: to look at, and to change by hand."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.contract.items import EndedItem, Place
from headrace.contract.op import Op
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model import items as rules
from headrace.model import refusals
from headrace.model.items import ItemState, State


class MemorySingleItems(MemoryItems):
    """What people do with one item."""

    def item(self, queue: str, item: int | str) -> Op[ItemState | EndedItem]:
        def act() -> ItemState | EndedItem:
            data, _ = self.queue(queue)
            if isinstance(item, int):
                return self._find(data, queue, item)
            if item in data.subjects:
                return data.items[data.subjects[item]]
            ended = [kept for kept in data.ended() if kept.item.subject == item]
            if not ended:
                raise refusals.unknown_item(queue, item)
            return max(ended, key=lambda kept: (kept.ended_at, kept.item.id))

        return immediate("item", act, writes=False)

    def _find(self, queue: QueueData, name: str, id: int) -> ItemState | EndedItem:
        found = queue.items.get(id) or queue.completed.get(id) or queue.dead.get(id)
        if found is None:
            raise refusals.unknown_item(name, id)
        return found

    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[list[ItemState | EndedItem]]:
        def act() -> list[ItemState | EndedItem]:
            data, _ = self.queue(queue)
            found: dict[int, ItemState | EndedItem] = {
                **{id: item for id, item in data.items.items() if item.state == state},
                **{kept.item.id: kept for kept in data.ended() if kept.item.state == state},
            }
            return [found[id] for id in sorted(found) if id > after][:limit]

        return immediate("items", act, writes=False)

    def place(self, queue: str, item: int) -> Op[Place]:
        def act() -> Place:
            data, _ = self.queue(queue)
            found, now = self.live_item(data, queue, item), self.now()
            is_active = found.state == State.ACTIVE
            before = 0 if is_active else self._order(data, now).index(item)
            is_held = data.is_waiting(found.key_values, now)
            held = data.holds[found.key_values or ""] if is_held else None
            return Place(item=found, before=before, now=now, held_until=held)

        return immediate("place", act, writes=False)

    def _order(self, queue: QueueData, now: int) -> list[int]:
        """The ids of all that wait, in the order in which they come, if nothing else happens."""
        due = queue.until(queue.planned, now)
        line = list(queue.line)
        for turn, item in enumerate(due, self.data.last_turn + 1):
            place = rules.place_of(queue.discipline, turn)
            rank = rules.rank_of(queue.discipline, item.priority)
            line.append((-rank, place if item.position is None else item.position, item.id))
        return [entry[-1] for entry in [*sorted(line), *queue.planned[len(due) :]]]

    def cancel_item(self, queue: str, item: int) -> Op[ItemState]:
        def act() -> ItemState:
            data, _ = self.queue(queue)
            found = self.live_item(data, queue, item)
            if found.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            self.remove(data, found)
            self.free(data, found)
            return found

        return immediate("cancel_item", act)

    def retry_item(self, queue: str, item: int) -> Op[ItemState]:
        def act() -> ItemState:
            data, _ = self.queue(queue)
            found = self._find(data, queue, item)
            if isinstance(found, EndedItem):
                if found.item.subject in data.subjects:
                    raise refusals.subject_taken(queue, found.item.subject)
                return self.revive(data, found)
            if found.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            return self.move(data, found, rules.revived(found, self.now()))

        return immediate("retry_item", act)

    def revive(self, queue: QueueData, ended: EndedItem) -> ItemState:
        """Make an ended item live again."""
        self.set_entry(queue.dead, ended.item.id, None)
        self.set_entry(queue.completed, ended.item.id, None)
        return self.move(queue, None, rules.revived(ended.item, self.now()))

    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | EndedItem]:
        def act() -> ItemState | EndedItem:
            data, _ = self.queue(queue)
            found = self._find(data, queue, item)
            before = found.item if isinstance(found, EndedItem) else found
            if before.state == State.ACTIVE:
                raise refusals.item_active(queue, item)
            after = rules.edited(before, self.now(), payload=payload, priority=priority, due=due)
            if not isinstance(found, EndedItem):
                return self.move(data, before, after)
            kept = replace(found, item=after)
            ended = data.dead if after.state == State.DEAD else data.completed
            self.set_entry(ended, item, kept)
            return kept

        return immediate("edit_item", act)
