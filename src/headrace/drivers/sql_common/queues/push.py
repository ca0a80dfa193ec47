"""Pushes to queues in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
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
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.idempotency import Keys
from headrace.drivers.sql_common.limits.counter_changes import LimitCounterChanges
from headrace.drivers.sql_common.queues.capacity_check import CapacityCheck
from headrace.drivers.sql_common.queues.plain_push import PlainPush
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of
from headrace.drivers.sql_common.queues.unit_of_work import UnitOfWork
from headrace.drivers.sql_common.statements import NoReply, Notify, Statements
from headrace.errors import QueueFull
from headrace.model.limits.limit_set import LimitSet
from headrace.model.queues import transitions as rules
from headrace.model.queues.capacity import limit_of
from headrace.model.queues.channels import is_behind, is_replaceable, is_updateable
from headrace.model.queues.items import (
    Document,
    ItemState,
    State,
    overrides_of,
    successor_of,
)

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

NEVER = -1
"""A time before all others."""


class PushKeys(Keys[PushOutcome, PushConflict]):
    """The keys of pushes."""

    def __init__(self, sql: Statements) -> None:
        super().__init__(sql, "push", PushOutcome, PushConflict)


class PushBatch:
    """One call's documents while they are pushed: their subjects' items, and their outcomes."""

    def __init__(
        self,
        call: PushCall,
        queue: QueueRow,
        limit_counters: LimitCounterChanges,
    ) -> None:
        self.call = call
        self.queue = queue
        self.limit_counters = limit_counters
        self.ids = [0] * len(call.documents)
        self.notes: dict[int, PushWarning] = {}
        self.live: dict[str, ItemState] = {}
        self.last: dict[str, ItemState] = {}
        self.unsure: set[str | None] = set()
        self.used: dict[str, int] = {}
        # The channels of the items that the call has added, by id.
        self.added: dict[int, str | None] = {}

    def note_added(self, unit: UnitOfWork, ids: Mapping[int, int]) -> None:
        """Note where the items that the call has added are now; ``ids`` are those just given."""
        for id, change in unit.entries.items():
            is_ours = id in self.added or (change.before is None and id in ids)
            if is_ours and change.after is not None:
                self.added[ids.get(id, id)] = change.after.key_values

    def outcome(self) -> Pushed:
        return Pushed(tuple(self.ids), tuple(self.notes[index] for index in sorted(self.notes)))


class QueuePush:
    """Pushes items."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock
        self._plain = PlainPush(context)

    def push(self, calls: Sequence[PushCall]) -> Op[list[PushOutcome]]:
        # The first call is checked alone: mostly it decides.
        is_keyed = bool(calls) and calls[0].key is not None
        has_keys = is_keyed and all(call.key is not None for call in calls)
        return Op(
            "queues.push",
            partial(self.push_steps, calls),
            repeatable=has_keys,
            fast=self._context.fastpath.push(calls),
        )

    def push_steps(self, calls: Sequence[PushCall]) -> Steps[list[PushOutcome]]:
        """The general push, for every case."""
        settled = yield from self._context.push_keys.reserve(calls, self.clock())
        outcomes: list[PushOutcome] = []
        done: dict[str, tuple[str | None, PushOutcome]] = {}
        fresh: list[PushCall] = []
        for call in calls:
            known = None if call.key is None else settled.get(call.key) or done.get(call.key)
            if known is not None:
                digest, before = known
                conflict = PushConflict(call.key or "")
                outcomes.append(before if digest == call.digest else conflict)
                continue
            try:
                outcome = yield from self.push_one(call)
            except QueueFull as error:
                # Nothing of this call was written, or it is undone.
                outcomes.append(PushFull(*limit_of(error)))
                if call.key is not None:
                    yield from self._context.push_keys.release(call.key)
                continue
            outcomes.append(outcome)
            if call.key is not None:
                done[call.key] = (call.digest, outcome)
                fresh.append(call)
        if fresh:
            results = [done[call.key or ""][1] for call in fresh]
            yield from self._context.push_keys.settle(fresh, results)
        return outcomes

    def push_one(self, call: PushCall, *, is_admitted: bool = False) -> Steps[Pushed]:
        """Push the documents of a call.

        ``is_admitted`` says that another part of the call was pushed already, when there was no
        limit: the rest follows without a check, since a push is all or nothing.
        """
        queue = yield from self._context.storage.made_queue(call.queue)
        if queue.settings.is_limited and not is_admitted:
            yield self.sql.lock_pushes(queue=queue.id)
        limits = None if is_admitted else (yield from self._push_limits(queue, call))
        is_checked = not is_admitted and (queue.settings.is_limited or limits is not None)
        capacity = CapacityCheck(self.sql, queue, limits) if is_checked else None
        if call.mode == "push" and all(
            doc.subject is None and doc.key_values is None for doc in call.documents
        ):
            return (yield from self._plain.push(queue, call.documents, capacity))
        if call.mode == "push" and capacity is None and call.documents:
            pushed = yield from self._plain.push_to_channels(queue, call.documents)
            if pushed is not None:
                return pushed
        counters = self._context.storage.limit_counter_changes()
        pushing = PushBatch(call, queue, counters)
        left = yield from self._push_some(pushing, range(len(call.documents)), capacity)
        while left:
            # Another transaction may use a subject between our read and our insert: read again.
            left = yield from self._push_some(pushing, left, None)
        waiting = yield from counters.write()
        if capacity is not None:
            yield from capacity.after_write(Counter(pushing.added.values()), counters.used)
        if waiting:
            yield Notify(frozenset(waiting))
        return pushing.outcome()

    def _push_limits(self, queue: QueueRow, call: PushCall) -> Steps[LimitSet | None]:
        """The rules, if there are any on enqueued items."""
        if not queue.limit_version and not queue.info.has_channels:
            if all(document.key_values is None for document in call.documents):
                return None
            # Its first channel: rules may apply from now on.
            [row] = yield self.sql.limit_version()
            queue = queue._replace(limit_version=row["version"])
        limits = yield from self._context.storage.limits_of(queue)
        return limits if limits.has(queue.name, "enqueued") else None

    def _push_some(
        self, pushing: PushBatch, indexes: Sequence[int], capacity: CapacityCheck | None
    ) -> Steps[list[int]]:
        """Push some documents, after the check of their capacity; returns those that need another
        pass."""
        call = pushing.call
        yield from self._read_existing(pushing, indexes)
        unit = self._context.storage.unit_of_work(pushing.limit_counters)
        places: dict[int, list[int]] = {}
        later: list[int] = []
        for index in indexes:
            document = call.documents[index]
            if later or self._must_wait(pushing, document):
                # Later documents wait, too, so that all join the line in their order.
                later.append(index)
                continue
            id, note = self._push_document(unit, pushing, index, document)
            places.setdefault(id, []).append(index)
            pushing.notes.pop(index, None)
            if note is not None:
                pushing.notes[index] = note
        if capacity is not None and later:
            # Which of them become new items shows only when they have had their pass.
            yield from capacity.defer({document.key_values for document in call.documents})
        elif capacity is not None:
            yield from capacity.before_write(unit.news(), unit.moved())
        yield from self._reserve_subjects(pushing, unit)
        if unit.parts:
            yield from self._context.topics.append(unit.parts)
        got = yield from unit.write()
        pushing.note_added(unit, got)
        for id, mine in places.items():
            if id < 0 and id not in got:
                later += mine
                continue
            for index in mine:
                pushing.ids[index] = got.get(id, id)
        return sorted(later)

    def _reserve_subjects(self, pushing: PushBatch, unit: UnitOfWork) -> Steps[None]:
        """Record the use of new items' subjects, where it counts for longer than an item lives.

        An item is not pushed if another transaction has used its subject since our read: it gets
        another pass.
        """
        queue = pushing.queue
        if not unit.used:
            return
        is_window = queue.settings.unique == "window"
        window = round(queue.settings.unique_window * 1000)
        subjects = sorted(subject for _, subject in unit.used)
        found = yield self.sql.reserve_subjects(
            queue=queue.id,
            subjects=subjects,
            at=queue.now,
            since=queue.now - window if is_window else NEVER,
        )
        reserved = {row["subject"] for row in found}
        unit.give_up({subject for subject in subjects if subject not in reserved})

    def _must_wait(self, pushing: PushBatch, document: Document) -> bool:
        """Whether the item that it replaces is not known yet, or needs an id first, since its
        payload is committed to a topic."""
        if document.subject is None and document.key_values in pushing.unsure:
            return True
        if document.subject is None:
            live = pushing.last.get(document.key_values or "")
        else:
            live = pushing.live.get(document.subject)
        is_new = live is not None and live.id < 0
        return is_new and pushing.queue.settings.keep_superseded is not None

    def _read_existing(self, pushing: PushBatch, indexes: Sequence[int]) -> Steps[None]:
        queue = pushing.queue
        subjects = sorted(
            {s for index in indexes if (s := pushing.call.documents[index].subject) is not None}
        )
        pushing.live, pushing.used = {}, {}
        yield from self._read_channels(pushing, indexes)
        if not subjects:
            return
        if len(subjects) > 1:
            yield NoReply((self.sql.lock_subjects(queue=queue.id, subjects=subjects),))
        found = yield self.sql.find_subjects(queue=queue.id, subjects=subjects)
        pushing.live = {row["subject"]: item_of(row, queue.name) for row in found}
        if queue.settings.unique == "live":
            return
        found = yield self.sql.find_used(queue=queue.id, subjects=subjects)
        pushing.used = {row["subject"]: row["at"] for row in found}
        unseen = sorted(set(pushing.used) - set(pushing.live))
        if unseen:
            # Pushed between the two reads, or ended.
            found = yield self.sql.find_subjects(queue=queue.id, subjects=unseen)
            pushing.live |= {row["subject"]: item_of(row, queue.name) for row in found}

    def _push_document(
        self, unit: UnitOfWork, pushing: PushBatch, index: int, document: Document
    ) -> tuple[int, PushWarning | None]:
        queue, call, now = pushing.queue, pushing.call, pushing.queue.now
        live = None if document.subject is None else pushing.live.get(document.subject)
        if live is None:
            if self._is_subject_used(pushing, document):
                return 0, PushWarning(index, "skipped", "taken")
            due = _due(call, document, now, now)
            last = pushing.last.get(document.key_values or "")
            if last is not None and is_replaceable(last, document, due, now):
                after = rules.renewed(last, document, due, now)
                self._renew(unit, pushing, last, after)
                return last.id, PushWarning(index, "updated")
            item = unit.add(queue, rules.dated(document, due), now)
            self._note_live(pushing, item)
            return item.id, None
        if call.mode == "push":
            return live.id, PushWarning(index, "skipped", "exists")
        return live.id, self._upsert(unit, pushing, live, index, document)

    def _is_subject_used(self, pushing: PushBatch, document: Document) -> bool:
        settings = pushing.queue.settings
        if document.subject is None or document.subject not in pushing.used:
            return False
        if settings.unique == "window":
            until = pushing.used[document.subject] + round(settings.unique_window * 1000)
            return pushing.queue.now < until
        return settings.unique == "forever"

    def _read_channels(self, pushing: PushBatch, indexes: Sequence[int]) -> Steps[None]:
        """Find the items that documents for their channel may replace."""
        queue, documents = pushing.queue, [pushing.call.documents[index] for index in indexes]
        wanted = {doc.key_values for doc in documents if doc.subject is None} - {None}
        pushing.last, pushing.unsure = {}, set()
        if not wanted:
            return
        names = sorted(name for name in wanted if name is not None)
        # A later document of the same call may replace an earlier one.
        certain = sorted({doc.key_values or "" for doc in documents if is_updateable(doc)})
        found = yield self.sql.last_in_line(queue=queue.id, names=names, certain=certain)
        last = {row["key_values"]: item_of(row, queue.name) for row in found}
        updateable = sorted(item.id for item in last.values() if is_updateable(item))
        if updateable:
            # Locked and read again: another transaction may have claimed or changed them meanwhile.
            found = yield self.sql.load_items(queue=queue.id, ids=updateable)
            locked = {row["id"]: item_of(row, queue.name) for row in found}
            last |= {name: locked[item.id] for name, item in last.items() if item.id in locked}
        pushing.last = {
            name: item
            for name, item in last.items()
            if item.state == State.PENDING and item.key_values == name
        }

    def _renew(
        self, unit: UnitOfWork, pushing: PushBatch, last: ItemState, after: ItemState
    ) -> None:
        """Replace the content of the last item in a channel's line."""
        self._context.storage.keep_superseded(unit, pushing.queue, last, last)
        unit.move(pushing.queue, last, after)
        pushing.last[after.key_values or ""] = after
        if after.priority != last.priority:
            # Another item may be the last now.
            pushing.unsure.add(after.key_values)

    def _note_live(self, pushing: PushBatch, item: ItemState) -> None:
        if item.subject is not None:
            pushing.live[item.subject] = item
        if item.key_values is None or item.state != State.PENDING:
            return
        last = pushing.last.get(item.key_values)
        if last is None or is_behind(item, last, pushing.queue.settings.discipline):
            pushing.last[item.key_values] = item

    def _upsert(
        self,
        unit: UnitOfWork,
        pushing: PushBatch,
        item: ItemState,
        index: int,
        document: Document,
    ) -> PushWarning:
        queue, call, now = pushing.queue, pushing.call, pushing.queue.now
        refusal = _refusal(queue, item, call)
        if refusal is not None:
            return PushWarning(index, "skipped", refusal)
        if item.state == State.ACTIVE:
            earlier = successor_of(item)
            if earlier is not None:
                self._context.storage.keep_superseded(unit, queue, item, earlier)
            after = rules.followed(item, document, _due(call, document, now, now))
            note = PushWarning(index, "next")
        else:
            self._context.storage.keep_superseded(unit, queue, item, item)
            due = _due(call, document, item.waiting_since, now)
            after = rules.replaced(item, document, due, now)
            note = PushWarning(index, "updated")
        unit.move(queue, item, after)
        self._note_live(pushing, after)
        # The last item of these channels may no longer be the last.
        pushing.unsure |= {item.key_values, after.key_values} - {None}
        return note


def _due(call: PushCall, document: Document, waiting_since: int, now: int) -> int:
    if call.mode == "upsert" and call.debounce_ms is not None:
        return rules.debounced(waiting_since, now, call.debounce_ms, call.max_wait_ms)
    return document.due_at(now)


def _refusal(queue: QueueRow, item: ItemState, call: PushCall) -> Skip | None:
    if overrides_of(item).updateable is False:
        return "fixed"
    while_active = call.while_active or queue.settings.while_active
    if item.state == State.ACTIVE and while_active == "skip":
        return "active"
    return None
