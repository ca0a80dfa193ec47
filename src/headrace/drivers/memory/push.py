"""Pushing to queues in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import (
    PushCall,
    PushConflict,
    Pushed,
    PushFull,
    PushOutcome,
    PushWarning,
    Skip,
)
from headrace.contract.op import Op
from headrace.drivers.memory.limit_counters import free_slots
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.errors import QueueFull
from headrace.model.queues import transitions as rules
from headrace.model.queues.capacity import check_capacity, check_limits, limit_of
from headrace.model.queues.channels import is_replaceable
from headrace.model.queues.items import Document, ItemState, State, overrides_of, successor_of

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

Taken = tuple[int, PushWarning | None]
"""The id for a document, and a note if it was not simply pushed."""


class MemoryPush:
    """Items are pushed and updated."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def push(self, calls: Sequence[PushCall]) -> Op[list[PushOutcome]]:
        return immediate("queues.push", lambda: [self._push_or_refuse(call) for call in calls])

    def _push_or_refuse(self, call: PushCall) -> PushOutcome:
        done = len(self.data.undo)
        try:
            return self.push_one(call)
        except QueueFull as error:
            self.data.undo_to(done)
            # A queue that was created for it stays.
            self._context.storage.queue_made(call.queue)
            return PushFull(*limit_of(error))

    def push_one(self, call: PushCall) -> PushOutcome:
        """Push the documents of a call, unless its key says that this was done already."""
        now = self.now()
        if call.key is None:
            return self._push_new(call, now)
        until, digest, outcome = self.data.once_pushed.get(call.key, (0, None, Pushed(())))
        if until > now:
            return outcome if digest == call.digest else PushConflict(call.key)
        outcome = self._push_new(call, now)
        entry = (now + call.key_ttl_ms, call.digest, outcome)
        self._context.storage.set_entry(self.data.once_pushed, call.key, entry)
        return outcome

    def _push_new(self, call: PushCall, now: int) -> Pushed:
        queue = self._context.storage.queue_made(call.queue)
        results = [
            self._push_document(queue, call, index, document, now)
            for index, document in enumerate(call.documents)
        ]
        outcome = Pushed(
            ids=tuple(id for id, _ in results), notes=tuple(note for _, note in results if note)
        )
        noted = {note.index for note in outcome.notes}
        # By the channel where they are now: a later document may have moved an earlier one's item.
        news = Counter(
            queue.items[id].key_values for index, id in enumerate(outcome.ids) if index not in noted
        )
        if queue.settings.is_limited:
            self._check_capacity(queue, call, news)
        if news and self.data.limits.has(call.queue, "enqueued"):
            # They are counted already.
            slots = free_slots(self.data, "enqueued", now)
            for channel, count in news.items():
                slots.acquire(self.data.limits.bounds(call.queue, channel, "enqueued"), -count)
            check_limits(call.queue, self.data.limits, slots, news)
        return outcome

    def _check_capacity(self, queue: QueueData, call: PushCall, news: Counter[str | None]) -> None:
        check_capacity(
            call.queue,
            queue.settings,
            live=len(queue.items) - sum(news.values()),
            news=news,
            channels={
                name: len(queue.channels.get(name, ())) - count
                for name, count in news.items()
                if name is not None
            },
        )

    def _push_document(
        self, queue: QueueData, call: PushCall, index: int, document: Document, now: int
    ) -> Taken:
        live = queue.subjects.get(document.subject) if document.subject is not None else None
        if live is None:
            if self._is_subject_used(queue, document, now):
                return 0, PushWarning(index, "skipped", "taken")
            due = self._due(call, document, now, now)
            last = self._context.storage.last_in_line(queue, document.key_values)
            if last is not None and is_replaceable(last, document, due, now):
                self._context.storage.keep_superseded(queue, last, last, now)
                self._context.storage.move(queue, last, rules.renewed(last, document, due, now))
                return last.id, PushWarning(index, "updated")
            return self._context.storage.add(queue, rules.dated(document, due), now).id, None
        if call.mode == "push":
            return live, PushWarning(index, "skipped", "exists")
        return live, self._upsert(queue, queue.items[live], call, index, document, now)

    def _is_subject_used(self, queue: QueueData, document: Document, now: int) -> bool:
        settings = queue.settings
        if document.subject is None or document.subject not in queue.used:
            return False
        if settings.unique == "window":
            return now < queue.used[document.subject] + round(settings.unique_window * 1000)
        return settings.unique == "forever"

    def _due(self, call: PushCall, document: Document, waiting_since: int, now: int) -> int:
        if call.mode == "upsert" and call.debounce_ms is not None:
            return rules.debounced(waiting_since, now, call.debounce_ms, call.max_wait_ms)
        return document.due_at(now)

    def _upsert(
        self,
        queue: QueueData,
        item: ItemState,
        call: PushCall,
        index: int,
        document: Document,
        now: int,
    ) -> PushWarning:
        refusal = self._refusal(queue, item, call)
        if refusal is not None:
            return PushWarning(index, "skipped", refusal)
        if item.state == State.ACTIVE:
            earlier = successor_of(item)
            if earlier is not None:
                self._context.storage.keep_superseded(queue, item, earlier, now)
            due = self._due(call, document, now, now)
            self._context.storage.move(queue, item, rules.followed(item, document, due))
            return PushWarning(index, "next")
        self._context.storage.keep_superseded(queue, item, item, now)
        due = self._due(call, document, item.waiting_since, now)
        self._context.storage.move(queue, item, rules.replaced(item, document, due, now))
        return PushWarning(index, "updated")

    def _refusal(self, queue: QueueData, item: ItemState, call: PushCall) -> Skip | None:
        if overrides_of(item).updateable is False:
            return "fixed"
        while_active = call.while_active or queue.settings.while_active
        if item.state == State.ACTIVE and while_active == "skip":
            return "active"
        return None
