"""Pushing to queues in SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from headrace.contract.items import (
    Note,
    PushCall,
    PushConflict,
    Pushed,
    PushFull,
    PushOutcome,
    Skip,
)
from headrace.contract.op import Alone, Op, Steps
from headrace.drivers.relational.keys import Keys
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.buckets import Buckets
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.rows import QueueRow, item_of, plain_values
from headrace.drivers.relational.queues.turning import take_turns
from headrace.drivers.relational.sql import MakeStatement, Many, Sql
from headrace.errors import QueueFull
from headrace.model import items as rules
from headrace.model.channels import is_behind, is_replaceable, is_updateable
from headrace.model.filling import check_limits, check_room, limit_of
from headrace.model.items import Document, ItemState, State
from headrace.model.limiting import Limits, Room

NEVER = -1
"""A time before all others."""


class PushKeys(Keys[PushOutcome]):
    """The keys of pushes."""

    def __init__(self, sql: Sql) -> None:
        super().__init__(sql, "push", PushOutcome)


class Pushing:
    """One call's documents on their way in: who has which subject, and what became of each."""

    def __init__(self, call: PushCall, queue: QueueRow, limits: Limits | None) -> None:
        self.call = call
        self.queue = queue
        self.limits = limits
        self.ids = [0] * len(call.documents)
        self.notes: dict[int, Note] = {}
        self.live: dict[str, ItemState] = {}
        self.last: dict[str, ItemState] = {}
        self.unsure: set[str | None] = set()
        self.used: dict[str, int] = {}

    def outcome(self) -> Pushed:
        return Pushed(tuple(self.ids), tuple(self.notes[index] for index in sorted(self.notes)))


class Pushes(QueueBase):
    """Items come in."""

    push_keys: PushKeys

    def push(self, calls: Sequence[PushCall]) -> Op[list[PushOutcome]]:
        # Looked at first, since mostly that decides it.
        is_keyed = bool(calls) and calls[0].key is not None
        has_keys = is_keyed and all(call.key is not None for call in calls)
        return Op(
            "push",
            lambda: self.pushed_slowly(calls),
            repeatable=has_keys,
            alone=self.push_at_once(calls),
        )

    def push_at_once(self, calls: Sequence[PushCall]) -> Alone[list[PushOutcome]] | None:
        """The push without a transaction around it, if it is simple and the database can."""
        return None

    def pushed_slowly(self, calls: Sequence[PushCall]) -> Steps[list[PushOutcome]]:
        """The push, whatever it takes."""
        return self._push(calls)

    def _push(self, calls: Sequence[PushCall]) -> Steps[list[PushOutcome]]:
        settled = yield from self.push_keys.take(calls, self.clock())
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
                # Found out before anything of this call was written.
                outcomes.append(PushFull(*limit_of(error)))
                if call.key is not None:
                    yield from self.push_keys.give_back(call.key)
                continue
            outcomes.append(outcome)
            if call.key is not None:
                done[call.key] = (call.digest, outcome)
                fresh.append(call)
        if fresh:
            results = [done[call.key or ""][1] for call in fresh]
            yield from self.push_keys.settle(fresh, results)
        return outcomes

    def push_one(self, call: PushCall) -> Steps[Pushed]:
        """Take in the documents of a call."""
        queue = yield from self.made_queue(call.queue)
        if queue.settings.is_limited:
            yield self.sql.push_alone(queue=queue.id)
        limits = yield from self._push_limits(queue, call)
        if call.mode == "push" and all(
            doc.subject is None and doc.key_values is None for doc in call.documents
        ):
            return (yield from self._push_plain(queue, call.documents, limits))
        is_counted = queue.settings.is_limited or limits is not None
        if call.mode == "push" and not is_counted and call.documents:
            pushed = yield from self._push_to_channels(queue, call.documents)
            if pushed is not None:
                return pushed
        pushing = Pushing(call, queue, limits)
        left = list(range(len(call.documents)))
        is_checked = not queue.settings.is_limited and limits is None
        while left:
            # Others may take a subject between our look and our insert: then we look again.
            left = yield from self._push_some(pushing, left, is_checked=is_checked)
            is_checked = True
        return pushing.outcome()

    def _push_limits(self, queue: QueueRow, call: PushCall) -> Steps[Limits | None]:
        """The rules, if there are any on what is enqueued."""
        if not queue.limits and not queue.info.has_channels:
            if all(document.key_values is None for document in call.documents):
                return None
            # Its first channel: rules may apply from now on.
            [row] = yield self.sql.limit_version()
            queue = queue._replace(limits=row["version"])
        limits = yield from self.limits_of(queue)
        return limits if limits.has(queue.name, "enqueued") else None

    def _push_plain(
        self, queue: QueueRow, documents: Sequence[Document], limits: Limits | None
    ) -> Steps[Pushed]:
        """Take in documents that nothing can be in the way of."""
        if not documents:
            return Pushed(())
        yield from self._check_room(queue, limits, Counter({None: len(documents)}), Counter())
        values = [
            plain_values(document, queue, document.due_at(queue.now)) for document in documents
        ]
        return Pushed((yield from self._add_plain(self.ledger(), queue, values)))

    def _add_plain(
        self,
        ledger: Ledger,
        queue: QueueRow,
        values: list[dict[str, Any]],
        add: MakeStatement | None = None,
    ) -> Steps[tuple[int, ...]]:
        """Write new items that have no subject, and count them; their ids."""
        due = [row for row in values if row["state"] == State.PENDING]
        turns = (yield from take_turns(self.sql, len(due))) if due else []
        discipline = queue.settings.discipline
        for row, turn in zip(due, turns, strict=True):
            row["position"] = rules.place_of(discipline, turn)
        written = yield Many.of(add or self.sql.add_plain_items, values)
        ids = sorted(row["id"] for row in written)
        if not ids:
            # Numbered in a row, and only the last number is told.
            [last] = yield self.sql.last_item()
            ids = list(range(last["id"] - len(values) + 1, last["id"] + 1))
        ledger.count(queue, entered=len(ids), pending=len(due), planned=len(ids) - len(due))
        if due:
            ledger.announced.add(f"queue/{queue.name}")
        for channel, count in Counter(row.get("key_values") for row in values).items():
            ledger.totals.shift(queue, channel, enqueued=count)
        yield from ledger.write()
        return tuple(ids)

    def _push_to_channels(
        self, queue: QueueRow, documents: Sequence[Document]
    ) -> Steps[Pushed | None]:
        """Take in documents for channels, if nothing can be in the way of any, and they replace
        nothing."""
        if any(doc.subject is not None or doc.key_values is None for doc in documents):
            return None
        if any(is_updateable(doc) for doc in documents):
            return None
        ledger = self.ledger()
        channels = ledger.channels
        channels.note(queue)
        for document in documents:
            channels.want(queue, document.key_values)
        yield from channels.hold()
        if channels.are_updateable:
            return None
        values = [
            plain_values(document, queue, document.due_at(queue.now))
            | {
                "channel": channels.id_of(queue, document.key_values),
                "key_values": document.key_values,
            }
            for document in documents
        ]
        ids = yield from self._add_plain(ledger, queue, values, self.sql.add_channel_items)
        yield from channels.join(
            (queue, row["key_values"]) for row in values if row["state"] == State.PENDING
        )
        return Pushed(ids)

    def _check_room(
        self,
        queue: QueueRow,
        limits: Limits | None,
        news: Counter[str | None],
        moved: Counter[str | None],
    ) -> Steps[None]:
        """Refuse new items, by channel, that the queue has no room for; others may have moved."""
        if queue.settings.is_limited:
            yield from self._check_sizes(queue, news, moved)
        if limits is not None and news:
            wanted = {
                bucket
                for channel in news
                for bucket in limits.bounds(queue.name, channel, "enqueued").buckets
            }
            used = yield from Buckets(self.sql, queue.now).lock(wanted)
            room = Room(used)
            for channel, count in moved.items():
                room.take(limits.bounds(queue.name, channel, "enqueued"), count)
            check_limits(queue.name, limits, room, news)

    def _check_sizes(
        self, queue: QueueRow, news: Counter[str | None], moved: Counter[str | None]
    ) -> Steps[None]:
        if queue.settings.metrics:
            [row] = yield self.sql.sum_tallies(queue=queue.id)
            held = row["planned"] + row["pending"] + row["active"]
        else:
            counted = yield self.sql.count_items(queue=queue.id)
            held = sum(row["count"] for row in counted)
        names = sorted(name for name in news if name is not None)
        sizes: dict[str, int] = {}
        if names:
            found = yield self.sql.channel_sizes(queue=queue.id, names=names)
            stored = {row["key_values"]: row["size"] for row in found}
            sizes = {name: stored.get(name, 0) + moved[name] for name in names}
        check_room(queue.name, queue.settings, held=held, news=news, channels=sizes)

    def _push_some(
        self, pushing: Pushing, indexes: Sequence[int], *, is_checked: bool
    ) -> Steps[list[int]]:
        """Take in some documents; those that have to be looked at again."""
        call = pushing.call
        yield from self._look(pushing, indexes)
        ledger = self.ledger()
        places: dict[int, list[int]] = {}
        later: list[int] = []
        for index in indexes:
            document = call.documents[index]
            if later or self._must_wait(pushing, document):
                # And what comes after it, so that all come into line in their order.
                later.append(index)
                continue
            id, note = self._push_document(ledger, pushing, index, document)
            places.setdefault(id, []).append(index)
            pushing.notes.pop(index, None)
            if note is not None:
                pushing.notes[index] = note
        if not is_checked:
            # What has to be looked at again may be new as well.
            news = ledger.news() + Counter(call.documents[index].key_values for index in later)
            yield from self._check_room(pushing.queue, pushing.limits, news, ledger.moved())
        yield from self._take_subjects(pushing, ledger)
        if ledger.parts:
            yield from self.append(ledger.parts)
        got = yield from ledger.write()
        for id, mine in places.items():
            if id < 0 and id not in got:
                later += mine
                continue
            for index in mine:
                pushing.ids[index] = got.get(id, id)
        return sorted(later)

    def _take_subjects(self, pushing: Pushing, ledger: Ledger) -> Steps[None]:
        """Take the subjects of new items, where they count for longer than an item lives.

        One that somebody else took between our look and now is not pushed: then we look again.
        """
        queue = pushing.queue
        if not ledger.used:
            return
        is_window = queue.settings.unique == "window"
        window = round(queue.settings.unique_window * 1000)
        subjects = sorted(subject for _, subject in ledger.used)
        found = yield self.sql.take_subjects(
            queue=queue.id,
            subjects=subjects,
            at=queue.now,
            since=queue.now - window if is_window else NEVER,
        )
        taken = {row["subject"] for row in found}
        ledger.give_up({subject for subject in subjects if subject not in taken})

    def _must_wait(self, pushing: Pushing, document: Document) -> bool:
        """Whether it is not known yet what it replaces, or that has to have an id first, to be
        told of in a topic."""
        if document.subject is None and document.key_values in pushing.unsure:
            return True
        if document.subject is None:
            live = pushing.last.get(document.key_values or "")
        else:
            live = pushing.live.get(document.subject)
        is_new = live is not None and live.id < 0
        return is_new and pushing.queue.settings.keep_superseded is not None

    def _look(self, pushing: Pushing, indexes: Sequence[int]) -> Steps[None]:
        queue = pushing.queue
        subjects = sorted(
            {s for index in indexes if (s := pushing.call.documents[index].subject) is not None}
        )
        pushing.live, pushing.used = {}, {}
        yield from self._look_at_channels(pushing, indexes)
        if not subjects:
            return
        found = yield self.sql.find_subjects(queue=queue.id, subjects=subjects)
        pushing.live = {row["subject"]: item_of(row, queue.name) for row in found}
        if queue.settings.unique == "live":
            return
        found = yield self.sql.find_used(queue=queue.id, subjects=subjects)
        pushing.used = {row["subject"]: row["at"] for row in found}
        unseen = sorted(set(pushing.used) - set(pushing.live))
        if unseen:
            # Pushed between the two looks, or gone for good.
            found = yield self.sql.find_subjects(queue=queue.id, subjects=unseen)
            pushing.live |= {row["subject"]: item_of(row, queue.name) for row in found}

    def _push_document(
        self, ledger: Ledger, pushing: Pushing, index: int, document: Document
    ) -> tuple[int, Note | None]:
        queue, call, now = pushing.queue, pushing.call, pushing.queue.now
        live = None if document.subject is None else pushing.live.get(document.subject)
        if live is None:
            if self._is_taken(pushing, document):
                return 0, Note(index, "skipped", "taken")
            due = _due(call, document, now, now)
            last = pushing.last.get(document.key_values or "")
            if last is not None and is_replaceable(last, document, due, now):
                after = rules.renewed(last, document, due, now)
                self._renew(ledger, pushing, last, after)
                return last.id, Note(index, "updated")
            item = ledger.add(queue, rules.dated(document, due), now)
            self._note_live(pushing, item)
            return item.id, None
        if call.mode == "push":
            return live.id, Note(index, "skipped", "exists")
        return live.id, self._upsert(ledger, pushing, live, index, document)

    def _is_taken(self, pushing: Pushing, document: Document) -> bool:
        settings = pushing.queue.settings
        if document.subject is None or document.subject not in pushing.used:
            return False
        if settings.unique == "window":
            until = pushing.used[document.subject] + round(settings.unique_window * 1000)
            return pushing.queue.now < until
        return settings.unique == "forever"

    def _look_at_channels(self, pushing: Pushing, indexes: Sequence[int]) -> Steps[None]:
        """Find the items whose content may be replaced by what is pushed to their channel."""
        queue, documents = pushing.queue, [pushing.call.documents[index] for index in indexes]
        wanted = {doc.key_values for doc in documents if doc.subject is None} - {None}
        pushing.last, pushing.unsure = {}, set()
        if not wanted:
            return
        names = sorted(name for name in wanted if name is not None)
        # A document may have to give its place to another of the same call.
        certain = sorted({doc.key_values or "" for doc in documents if is_updateable(doc)})
        found = yield self.sql.last_in_line(queue=queue.id, names=names, certain=certain)
        last = {row["key_values"]: item_of(row, queue.name) for row in found}
        updateable = sorted(item.id for item in last.values() if is_updateable(item))
        if updateable:
            # Locked, and as they are then: somebody may have claimed or changed them meanwhile.
            found = yield self.sql.load_items(queue=queue.id, ids=updateable)
            locked = {row["id"]: item_of(row, queue.name) for row in found}
            last |= {name: locked[item.id] for name, item in last.items() if item.id in locked}
        pushing.last = {
            name: item
            for name, item in last.items()
            if item.state == State.PENDING and item.key_values == name
        }

    def _renew(self, ledger: Ledger, pushing: Pushing, last: ItemState, after: ItemState) -> None:
        """Put newer content in place of that of the last item in a channel's line."""
        self.keep_superseded(ledger, pushing.queue, last, last)
        ledger.move(pushing.queue, last, after)
        pushing.last[after.key_values or ""] = after
        if after.priority != last.priority:
            # Somebody else may be the last now.
            pushing.unsure.add(after.key_values)

    def _note_live(self, pushing: Pushing, item: ItemState) -> None:
        if item.subject is not None:
            pushing.live[item.subject] = item
        if item.key_values is None or item.state != State.PENDING:
            return
        last = pushing.last.get(item.key_values)
        if last is None or is_behind(item, last, pushing.queue.settings.discipline):
            pushing.last[item.key_values] = item

    def _upsert(
        self, ledger: Ledger, pushing: Pushing, item: ItemState, index: int, document: Document
    ) -> Note:
        queue, call, now = pushing.queue, pushing.call, pushing.queue.now
        refusal = _refusal(queue, item, call)
        if refusal is not None:
            return Note(index, "skipped", refusal)
        if item.state == State.ACTIVE:
            earlier = rules.successor_of(item)
            if earlier is not None:
                self.keep_superseded(ledger, queue, item, earlier)
            after = rules.followed(item, document, _due(call, document, now, now))
            note = Note(index, "next")
        else:
            self.keep_superseded(ledger, queue, item, item)
            due = _due(call, document, item.waiting_since, now)
            after = rules.replaced(item, document, due, now)
            note = Note(index, "updated")
        ledger.move(queue, item, after)
        self._note_live(pushing, after)
        # Whatever was the last of these need not be so any more.
        pushing.unsure |= {item.key_values, after.key_values} - {None}
        return note


def _due(call: PushCall, document: Document, waiting_since: int, now: int) -> int:
    if call.mode == "upsert" and call.debounce_ms is not None:
        return rules.debounced(waiting_since, now, call.debounce_ms, call.max_wait_ms)
    return document.due_at(now)


def _refusal(queue: QueueRow, item: ItemState, call: PushCall) -> Skip | None:
    if rules.overrides_of(item).updateable is False:
        return "fixed"
    while_active = call.while_active or queue.settings.while_active
    if item.state == State.ACTIVE and while_active == "skip":
        return "active"
    return None
