"""What an operation on queues is about to change, until it is all written at once.

Rules decide item by item; a database wants few statements. So what is decided is entered
here, and the ledger writes it down: new places in line, items, what is kept of ended ones,
errors, and one row of counts per queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.contract.items import COUNTED, EndedItem
from headrace.contract.op import Steps
from headrace.contract.values import Part
from headrace.drivers.relational.queues import rows, turning
from headrace.drivers.relational.queues.rows import QueueRow
from headrace.drivers.relational.queues.totals import Totals
from headrace.drivers.relational.queues.turning import take_turns
from headrace.drivers.relational.sql import Announce, Finally, Many, Sql, Statement
from headrace.model import items as rules
from headrace.model.channels import is_updateable, unblocks
from headrace.model.failures import Failure, encode_failure
from headrace.model.items import ItemState, State
from headrace.model.limiting import Limits
from headrace.model.queues import room_word

STATES = {
    State.DEAD: "dead",
    State.PLANNED: "planned",
    State.PENDING: "pending",
    State.ACTIVE: "active",
    State.COMPLETED: "completed",
}


@dataclass
class Entry:
    """An item as it was (None: not there) and as it shall be; when it last came into line.

    One that ``must_come`` goes without its subject if that is taken.
    """

    queue: QueueRow
    before: ItemState | None
    after: ItemState | None
    coming: int = 0
    must_come: bool = False


class Ledger:
    """The changes of one operation. New items have ids below zero until they are written."""

    def __init__(
        self,
        sql: Sql,
        *,
        retires: bool = True,
        limits_of: Callable[[QueueRow], Steps[Limits]] | None = None,
    ) -> None:
        self.sql = sql
        self.retires = retires
        self.totals = Totals(sql, limits_of)
        self.channels = turning.Channels(sql)
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
        if after is not None and (
            before is None or after.state != before.state or after.key_values != before.key_values
        ):
            self.comings += 1
            entry.coming = self.comings
        if before is not None:
            self.count(queue, **{STATES[State(before.state)]: -1})
        if after is not None:
            self.count(queue, **{STATES[State(after.state)]: 1})
            if after.key_values is not None:
                self.channels.note(queue)
            if after.state == State.PENDING:
                self.announced.add(f"queue/{queue.name}")
        if before is not None and after is None and queue.settings.is_limited:
            self.announced.add(room_word(queue.name))
        if queue.settings.serial and before is not None and unblocks(before, after):
            self.announced.add(f"queue/{queue.name}")

    def ended_out(self, queue: QueueRow, channels: Iterable[str | None]) -> None:
        """Items that were out have gone, by a statement of its own: the channel of each."""
        if queue.limits:
            for channel, count in Counter(channels).items():
                self.totals.shift(queue, channel, running=-count, enqueued=-count)

    def add(
        self, queue: QueueRow, document: rules.Document, now: int, *, must_come: bool = False
    ) -> ItemState:
        """A new item."""
        item = rules.fresh(document, id=-len(self.entries) - 1, queue=queue.name, now=now)
        if item.subject is not None and queue.settings.unique != "live":
            self.used[queue.id, item.subject] = (queue, now)
        self.count(queue, entered=1)
        self.move(queue, None, item)
        self.entries[item.id].must_come = must_come
        return item

    def has_subject(self, queue: QueueRow, subject: str | None) -> bool:
        """Whether a new item of the queue has the subject."""
        return subject is not None and any(
            entry.after is not None
            and entry.queue.id == queue.id
            and entry.after.subject == subject
            for entry in self.entries.values()
        )

    def give_up(self, subjects: set[str]) -> None:
        """Their use is written; new items with some of the subjects shall not come to be."""
        self.used.clear()
        for id, entry in list(self.entries.items()):
            item = entry.after
            if entry.before is None and item is not None and item.subject in subjects:
                self._take_back(entry.queue, item)
                del self.entries[id]

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
        got = yield from self._add(coming)
        stuck = {}
        for id, entry in coming.items():
            if id in got or entry.after is None:
                continue
            if entry.must_come:
                self._forget_use(entry.queue, entry.after)
                entry.after = replace(entry.after, subject=None)
                stuck[id] = entry
            else:
                self._take_back(entry.queue, entry.after)
        if stuck:
            got |= yield from self._add(stuck)
        return got

    def _add(self, coming: dict[int, Entry]) -> Steps[dict[int, int]]:
        values = [
            rows.new_values(entry.after, entry.queue, self.channel_of(entry.queue, entry.after))
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
        return got

    def _take_back(self, queue: QueueRow, item: ItemState) -> None:
        """A new item that did not come to be: somebody took its subject meanwhile."""
        self.count(queue, entered=-1, **{STATES[State(item.state)]: -1})
        self._forget_use(queue, item)

    def _forget_use(self, queue: QueueRow, item: ItemState) -> None:
        if item.subject is not None:
            self.used.pop((queue.id, item.subject), None)

    def news(self) -> Counter[str | None]:
        """How many new items there are, by channel."""
        return Counter(
            entry.after.key_values
            for entry in self.entries.values()
            if entry.before is None and entry.after is not None
        )

    def moved(self) -> Counter[str | None]:
        """How many more or fewer of the items that were there before there are, by channel."""
        moved = Counter[str | None]()
        for entry in self.entries.values():
            if entry.before is not None:
                moved[entry.before.key_values] -= 1
                if entry.after is not None:
                    moved[entry.after.key_values] += 1
        return moved

    def last_in_line(self, queue: QueueRow, found: list[ItemState]) -> dict[str, ItemState]:
        """The last items in line by channel, given those that are stored."""
        last = {item.key_values: item for item in found if item.key_values is not None}
        for entry in sorted(self.entries.values(), key=lambda entry: entry.coming):
            item = entry.after
            if item is None or item.key_values is None or item.state != State.PENDING:
                continue
            known = last.get(item.key_values)
            if known is None or rules.is_before(queue.settings.discipline, known, item):
                last[item.key_values] = item
        return last

    def write(self) -> Steps[dict[int, int]]:
        """Write everything; the ids that new items got, by the ids they had here."""
        yield from self.place()
        yield from self.hold_channels()
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
        if statements:
            yield Finally(tuple(statements))
        yield from self._take_turns()
        # The last locks of all: whoever has a total waits for nothing else.
        self._shift_totals(got)
        self.announced |= yield from self.totals.write()
        if self.announced:
            yield Announce(frozenset(self.announced))
        return got

    def _shift_totals(self, got: dict[int, int]) -> None:
        """The one place where slots are given back: whatever an item was, and is now."""
        for id, entry in self.entries.items():
            if entry.before is None and id < 0 and id not in got:
                continue
            queue = entry.queue
            if queue.id in self.channels.marked:
                queue = queue._replace(limits=self.channels.marked[queue.id])
            for item, sign in ((entry.before, -1), (entry.after, 1)):
                if item is not None:
                    is_out = item.state == State.ACTIVE
                    running = sign if is_out else 0
                    self.totals.shift(queue, item.key_values, running=running, enqueued=sign)

    def hold_channels(self) -> Steps[None]:
        """Find or make the channels of what comes to be in one, or in its line.

        Nobody takes them away, or out of the turns, until the end of the transaction.
        """
        for entry in self._coming():
            assert entry.after is not None
            self.channels.want(
                entry.queue, entry.after.key_values, updateable=is_updateable(entry.after)
            )
        yield from self.channels.hold()

    def channel_of(self, queue: QueueRow, item: ItemState) -> int:
        """The number of the channel that an item comes into."""
        return self.channels.id_of(queue, item.key_values)

    def _coming(self) -> list[Entry]:
        """What comes to be in a channel, or to stand in its line, in that order."""
        coming = [
            entry
            for entry in self.entries.values()
            if entry.after is not None
            and entry.after.key_values is not None
            and (
                entry.before is None
                or entry.before.key_values != entry.after.key_values
                or entry.before.state != State.PENDING == entry.after.state
            )
        ]
        return sorted(coming, key=lambda entry: entry.coming)

    def _take_turns(self) -> Steps[None]:
        """Let channels take part in the turns that have something in line, and others not."""
        in_line = [
            (entry.queue, entry.after.key_values)
            for entry in self._coming()
            if entry.after is not None and entry.after.state == State.PENDING
        ]
        yield from self.channels.join(in_line)
        if self.retires:
            yield from self.channels.retire(
                (entry.queue, entry.before.key_values)
                for entry in self.entries.values()
                if entry.before is not None
                and entry.before.key_values is not None
                and entry.before.state == State.PENDING
                and (
                    entry.after is None
                    or entry.after.state != State.PENDING
                    or entry.after.key_values != entry.before.key_values
                )
            )

    def _saves(self) -> list[Statement | Many]:
        changed = [
            rows.saved_values(entry.after, entry.queue)
            for entry in self.entries.values()
            if entry.before is not None and entry.after is not None
        ]
        moved = [
            {
                "id": entry.after.id,
                "channel": self.channel_of(entry.queue, entry.after),
                "key_values": entry.after.key_values,
            }
            for entry in self.entries.values()
            if entry.before is not None
            and entry.after is not None
            and entry.after.key_values != entry.before.key_values
        ]
        saves: list[Statement | Many] = []
        if changed:
            saves.append(Many.of(self.sql.save_items, changed))
        if moved:
            saves.append(Many.of(self.sql.rechannel_items, moved))
        return saves

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
