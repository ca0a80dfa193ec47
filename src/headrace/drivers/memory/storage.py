"""The building blocks of all operations on queues in memory. Each change can be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from headrace.contract.counters import FREE_SLOTS
from headrace.contract.items import FinishedItem, LoggedError
from headrace.contract.values import CommitPart
from headrace.drivers.memory.queue_data import QueueData
from headrace.model import error_messages
from headrace.model.failures import Failure
from headrace.model.queues import dead_letter
from headrace.model.queues import transitions as rules
from headrace.model.queues.channels import gives_way, unblocks
from headrace.model.queues.items import (
    Document,
    Ended,
    ItemState,
    State,
    Verdict,
    place_of,
    successor_of,
)
from headrace.model.queues.settings import QueueInfo, QueueSettings, capacity_word

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

K = TypeVar("K")
V = TypeVar("V")


class MemoryStorage:
    """Finds and creates queues, and moves items."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def queue(self, name: str) -> tuple[QueueData, QueueInfo]:
        """A queue; raises ``UnknownQueue``."""
        queue = self.data.queues.get(name)
        if queue is None or queue.info is None:
            raise error_messages.unknown_queue(name)
        return queue, queue.info

    def queue_made(self, name: str, settings: QueueSettings | None = None) -> QueueData:
        """A queue, created with the settings (or the stored defaults) if there is none."""
        if name not in self.data.queues:
            self.set_entry(self.data.queues, name, QueueData())
        queue = self.data.queues[name]
        if queue.info is None:
            wanted = settings or self.data.queue_defaults
            version = queue.version + 1
            info = QueueInfo(
                name=name,
                settings=wanted,
                version=version,
                created_at=self.now(),
                has_channels=queue.has_channels,
            )
            self.change(queue, info=info)
            self.reorder(queue)
        return queue

    def reorder(self, queue: QueueData) -> None:
        """Sort waiting items by the queue's discipline."""
        discipline = queue.settings.discipline
        if queue.discipline == discipline:
            return
        items = list(queue.items.values())
        turns = dict(queue.turns)
        for item in items:
            self.remove(queue, item)
        self.change(queue, discipline=discipline, turns=turns)
        for item in items:
            # A place is the number of a turn, negative where the last comes first.
            turn = None if item.position is None else abs(item.position)
            place = None if turn is None else place_of(discipline, turn)
            self.move(queue, None, replace(item, position=place))

    def add(self, queue: QueueData, document: Document, now: int) -> ItemState:
        """A new item."""
        assert queue.info is not None
        item = rules.fresh(
            document, id=self.next_number("last_item"), queue=queue.info.name, now=now
        )
        if item.subject is not None and queue.settings.unique != "live":
            self.set_entry(queue.used, item.subject, now)
        self.count(queue, entered=1)
        return self.move(queue, None, item)

    def move(self, queue: QueueData, before: ItemState | None, after: ItemState) -> ItemState:
        """Change an item's state; an item that has to wait gets a place in the line."""
        if after.state == State.PENDING:
            if after.position is None:
                turn = self.next_number("last_turn")
                after = replace(after, position=place_of(queue.discipline, turn))
            self.announce(after.queue)
        info = queue.info
        if after.key_values is not None and info is not None and not info.has_channels:
            self.change(queue, info=replace(info, has_channels=True, version=info.version + 1))
        self._swap(queue, before, after)
        return after

    def remove(self, queue: QueueData, item: ItemState) -> None:
        """Remove an item from the live ones."""
        self._swap(queue, item, None)

    def _swap(self, queue: QueueData, before: ItemState | None, after: ItemState | None) -> None:
        self.data.undo.append(lambda: queue.restore(after, before))
        queue.swap(before, after)
        for item in (before, after):
            if item is not None and item.key_values is not None:
                self._take_part(queue, item.key_values)
        if before is not None and after is None:
            self.data.announced.add(capacity_word(before.queue))
        if queue.is_serial and before is not None and unblocks(before, after):
            self.announce(before.queue)
        if before is not None and before.state == State.ACTIVE and not _is_active(after):
            self.announce_free_slots()

    def _take_part(self, queue: QueueData, channel: str) -> None:
        """Let a channel take turns while it has items in line."""
        is_in_line = channel in queue.lines
        if is_in_line and channel not in queue.turns:
            self.set_entry(queue.turns, channel, self.next_number("last_turn"))
        elif not is_in_line and channel in queue.turns:
            self.set_entry(queue.turns, channel, None)

    def become(
        self, queue: QueueData, item: ItemState, verdict: Verdict, now: int
    ) -> ItemState | None:
        """Apply the rules' decision on a live item; returns the waiting item, if it waits."""
        if isinstance(verdict, ItemState):
            return self.move(queue, item, verdict)
        self.remove(queue, item)
        if verdict is None:
            self.free(queue, item)
        elif verdict.state == State.COMPLETED:
            if queue.settings.keep != "none":
                self.keep_ended(queue, verdict, now)
        elif queue.settings.dead_queues(item.queue):
            self._pass_on(queue, verdict, now)
        else:
            self.keep_ended(queue, verdict, now)
        successor = successor_of(item)
        if successor is not None:
            self.add(queue, successor, now)
        return None

    def keep_ended(self, queue: QueueData, ended: Ended, now: int) -> None:
        is_dead = ended.state == State.DEAD
        fingerprint, title = dead_letter.fingerprint_and_title(ended) if is_dead else (None, None)
        kept = FinishedItem(
            item=replace(ended.item, successor=None),
            ended_at=now,
            cause=ended.cause,
            fingerprint=fingerprint,
            title=title,
        )
        self.set_entry(queue.dead if is_dead else queue.completed, kept.item.id, kept)

    def _pass_on(self, queue: QueueData, ended: Ended, now: int) -> None:
        for name in queue.settings.dead_queues(ended.item.queue):
            other = self.queue_made(name)
            is_free = dead_letter.subject_in(ended.item, other.settings) not in other.subjects
            copy = dead_letter.dead_copy(ended, other.settings, is_subject_free=is_free)
            if copy is not None:
                self.add(other, copy, now)

    def last_in_line(self, queue: QueueData, channel: str | None) -> ItemState | None:
        """The last item in a channel's line."""
        line = [] if channel is None else queue.lines.get(channel, [])
        return queue.items[line[-1][-1]] if line else None

    def failed(
        self, queue: QueueData, item: ItemState, verdict: Verdict, now: int
    ) -> ItemState | None:
        """Apply the decision on an item that failed, unless newer content replaces it."""
        last = self.last_in_line(queue, item.key_values)
        if isinstance(verdict, ItemState) and gives_way(item, queue.settings, last):
            self.count(queue, dropped=1)
            self.keep_superseded(queue, item, verdict, now)
            verdict = None
        return self.become(queue, item, verdict, now)

    def delay_channel(self, queue: QueueData, channel: str, until: int) -> int:
        """Delay a channel, or delay it for longer; returns until when."""
        later = max(until, queue.delays.get(channel, until))
        self.set_entry(queue.delays, channel, later)
        return later

    def keep_superseded(
        self, queue: QueueData, item: ItemState, replaced: ItemState | Document, now: int
    ) -> None:
        """Commit content that newer content replaced, where the queue says so."""
        topic = queue.settings.keep_superseded
        if topic is not None:
            self._context.topics.append(
                [CommitPart(topic, 1, dead_letter.superseded(item, replaced, now))]
            )

    def free(self, queue: QueueData, item: ItemState) -> None:
        """Forget that an item's subject was used, as if the item had never been."""
        if item.subject is not None:
            self.set_entry(queue.used, item.subject, None)

    def log(self, queue: QueueData, item: ItemState, failure: Failure, now: int) -> None:
        """Count a failure of an active item, and keep it if the queue has an error series."""
        self.count(queue, errors=1)
        if not queue.settings.errors:
            return
        entry = LoggedError(
            id=self.next_number("last_error"),
            at=now,
            item=item.id,
            subject=item.subject,
            attempt=item.attempts,
            worker=item.worker,
            failure=failure,
        )
        self.set_entry(queue.errors, entry.id, entry)

    def count(self, queue: QueueData, **happened: int) -> None:
        """Count events, where the queue keeps running numbers."""
        if queue.settings.metrics:
            for name, number in happened.items():
                self.set_entry(queue.happened, name, queue.happened[name] + number)

    def live_item(self, queue: QueueData, name: str, item: int) -> ItemState:
        if item not in queue.items:
            raise error_messages.unknown_item(name, item)
        return queue.items[item]

    def announce(self, queue: str) -> None:
        """Notify the queue's waiters when this is committed."""
        self.data.announced.add(f"queue/{queue}")

    def drop_counter(self, session: str) -> None:
        """End a counter of user code, and notify waiters that may have free slots now."""
        self.set_entry(self.data.counters, session, None)
        self.announce_free_slots()

    def end_counter_leases(self, limit: int) -> int:
        """End the counters of user code whose leases have expired."""
        now = self.now()
        over = [
            session
            for session, held in self.data.counters.items()
            if held.until is not None and held.until <= now
        ][:limit]
        for session in over:
            self.drop_counter(session)
        return len(over)

    def announce_free_slots(self) -> None:
        """Something stopped running: notify the waiters that a limit may have held back."""
        if self.data.limits.rules:
            self.data.announced.add(FREE_SLOTS)
            for name in self.data.queues:
                self.announce(name)

    def next_number(self, counter: str) -> int:
        number: int = getattr(self.data, counter) + 1
        self.change(self.data, **{counter: number})
        return number

    def change(self, what: object, **attributes: Any) -> None:
        """Set attributes so that it can be undone."""
        before = {name: getattr(what, name) for name in attributes}
        self.data.undo.append(lambda: _set(what, before))
        _set(what, attributes)

    def set_entry(self, where: dict[K, V], key: K, value: V | None) -> None:
        """Set (or remove, with None) an entry so that it can be undone; the order may change."""
        before = where.get(key)
        self.data.undo.append(lambda: _put(where, key, before))
        _put(where, key, value)


def _is_active(item: ItemState | None) -> bool:
    return item is not None and item.state == State.ACTIVE


def _set(what: object, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(what, name, value)


def _put(where: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
