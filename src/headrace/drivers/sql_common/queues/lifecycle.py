"""The life cycle of queues in SQL."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, item_of, queue_of, text_of
from headrace.drivers.sql_common.statements import Notify
from headrace.model import error_messages
from headrace.model.queues import transitions as rules
from headrace.model.queues.settings import (
    QueueChanges,
    QueueInfo,
    QueueSettings,
    capacity_word,
    changed,
    with_dead_queue,
)

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class QueueLifecycle:
    """Makes, changes and drops queues."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def create(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            queue = yield from self._context.storage.find_queue(name)
            if queue is None:
                wanted = changed((yield from self._context.storage.defaults()), changes)
                made = yield from self._context.storage.made_queue(name, wanted)
                return made.info
            if must_be_new:
                raise error_messages.queue_exists(name)
            if not changes:
                return queue.info
            return (yield from self._update(name, changes))

        return Op("queues.create", steps, repeatable=not must_be_new)

    def info(self, name: str) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            return (yield from self._context.storage.queue_row(name)).info

        return Op("queues.info", steps, writes=False)

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[QueueInfo]]:
        def steps() -> Steps[list[QueueInfo]]:
            found = yield self.sql.list_queues(
                prefix=prefix, after=after, limit=limit, now=self.clock()
            )
            return [queue_of(row).info for row in found]

        return Op("queues.list", steps, writes=False)

    def update(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        return Op("queues.update", lambda: self._update(name, changes))

    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            queue = yield from self._context.storage.locked_queue(name)
            changes = with_dead_queue(queue.settings, to)
            return (yield from self._update(name, changes)) if changes else queue.info

        return Op("queues.add_dead_queue", steps, repeatable=True)

    def _update(self, name: str, changes: QueueChanges) -> Steps[QueueInfo]:
        queue = yield from self._context.storage.locked_queue(name)
        settings = changed(queue.settings, changes)
        before = queue.settings
        if settings != before:
            info = replace(queue.info, settings=settings, version=queue.info.version + 1)
            queue = queue._replace(info=info)
        is_reordered = settings.discipline != before.discipline
        starts_counting = settings.metrics and not before.metrics
        if is_reordered or starts_counting:
            yield from self._context.storage.close_queue(queue)
        was_frozen = queue.frozen_until is not None
        if settings != before or was_frozen:
            queue = queue._replace(frozen_until=None)
            yield from self._context.storage.save_queue(queue)
        if is_reordered:
            yield self.sql.rerank_items(queue=queue.id, discipline=settings.discipline)
        if starts_counting:
            yield from self._context.stats.recount(queue)
        if was_frozen:
            yield self.sql.set_desired_state(queue=name, desired="running")
        yield Notify(frozenset({f"queue/{name}", capacity_word(name)}))
        return queue.info

    def pause(self, name: str, by: str | None) -> Op[QueueInfo]:
        return Op(
            "queues.pause", lambda: self.set_paused(name, by, is_paused=True), repeatable=True
        )

    def resume(self, name: str) -> Op[QueueInfo]:
        return Op(
            "queues.resume", lambda: self.set_paused(name, None, is_paused=False), repeatable=True
        )

    def set_paused(self, name: str, by: str | None, *, is_paused: bool) -> Steps[QueueInfo]:
        queue = yield from self._context.storage.locked_queue(name)
        if queue.info.is_paused != is_paused:
            info = replace(queue.info, is_paused=is_paused, paused_by=by)
            queue = queue._replace(info=info)
            yield from self._context.storage.save_queue(queue)
        if not is_paused:
            yield Notify(frozenset({f"queue/{name}"}))
        return queue.info

    def drop(self, name: str, keep_data: bool) -> Op[int]:
        return Op("queues.drop", lambda: self._drop(name, keep_data=keep_data))

    def _drop(self, name: str, *, keep_data: bool) -> Steps[int]:
        queue = yield from self._context.storage.locked_queue(name)
        yield from self._context.storage.close_queue(queue)
        yield Notify(frozenset({f"queue/{name}"}))
        counted = yield self.sql.count_items(queue=queue.id)
        live: int = sum(row["count"] for row in counted)
        if keep_data:
            unit = self._context.storage.unit_of_work()
            found = yield self.sql.active_items(queue=queue.id)
            for row in found:
                item = item_of(row, name)
                unit.move(queue, item, rules.released(item, queue.now))
            yield from unit.write()
            if found:
                # A transaction that waited for one of them may have added the first channel.
                queue = yield from self._context.storage.locked_queue(name)
            info = replace(queue.info, is_paused=False, paused_by=None)
            yield from self._context.storage.save_queue(
                queue._replace(is_live=False, frozen_until=None, info=info)
            )
            return live
        if queue.limit_version:
            yield from self._uncount_all(queue)
        if self._context.traits.parks_channels:
            yield self.sql.remove_parking_lanes(queues=[queue.id])
        yield (
            self.sql.remove_all_items(queue=queue.id),
            self.sql.remove_all_finished(queue=queue.id),
            self.sql.remove_all_used(queue=queue.id),
            self.sql.remove_all_errors(queue=queue.id),
            self.sql.remove_all_samples(queue=queue.id),
            self.sql.remove_tallies(queue=queue.id),
            self.sql.remove_all_turns(queue=queue.id),
            self.sql.remove_all_channels(queue=queue.id),
            self.sql.remove_all_deleted_items(queue=queue.id),
            self.sql.remove_all_selections(queue=queue.id),
            self.sql.remove_all_lanes(queue=queue.id),
            self.sql.remove_all_delays(queue=queue.id),
            self.sql.remove_queue(queue=queue.id),
        )
        return live

    def _uncount_all(self, queue: QueueRow) -> Steps[None]:
        """Subtract all items of a queue from the counters that they add to."""
        unit = self._context.storage.unit_of_work()
        queues = [queue.id]
        running, live = yield (
            self.sql.count_running(queues=queues),
            self.sql.count_live(queues=queues),
        )
        for on, rows in (("running", running), ("enqueued", live)):
            for row in rows:
                unit.limit_counters.shift(queue, row["key_values"], **{on: -row["count"]})
        yield from unit.write()

    def defaults(self) -> Op[QueueSettings]:
        return Op("queues.defaults", self._context.storage.defaults, writes=False)

    def set_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        def steps() -> Steps[QueueSettings]:
            settings = changed((yield from self._context.storage.defaults()), changes)
            yield self.sql.save_defaults(settings=text_of(settings))
            return settings

        return Op("queues.set_defaults", steps, repeatable=True)
