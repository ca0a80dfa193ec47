"""The unit of work: collects the changes of an operation on queues, and writes them together.

Rules decide item by item, but a database is fast with few statements. So each decision is entered
here, and the unit of work writes all of them: new places in line, items, kept rows of ended items,
errors, and one row of counts per queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from headrace.contract.items import COUNTED, FinishedItem
from headrace.contract.op import Steps
from headrace.contract.values import CommitPart
from headrace.drivers.sql_common.limits.counter_changes import LimitCounterChanges
from headrace.drivers.sql_common.queues import ready_channels, rows
from headrace.drivers.sql_common.queues.ready_channels import allocate_positions
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.drivers.sql_common.statements import Many, NoReply, Notify, Statement, Statements
from headrace.model.failures import Failure, encode_failure
from headrace.model.limits.limit_set import LimitSet
from headrace.model.queues import transitions as rules
from headrace.model.queues.channels import is_updateable, unblocks
from headrace.model.queues.items import Document, ItemState, State, is_before, place_of
from headrace.model.queues.settings import capacity_word

STATES = {
    State.DEAD: "dead",
    State.PLANNED: "planned",
    State.PENDING: "pending",
    State.ACTIVE: "active",
    State.COMPLETED: "completed",
}


@dataclass
class ItemChange:
    """An item before (None: it did not exist) and after its change.

    ``coming`` orders the items that join the line. An item that ``must_come`` loses its subject if
    another item has it.
    """

    queue: QueueRow
    before: ItemState | None
    after: ItemState | None
    coming: int = 0
    must_come: bool = False


class UnitOfWork:
    """The changes of one operation. New items have ids below zero until they are written."""

    def __init__(
        self,
        sql: Statements,
        *,
        retires: bool = True,
        limits_of: Callable[[QueueRow], Steps[LimitSet]] | None = None,
        limit_counters: LimitCounterChanges | None = None,
    ) -> None:
        self.sql = sql
        self.retires = retires
        self.limit_counters = limit_counters or LimitCounterChanges(sql, limits_of)
        self._writes_limit_counters = limit_counters is None
        self.channels = ready_channels.ReadyChannels(sql)
        self.entries: dict[int, ItemChange] = {}
        self.ended: list[tuple[QueueRow, FinishedItem]] = []
        self.unended: list[tuple[QueueRow, FinishedItem]] = []
        self.errors: list[dict[str, object]] = []
        self.used: dict[tuple[int, str], tuple[QueueRow, int | None]] = {}
        self.counts: dict[int, Counter[str]] = {}
        self.parts: list[CommitPart] = []
        self.announced: set[str] = set()
        self.comings = 0

    def count(self, queue: QueueRow, **happened: int) -> None:
        """Count events, where the queue keeps running counts."""
        if queue.settings.metrics:
            counts = self.counts.setdefault(queue.id, Counter())
            for name, number in happened.items():
                counts[name] += number

    def move(self, queue: QueueRow, before: ItemState | None, after: ItemState | None) -> None:
        """Note that an item changes, begins (before: None) or ends (after: None)."""
        known = before or after
        assert known is not None
        entry = self.entries.setdefault(known.id, ItemChange(queue, before, None))
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
            self.announced.add(capacity_word(queue.name))
        if queue.settings.serial and before is not None and unblocks(before, after):
            self.announced.add(f"queue/{queue.name}")

    def note_ended(self, queue: QueueRow, channels: Iterable[str | None]) -> None:
        """Note the channel of each item in flight that a separate statement has ended."""
        if queue.limit_version:
            for channel, count in Counter(channels).items():
                self.limit_counters.shift(queue, channel, running=-count, enqueued=-count)

    def add(
        self, queue: QueueRow, document: Document, now: int, *, must_come: bool = False
    ) -> ItemState:
        """Add a new item."""
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
        """Remove the new items with these subjects; all uses of subjects are written by now."""
        self.used.clear()
        for id, entry in list(self.entries.items()):
            item = entry.after
            if entry.before is None and item is not None and item.subject in subjects:
                self._withdraw(entry.queue, item)
                del self.entries[id]

    def free(self, queue: QueueRow, item: ItemState) -> None:
        """Free the subject of an item that is removed without a trace."""
        if item.subject is not None:
            self.used[queue.id, item.subject] = (queue, None)

    def keep(self, queue: QueueRow, ended: FinishedItem) -> None:
        """Keep an item that has ended."""
        self.ended.append((queue, ended))
        self.count(queue, **{STATES[State(ended.item.state)]: 1})

    def unkeep(self, queue: QueueRow, ended: FinishedItem) -> None:
        """No longer keep an ended item."""
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
        """Assign places to the items that join the line, in the order in which they join."""
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
        turns = yield from allocate_positions(self.sql, len(coming))
        for entry, turn in zip(coming, turns, strict=True):
            assert entry.after is not None
            place = place_of(entry.queue.settings.discipline, turn)
            entry.after = replace(entry.after, position=place)

    def write_new(self) -> Steps[dict[int, int]]:
        """Write the new items; returns the ids they got, by the ids they had here.

        A new item got none if another transaction used its subject meanwhile.
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
                self._withdraw(entry.queue, entry.after)
                del self.entries[id]
        if stuck:
            got |= yield from self._add(stuck)
        return got

    def _add(self, coming: dict[int, ItemChange]) -> Steps[dict[int, int]]:
        values = [
            rows.new_values(entry.after, entry.queue, self.channel_of(entry.queue, entry.after))
            for entry in coming.values()
            if entry.after is not None
        ]
        written = yield Many.of(self.sql.add_items, values)
        # Ids are assigned in the order of the rows; rows with a subject identify themselves.
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

    def _withdraw(self, queue: QueueRow, item: ItemState) -> None:
        """Forget a new item that was not written: another transaction used its subject."""
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
        """How the number of items that existed before changes, by channel."""
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
            if known is None or is_before(queue.settings.discipline, known, item):
                last[item.key_values] = item
        return last

    def write(self) -> Steps[dict[int, int]]:
        """Write everything; returns the ids that new items got, by the ids they had here."""
        yield from self.place()
        yield from self.lock_channels()
        # First the changes that free a subject, then those that use it.
        before = self._removals()
        if before:
            yield NoReply(tuple(before))
        got = yield from self.write_new()
        statements = [*self._saves(), *self._kept(), *self._uses()]
        if self.errors:
            statements.append(Many.of(self.sql.add_errors, self.errors))
        statements += self._tallies()
        if statements:
            yield NoReply(tuple(statements))
        yield from self._take_turns()
        # The last locks of all: a transaction that has locked a counter waits for nothing else.
        self._shift_limit_counters()
        if self._writes_limit_counters:
            self.announced |= yield from self.limit_counters.write()
        if self.announced:
            yield Notify(frozenset(self.announced))
        return got

    def write_counts(self) -> Steps[None]:
        """``write`` where one statement has changed all items, and there are no rules."""
        tallies = self._tallies()
        if tallies:
            yield NoReply(tuple(tallies))
        if self.announced:
            yield Notify(frozenset(self.announced))

    def _tallies(self) -> list[Statement | Many]:
        found: list[Statement | Many] = []
        for queue, counts in self.counts.items():
            numbers = {name: counts[name] for name in COUNTED}
            if any(numbers.values()):
                found.append(self.sql.add_tally(queue=queue, **numbers))
        return found

    def _shift_limit_counters(self) -> None:
        """The only place where slots are released, for every change of an item."""
        for entry in self.entries.values():
            queue = entry.queue
            if queue.id in self.channels.marked:
                queue = queue._replace(limit_version=self.channels.marked[queue.id])
            for item, sign in ((entry.before, -1), (entry.after, 1)):
                if item is not None:
                    is_active = item.state == State.ACTIVE
                    running = sign if is_active else 0
                    self.limit_counters.shift(
                        queue, item.key_values, running=running, enqueued=sign
                    )

    def lock_channels(self) -> Steps[None]:
        """Find or make the channels of items that enter a channel or join its line.

        No other transaction removes them, or their turns, before this transaction ends.
        """
        for entry in self._coming():
            assert entry.after is not None
            self.channels.want(
                entry.queue, entry.after.key_values, updateable=is_updateable(entry.after)
            )
        yield from self.channels.lock()

    def channel_of(self, queue: QueueRow, item: ItemState) -> int:
        """The id of the channel that an item enters."""
        return self.channels.id_of(queue, item.key_values)

    def _coming(self) -> list[ItemChange]:
        """The changes of items that enter a channel or join its line, in that order."""
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
        """Give turns to channels that have items in line, and remove those of others."""
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
            else self.sql.remove_finished(queue=-queue, ids=ids)
            for queue, ids in gone.items()
        ]

    def _kept(self) -> list[Statement | Many]:
        values = [rows.ended_values(ended, queue) for queue, ended in self.ended]
        return [Many.of(self.sql.add_finished, values)] if values else []

    def _uses(self) -> list[Statement | Many]:
        return [
            self.sql.free_subject(queue=queue.id, subject=subject)
            if at is None
            else self.sql.use_subject(queue=queue.id, subject=subject, at=at)
            for (_, subject), (queue, at) in sorted(self.used.items(), key=lambda used: used[0])
        ]
