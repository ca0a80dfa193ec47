"""Common steps of all operations on queues in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import FinishedItem
from headrace.contract.op import Steps
from headrace.contract.values import CommitPart
from headrace.drivers.sql_common.limits.counter_changes import LimitCounterChanges
from headrace.drivers.sql_common.limits.rule_rows import ALL_ROWS, rules_of
from headrace.drivers.sql_common.queues.rows import (
    QueueRow,
    item_of,
    queue_of,
    settings_of,
    text_of,
)
from headrace.drivers.sql_common.queues.unit_of_work import UnitOfWork
from headrace.drivers.sql_common.statements import Row
from headrace.model import error_messages
from headrace.model.limits.limit_set import NO_LIMITS, LimitSet
from headrace.model.queues import dead_letter
from headrace.model.queues import transitions as rules
from headrace.model.queues.channels import gives_way
from headrace.model.queues.items import Document, Ended, ItemState, State, Verdict, successor_of
from headrace.model.queues.settings import DEFAULTS, QueueInfo, QueueSettings

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class QueueStorage:
    """Finds and makes queues, and carries out verdicts."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def unit_of_work(self, limit_counters: LimitCounterChanges | None = None) -> UnitOfWork:
        """An empty unit of work. An operation that gives it ``limit_counters`` writes these
        itself."""
        return UnitOfWork(
            self.sql,
            retires=self._context.traits.retires_channels,
            limits_of=self.limits_of,
            limit_counters=limit_counters,
        )

    def limit_counter_changes(self) -> LimitCounterChanges:
        """Changes of counters for several units of work."""
        return LimitCounterChanges(self.sql, self.limits_of)

    def limits_of(self, queue: QueueRow) -> Steps[LimitSet]:
        """The rules for a queue that this operation has entered.

        Rules that were read at a later version are as good: they have not changed for this queue,
        or its row would have another version.
        """
        return (yield from self.limits_at(queue.limit_version))

    def limits_at(self, version: int) -> Steps[LimitSet]:
        """The rules at a version or a later one."""
        if not version:
            return NO_LIMITS
        known = self._context.cached_limits
        if known is None or known.version < version:
            sql = self.sql
            # The version first: rules that are read afterwards may be newer, but not older.
            [row], rows = yield sql.limit_version(), sql.list_limits(after="", limit=ALL_ROWS)
            known = LimitSet(rules_of(rows).values(), row["version"])
            if self._context.traits.caches_limits:
                self._context.cached_limits = known
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
            raise error_messages.unknown_queue(name)
        return queue

    def entered_queue(self, name: str) -> Steps[QueueRow | None]:
        """A queue whose order and counts this operation is going to change, if there is one.

        Its discipline, and whether it counts, stay as they are until the operation ends.
        """
        lock = self._context.queue_lock
        if lock is None:
            return (yield from self.find_queue(name))
        sql = self.sql
        # Entered before it is read, in one round trip: the row stays valid until COMMIT.
        _, found = yield lock.enter(sql, name), sql.find_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        return queue if queue is not None and queue.is_live else None

    def open_queue(self, name: str) -> Steps[QueueRow]:
        """The same, or ``UnknownQueue``."""
        queue = yield from self.entered_queue(name)
        if queue is None:
            raise error_messages.unknown_queue(name)
        return queue

    def close_queue(self, queue: QueueRow) -> Steps[None]:
        """Wait until all operations that have entered a locked queue have ended; no more enter."""
        lock = self._context.queue_lock
        if lock is not None:
            yield lock.close(self.sql, queue)

    def locked_queue(self, name: str) -> Steps[QueueRow]:
        """A queue that no other transaction changes meanwhile, or ``UnknownQueue``."""
        found = yield self.sql.lock_queue(name=name, now=self.clock())
        if not found or not found[0]["is_live"]:
            raise error_messages.unknown_queue(name)
        return queue_of(found[0])

    def made_queue(self, name: str, settings: QueueSettings | None = None) -> Steps[QueueRow]:
        """A queue, made with the settings (or the stored defaults) if there is none."""
        found: Sequence[Row] = ()
        while not found:
            # Again if another transaction has dropped a queue that we had just found.
            queue = yield from self.entered_queue(name)
            if queue is not None:
                return queue
            wanted = settings or (yield from self.defaults())
            # The queue begins with the present rules.
            yield self.sql.lock_limits_shared()
            yield self.sql.add_queue(
                name=name, settings=text_of(wanted), created_at=(yield from self.time())
            )
            found = yield self.sql.lock_queue(name=name, now=self.clock())
        queue = queue_of(found[0])
        if queue.is_live:
            return queue
        # There was one of this name, and its data was kept.
        revived = queue._replace(is_live=True, frozen_until=None)
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
            yield from self._context.stats.recount(revived)
        return revived

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
            frozen_until=queue.frozen_until,
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

    def delayed_until(self, queue: QueueRow, key_values: str) -> Steps[int | None]:
        """The end of a channel's delay, if it is delayed."""
        found = yield self.sql.find_delay(queue=queue.id, key_values=key_values, now=queue.now)
        return found[0]["until"] if found else None

    def become(
        self, unit: UnitOfWork, queue: QueueRow, item: ItemState, verdict: Verdict, now: int
    ) -> Steps[ItemState | None]:
        """Carry out the verdict on a live item; returns the item if it waits again."""
        if isinstance(verdict, ItemState):
            unit.move(queue, item, verdict)
            return verdict
        unit.move(queue, item, None)
        if verdict is None:
            unit.free(queue, item)
        elif verdict.state == State.COMPLETED:
            if queue.settings.keep != "none":
                unit.keep(queue, kept(verdict, now))
        elif queue.settings.dead_queues(queue.name):
            yield from self._pass_on(unit, queue, verdict, now)
        else:
            unit.keep(queue, kept(verdict, now))
        successor = successor_of(item)
        if successor is not None:
            unit.add(queue, successor, now)
        return None

    def failed(
        self, unit: UnitOfWork, queue: QueueRow, item: ItemState, verdict: Verdict
    ) -> Steps[ItemState | None]:
        """Carry out the verdict on an item that failed, unless newer content replaces the item."""
        if isinstance(verdict, ItemState) and item.key_values is not None:
            found = yield self.sql.last_in_line(queue=queue.id, names=[item.key_values], certain=[])
            last = unit.last_in_line(queue, [item_of(row, queue.name) for row in found])
            if gives_way(item, queue.settings, last.get(item.key_values)):
                unit.count(queue, dropped=1)
                self.keep_superseded(unit, queue, item, verdict)
                verdict = None
        return (yield from self.become(unit, queue, item, verdict, queue.now))

    def keep_superseded(
        self, unit: UnitOfWork, queue: QueueRow, item: ItemState, replaced: ItemState | Document
    ) -> None:
        """Commit content that newer content replaced, where the queue has ``keep_superseded``."""
        topic = queue.settings.keep_superseded
        if topic is not None:
            unit.parts.append(
                CommitPart(topic, 1, dead_letter.superseded(item, replaced, queue.now))
            )

    def _pass_on(self, unit: UnitOfWork, queue: QueueRow, ended: Ended, now: int) -> Steps[None]:
        for name in queue.settings.dead_queues(queue.name):
            other = yield from self.made_queue(name)
            subject = dead_letter.subject_in(ended.item, other.settings)
            taken: object = []
            if subject is not None:
                taken = yield self.sql.find_subject(queue=other.id, subject=subject)
            is_free = not taken and not unit.has_subject(other, subject)
            copy = dead_letter.dead_copy(ended, other.settings, is_subject_free=is_free)
            if copy is not None:
                # Where equal content exists only once, another push may have added it meanwhile.
                unit.add(other, copy, now, must_come=not other.settings.unique_content)


def kept(ended: Ended, now: int) -> FinishedItem:
    """The row that is kept of an ended item."""
    is_dead = ended.state == State.DEAD
    fingerprint, title = dead_letter.fingerprint_and_title(ended) if is_dead else (None, None)
    return FinishedItem(
        item=rules.without_claim(ended.item),
        ended_at=now,
        cause=ended.cause,
        fingerprint=fingerprint,
        title=title,
    )
