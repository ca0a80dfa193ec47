"""Pushing to queues in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from headrace.contract.items import (
    Note,
    PushCall,
    PushConflict,
    Pushed,
    PushFull,
    PushOutcome,
    Skip,
)
from headrace.contract.op import Op
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.drivers.memory.totals import room_in
from headrace.errors import QueueFull
from headrace.model import items as rules
from headrace.model.channels import is_replaceable
from headrace.model.filling import check_limits, check_room, limit_of
from headrace.model.items import Document, ItemState, State

Taken = tuple[int, Note | None]
"""The id for a document, and the note on it if it was not simply pushed."""


class MemoryPushes(MemoryItems):
    """Items come in."""

    def push(self, calls: Sequence[PushCall]) -> Op[list[PushOutcome]]:
        return immediate("push", lambda: [self._push_or_refuse(call) for call in calls])

    def _push_or_refuse(self, call: PushCall) -> PushOutcome:
        done = len(self.data.undo)
        try:
            return self.push_one(call)
        except QueueFull as error:
            while len(self.data.undo) > done:
                self.data.undo.pop()()
            # A queue that was made for it stays.
            self.queue_made(call.queue)
            return PushFull(*limit_of(error))

    def push_one(self, call: PushCall) -> PushOutcome:
        """Take in the documents of a call, unless its key says that they are here already."""
        now = self.now()
        if call.key is None:
            return self._push_new(call, now)
        until, digest, outcome = self.data.once_pushed.get(call.key, (0, None, Pushed(())))
        if until > now:
            return outcome if digest == call.digest else PushConflict(call.key)
        outcome = self._push_new(call, now)
        entry = (now + call.key_ttl_ms, call.digest, outcome)
        self.set_entry(self.data.once_pushed, call.key, entry)
        return outcome

    def _push_new(self, call: PushCall, now: int) -> Pushed:
        queue = self.queue_made(call.queue)
        taken = [
            self._push_document(queue, call, index, document, now)
            for index, document in enumerate(call.documents)
        ]
        outcome = Pushed(
            ids=tuple(id for id, _ in taken), notes=tuple(note for _, note in taken if note)
        )
        noted = {note.index for note in outcome.notes}
        news = Counter(
            document.key_values
            for index, document in enumerate(call.documents)
            if index not in noted
        )
        if queue.settings.is_limited:
            self._check_room(queue, call, news)
        if news and self.data.limits.has(call.queue, "enqueued"):
            # They are counted already.
            room = room_in(self.data, "enqueued", now)
            for channel, count in news.items():
                room.take(self.data.limits.bounds(call.queue, channel, "enqueued"), -count)
            check_limits(call.queue, self.data.limits, room, news)
        return outcome

    def _check_room(self, queue: QueueData, call: PushCall, news: Counter[str | None]) -> None:
        check_room(
            call.queue,
            queue.settings,
            held=len(queue.items) - sum(news.values()),
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
            if self._is_taken_subject(queue, document, now):
                return 0, Note(index, "skipped", "taken")
            due = self._due(call, document, now, now)
            last = self.last_in_line(queue, document.key_values)
            if last is not None and is_replaceable(last, document, due, now):
                self.keep_superseded(queue, last, last, now)
                self.move(queue, last, rules.renewed(last, document, due, now))
                return last.id, Note(index, "updated")
            return self.add(queue, rules.dated(document, due), now).id, None
        if call.mode == "push":
            return live, Note(index, "skipped", "exists")
        return live, self._upsert(queue, queue.items[live], call, index, document, now)

    def _is_taken_subject(self, queue: QueueData, document: Document, now: int) -> bool:
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
    ) -> Note:
        refusal = self._refusal(queue, item, call)
        if refusal is not None:
            return Note(index, "skipped", refusal)
        if item.state == State.ACTIVE:
            earlier = rules.successor_of(item)
            if earlier is not None:
                self.keep_superseded(queue, item, earlier, now)
            due = self._due(call, document, now, now)
            self.move(queue, item, rules.followed(item, document, due))
            return Note(index, "next")
        self.keep_superseded(queue, item, item, now)
        due = self._due(call, document, item.waiting_since, now)
        self.move(queue, item, rules.replaced(item, document, due, now))
        return Note(index, "updated")

    def _refusal(self, queue: QueueData, item: ItemState, call: PushCall) -> Skip | None:
        if rules.overrides_of(item).updateable is False:
            return "fixed"
        while_active = call.while_active or queue.settings.while_active
        if item.state == State.ACTIVE and while_active == "skip":
            return "active"
        return None
