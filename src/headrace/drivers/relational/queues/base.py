"""What all operations on queues in SQL are made of."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.items import EndedItem
from headrace.contract.op import Steps
from headrace.contract.values import Part
from headrace.drivers.relational.queues.ledger import Ledger
from headrace.drivers.relational.queues.limit_rows import EVERY, rules_of
from headrace.drivers.relational.queues.rows import (
    QueueRow,
    item_of,
    queue_of,
    settings_of,
    text_of,
)
from headrace.drivers.relational.sql import Row
from headrace.drivers.relational.topics import Topics
from headrace.model import items as rules
from headrace.model import letters, refusals
from headrace.model.channels import gives_way
from headrace.model.items import Document, Ended, ItemState, State, Verdict
from headrace.model.limiting import NO_LIMITS, Limits
from headrace.model.queues import DEFAULTS, QueueInfo, QueueSettings


class QueueBase(Topics):
    """Queues to find and to make, and verdicts to carry out."""

    # Whether channels that have become empty are taken out of the turns at once. It locks them,
    # so a transaction of the user's does not: that may last.
    retires = True
    # Whether channels that wait for room are put into files. It is simple where there is one
    # writer at a time.
    files = False

    def ledger(self) -> Ledger:
        """An empty ledger."""
        return Ledger(self.sql, retires=self.retires, limits_of=self.limits_of)

    # All rules as they were last read; a transaction that may be rolled back keeps none.
    known_limits: Limits | None = None
    keeps_limits = True

    def limits_of(self, queue: QueueRow) -> Steps[Limits]:
        """The rules for a queue that this operation has entered.

        Those that were read at a later version are as good: they have not changed for this
        queue, or its row would say so.
        """
        return (yield from self.limits_at(queue.limits))

    def limits_at(self, version: int) -> Steps[Limits]:
        """The rules as they were at a version, or are later."""
        if not version:
            return NO_LIMITS
        known = self.known_limits
        if known is None or known.version < version:
            sql = self.sql
            # The version first: what is read then may be newer, but not older.
            [row], rows = yield sql.limit_version(), sql.list_limits(after="", limit=EVERY)
            known = Limits(rules_of(rows).values(), row["version"])
            if self.keeps_limits:
                self.known_limits = known
        return known

    def find_queue(self, name: str) -> Steps[QueueRow | None]:
        """A queue as it is now, if there is one."""
        found = yield self.sql.find_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        return queue if queue is not None and queue.is_live else None

    def queue_row(self, name: str) -> Steps[QueueRow]:
        """A queue as it is now, or ``UnknownQueue``."""
        queue = yield from self.find_queue(name)
        if queue is None:
            raise refusals.unknown_queue(name)
        return queue

    def entered_queue(self, name: str) -> Steps[QueueRow | None]:
        """A queue whose order and counts this operation is going to change, if there is one.

        Its discipline, and whether it counts, stay as they are until the operation's end. A
        database with one writer at a time has nothing to do for it. Nor has an operation in a
        transaction of the user's: that may last, and nobody must wait for its end.
        """
        return self.find_queue(name)

    def open_queue(self, name: str) -> Steps[QueueRow]:
        """The same, or ``UnknownQueue``."""
        queue = yield from self.entered_queue(name)
        if queue is None:
            raise refusals.unknown_queue(name)
        return queue

    def close_queue(self, queue: QueueRow) -> Steps[None]:
        """Wait for the end of all operations that have entered a locked queue; no more come."""
        yield from ()

    def locked_queue(self, name: str) -> Steps[QueueRow]:
        """A queue that nobody else changes meanwhile, or ``UnknownQueue``."""
        found = yield self.sql.lock_queue(name=name, now=self.clock())
        if not found or not found[0]["is_live"]:
            raise refusals.unknown_queue(name)
        return queue_of(found[0])

    def made_queue(self, name: str, settings: QueueSettings | None = None) -> Steps[QueueRow]:
        """A queue, made with the settings (or the stored defaults) if there is none."""
        found: Sequence[Row] = ()
        while not found:
            # Again if somebody has dropped it just when we found that it is there.
            queue = yield from self.entered_queue(name)
            if queue is not None:
                return queue
            wanted = settings or (yield from self.defaults())
            # It begins under the rules that there are.
            yield self.sql.enter_limits()
            yield self.sql.add_queue(
                name=name, settings=text_of(wanted), created_at=(yield from self.time())
            )
            found = yield self.sql.lock_queue(name=name, now=self.clock())
        queue = queue_of(found[0])
        if queue.is_live:
            return queue
        # There was one of this name, and its data was kept.
        revived = queue._replace(is_live=True, held_until=None)
        info = QueueInfo(
            name=name,
            settings=wanted,
            version=queue.info.version + 1,
            created_at=queue.now,
            has_channels=queue.info.has_channels,
        )
        revived = revived._replace(info=info)
        yield from self.save_queue(revived)
        yield self.sql.rerank_items(queue=queue.id, discipline=wanted.discipline)
        if wanted.metrics and not queue.settings.metrics:
            yield from self.recount(revived)
        return revived

    def recount(self, queue: QueueRow) -> Steps[None]:
        """Set the running counts right."""
        raise NotImplementedError

    def save_queue(self, queue: QueueRow) -> Steps[None]:
        info = queue.info
        yield self.sql.save_queue(
            id=queue.id,
            settings=text_of(info.settings),
            version=info.version,
            created_at=info.created_at,
            is_live=queue.is_live,
            is_paused=info.is_paused,
            paused_by=info.paused_by,
            held_until=queue.held_until,
        )

    def time(self) -> Steps[int]:
        """The time."""
        found = yield self.sql.read_clock(now=self.clock())
        now: int = found[0]["now"]
        return now

    def defaults(self) -> Steps[QueueSettings]:
        """The settings that new queues get."""
        found = yield self.sql.read_defaults()
        return settings_of(found[0]["settings"]) if found else DEFAULTS

    def held_until(self, queue: QueueRow, key_values: str) -> Steps[int | None]:
        """The end of a channel's hold, if it is held."""
        found = yield self.sql.find_hold(queue=queue.id, key_values=key_values, now=queue.now)
        return found[0]["until"] if found else None

    def become(
        self, ledger: Ledger, queue: QueueRow, item: ItemState, verdict: Verdict, now: int
    ) -> Steps[ItemState | None]:
        """Let the rules' verdict on a live item come true; what waits, if it does."""
        if isinstance(verdict, ItemState):
            ledger.move(queue, item, verdict)
            return verdict
        ledger.move(queue, item, None)
        if verdict is None:
            ledger.free(queue, item)
        elif verdict.state == State.COMPLETED:
            if queue.settings.keep != "none":
                ledger.keep(queue, kept(verdict, now))
        elif queue.settings.dead_queues(queue.name):
            yield from self._pass_on(ledger, queue, verdict, now)
        else:
            ledger.keep(queue, kept(verdict, now))
        successor = rules.successor_of(item)
        if successor is not None:
            ledger.add(queue, successor, now)
        return None

    def failed(
        self, ledger: Ledger, queue: QueueRow, item: ItemState, verdict: Verdict
    ) -> Steps[ItemState | None]:
        """Let the verdict on an item that failed come true, unless newer content stands for it."""
        if isinstance(verdict, ItemState) and item.key_values is not None:
            found = yield self.sql.last_in_line(queue=queue.id, names=[item.key_values], certain=[])
            last = ledger.last_in_line(queue, [item_of(row, queue.name) for row in found])
            if gives_way(item, queue.settings, last.get(item.key_values)):
                ledger.count(queue, dropped=1)
                self.keep_superseded(ledger, queue, item, verdict)
                verdict = None
        return (yield from self.become(ledger, queue, item, verdict, queue.now))

    def keep_superseded(
        self, ledger: Ledger, queue: QueueRow, item: ItemState, replaced: ItemState | Document
    ) -> None:
        """Commit content that gave way to newer content, where the queue says so."""
        topic = queue.settings.keep_superseded
        if topic is not None:
            ledger.parts.append(Part(topic, 1, letters.superseded(item, replaced, queue.now)))

    def _pass_on(self, ledger: Ledger, queue: QueueRow, ended: Ended, now: int) -> Steps[None]:
        subject = ended.item.subject
        for name in queue.settings.dead_queues(queue.name):
            other = yield from self.made_queue(name)
            taken: object = []
            if subject is not None:
                taken = yield self.sql.find_subject(queue=other.id, subject=subject)
            is_free = not taken and not ledger.has_subject(other, subject)
            copy = letters.dead_copy(ended, is_subject_free=is_free)
            ledger.add(other, copy, now, must_come=True)


def kept(ended: Ended, now: int) -> EndedItem:
    """An ended item as it is kept."""
    is_dead = ended.state == State.DEAD
    fingerprint, title = letters.likeness(ended) if is_dead else (None, None)
    return EndedItem(
        item=rules.without_claim(ended.item),
        ended_at=now,
        cause=ended.cause,
        fingerprint=fingerprint,
        title=title,
    )
