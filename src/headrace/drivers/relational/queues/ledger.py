"""What an operation on queues is about to change, until it is all written at once.

Rules decide item by item; a database wants few statements. So what is decided is entered
here, and the ledger writes it down: new places in line, items, what is kept of ended ones,
errors, and one row of counts per queue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.contract.items import COUNTED, EndedItem
from headrace.contract.op import Steps
from headrace.contract.values import Part
from headrace.drivers.relational.queues import rows
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.sql import Announce, Finally, Many, Sql, Statement
from headrace.model import items as rules
from headrace.model.failures import Failure, encode_failure
from headrace.model.items import ItemState, State

STATES = {
    State.DEAD: "dead",
    State.PLANNED: "planned",
    State.PENDING: "pending",
    State.ACTIVE: "active",
    State.COMPLETED: "completed",
}


@dataclass
class Entry:
    """An item as it was (None: not there) and as it shall be; when it last came into line."""

    queue: QueueRow
    before: ItemState | None
    after: ItemState | None
    coming: int = 0


class Ledger:
    """The changes of one operation. New items have ids below zero until they are written."""

    def __init__(self, sql: Sql) -> None:
        self.sql = sql
        self.entries: dict[int, Entry] = {}
        self.ended: list[tuple[QueueRow, EndedItem]] = []
        self.unended: list[tuple[QueueRow, EndedItem]] = []
        self.errors: list[dict[str, object]] = []
        self.used: dict[tuple[int, str], tuple[QueueRow, int | None]] = {}
        self.counts: dict[int, Counter[str]] = {}
        self.parts: list[Part] = []
        self.announced: set[str] = set()
        self.comings = 0

    def count(self, queue: QueueRow, **happened: int) -> None:
        """Count what happened, where the queue keeps running numbers."""
        if queue.settings.metrics:
            counts = self.counts.setdefault(queue.id, Counter())
            for name, number in happened.items():
                counts[name] += number

    def move(self, queue: QueueRow, before: ItemState | None, after: ItemState | None) -> None:
        """An item changes its state, comes (before: None) or goes (after: None)."""
        known = before or after
        assert known is not None
        entry = self.entries.setdefault(known.id, Entry(queue, before, None))
        entry.after = after
        if after is not None and (before is None or after.state != before.state):
            self.comings += 1
            entry.coming = self.comings
        if before is not None:
            self.count(queue, **{STATES[State(before.state)]: -1})
        if after is not None:
            self.count(queue, **{STATES[State(after.state)]: 1})
            if after.state == State.PENDING:
                self.announced.add(f"queue/{queue.name}")

    def add(self, queue: QueueRow, document: rules.Document, now: int) -> ItemState:
        """A new item."""
        item = rules.fresh(document, id=-len(self.entries) - 1, queue=queue.name, now=now)
        if item.subject is not None and queue.settings.unique != "live":
            self.used[queue.id, item.subject] = (queue, now)
        self.count(queue, entered=1)
        self.move(queue, None, item)
        return item

    def has_subject(self, queue: QueueRow, subject: str | None) -> bool:
        """Whether a new item of the queue has the subject."""
        return subject is not None and any(
            entry.after is not None
            and entry.queue.id == queue.id
            and entry.after.subject == subject
            for entry in self.entries.values()
        )

    def free(self, queue: QueueRow, item: ItemState) -> None:
        """An item is gone as if it had never been, and its subject with it."""
        if item.subject is not None:
            self.used[queue.id, item.subject] = (queue, None)

    def keep(self, queue: QueueRow, ended: EndedItem) -> None:
        """Keep an item that has ended."""
        self.ended.append((queue, ended))
        self.count(queue, **{STATES[State(ended.item.state)]: 1})

    def unkeep(self, queue: QueueRow, ended: EndedItem) -> None:
        """Do not keep an ended item any more."""
        self.unended.append((queue, ended))
        self.count(queue, **{STATES[State(ended.item.state)]: -1})

    def log(self, queue: QueueRow, item: ItemState, failure: Failure, now: int) -> None:
        """Count a failure of an active item, and keep it if the queue has an error series."""
        self.count(queue, errors=1)
        if queue.settings.errors:
            self.errors.append(
                {
                    "queue": queue.id,
                    "at": now,
                    "item": item.id,
                    "subject": item.subject,
                    "attempt": item.attempts,
                    "worker": item.worker,
                    "failure": encode_failure(failure),
                }
            )

    def place(self) -> Steps[None]:
        """Give those who come to stand in line their places, in the order of their coming."""
        coming = [
            entry
            for entry in self.entries.values()
            if entry.after is not None
            and entry.after.state == State.PENDING
            and entry.after.position is None
        ]
        if not coming:
            return
        coming.sort(key=lambda entry: entry.coming)
        turns = yield from take_turns(self.sql, len(coming))
        for entry, turn in zip(coming, turns, strict=True):
            assert entry.after is not None
            place = rules.place_of(entry.queue.settings.discipline, turn)
            entry.after = replace(entry.after, position=place)

    def write_new(self) -> Steps[dict[int, int]]:
        """Write the new items; the ids they got, by the ids they had here.

        A new item whose subject was taken meanwhile got none.
        """
        coming = {
            id: entry
            for id, entry in self.entries.items()
            if entry.before is None and entry.after is not None and id < 0
        }
        if not coming:
            return {}
        values = [
            rows.new_values(entry.after, entry.queue)
            for entry in coming.values()
            if entry.after is not None
        ]
        written = yield Many.of(self.sql.add_items, values)
        # Ids are given in the order of the rows; those with a subject say which they are.
        unnamed = iter(sorted(row["id"] for row in written if row["subject"] is None))
        named = {(row["queue"], row["subject"]): row["id"] for row in written}
        got = {}
        for id, entry in coming.items():
            assert entry.after is not None
            subject = entry.after.subject
            is_named = subject is not None
            number = named.get((entry.queue.id, subject)) if is_named else next(unnamed)
            if number is not None:
                got[id] = number
            else:
                self._take_back(entry.queue, entry.after)
        return got

    def _take_back(self, queue: QueueRow, item: ItemState) -> None:
        """A new item that did not come to be: somebody took its subject meanwhile."""
        self.count(queue, entered=-1, **{STATES[State(item.state)]: -1})
        if item.subject is not None:
            self.used.pop((queue.id, item.subject), None)

    def write(self) -> Steps[dict[int, int]]:
        """Write everything; the ids that new items got, by the ids they had here."""
        yield from self.place()
        # First what gives a subject free, then what takes it.
        before = self._removals()
        if before:
            yield Finally(tuple(before))
        got = yield from self.write_new()
        statements = [*self._saves(), *self._kept(), *self._uses()]
        if self.errors:
            statements.append(Many.of(self.sql.add_errors, self.errors))
        for queue, counts in self.counts.items():
            numbers = {name: counts[name] for name in COUNTED}
            if any(numbers.values()):
                statements.append(self.sql.add_tally(queue=queue, **numbers))
        if self.announced:
            yield Announce(frozenset(self.announced))
        if statements:
            yield Finally(tuple(statements))
        return got

    def _saves(self) -> list[Statement | Many]:
        changed = [
            rows.saved_values(entry.after, entry.queue)
            for entry in self.entries.values()
            if entry.before is not None and entry.after is not None
        ]
        return [Many.of(self.sql.save_items, changed)] if changed else []

    def _removals(self) -> list[Statement | Many]:
        gone: dict[int, list[int]] = {}
        for id, entry in self.entries.items():
            if entry.before is not None and entry.after is None:
                gone.setdefault(entry.queue.id, []).append(id)
        for queue, ended in self.unended:
            gone.setdefault(-queue.id, []).append(ended.item.id)
        return [
            self.sql.remove_items(queue=queue, ids=ids)
            if queue > 0
            else self.sql.remove_ended(queue=-queue, ids=ids)
            for queue, ids in gone.items()
        ]

    def _kept(self) -> list[Statement | Many]:
        values = [rows.ended_values(ended, queue) for queue, ended in self.ended]
        return [Many.of(self.sql.add_ended, values)] if values else []

    def _uses(self) -> list[Statement | Many]:
        return [
            self.sql.free_subject(queue=queue.id, subject=subject)
            if at is None
            else self.sql.use_subject(queue=queue.id, subject=subject, at=at)
            for (_, subject), (queue, at) in sorted(self.used.items(), key=lambda used: used[0])
        ]


def take_turns(sql: Sql, count: int) -> Steps[list[int]]:
    """As many new places in line, rising."""
    found = yield sql.take_turns(count=count)
    last: int = found[-1]["turn"]
    if len(found) == count:
        return [row["turn"] for row in found]
    # A counter that says only where it has come to.
    return list(range(last - count + 1, last + 1))
