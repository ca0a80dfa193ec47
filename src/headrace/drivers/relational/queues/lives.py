"""The lives of queues in SQL."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.base import QueueBase
from headrace.drivers.relational.queues.rows import QueueRow, item_of, queue_of, text_of
from headrace.drivers.relational.sql import Announce
from headrace.model import items as rules
from headrace.model import refusals
from headrace.model.queues import (
    QueueChanges,
    QueueInfo,
    QueueSettings,
    changed,
    room_word,
    with_dead_queue,
)


class Lives(QueueBase):
    """Queues are made, changed and dropped."""

    def create_queue(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            queue = yield from self.find_queue(name)
            if queue is None:
                wanted = changed((yield from self.defaults()), changes)
                made = yield from self.made_queue(name, wanted)
                return made.info
            if must_be_new:
                raise refusals.queue_exists(name)
            if not changes:
                return queue.info
            return (yield from self._update(name, changes))

        return Op("create_queue", steps, repeatable=not must_be_new)

    def queue_info(self, name: str) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            return (yield from self.queue_row(name)).info

        return Op("queue_info", steps, writes=False)

    def queues(self, prefix: str, after: str, limit: int) -> Op[list[QueueInfo]]:
        def steps() -> Steps[list[QueueInfo]]:
            found = yield self.sql.list_queues(
                prefix=prefix, after=after, limit=limit, now=self.clock()
            )
            return [queue_of(row).info for row in found]

        return Op("queues", steps, writes=False)

    def update_queue(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        return Op("update_queue", lambda: self._update(name, changes))

    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        def steps() -> Steps[QueueInfo]:
            queue = yield from self.locked_queue(name)
            changes = with_dead_queue(queue.settings, to)
            return (yield from self._update(name, changes)) if changes else queue.info

        return Op("add_dead_queue", steps, repeatable=True)

    def _update(self, name: str, changes: QueueChanges) -> Steps[QueueInfo]:
        queue = yield from self.locked_queue(name)
        settings = changed(queue.settings, changes)
        before = queue.settings
        if settings != before:
            info = replace(queue.info, settings=settings, version=queue.info.version + 1)
            queue = queue._replace(info=info)
        is_reordered = settings.discipline != before.discipline
        counts_anew = settings.metrics and not before.metrics
        if is_reordered or counts_anew:
            yield from self.close_queue(queue)
        was_held = queue.held_until is not None
        if settings != before or was_held:
            queue = queue._replace(held_until=None)
            yield from self.save_queue(queue)
        if is_reordered:
            yield self.sql.rerank_items(queue=queue.id, discipline=settings.discipline)
        if counts_anew:
            yield from self.recount(queue)
        if was_held:
            yield self.sql.desire(queue=name, desired="running")
        yield Announce(frozenset({f"queue/{name}", room_word(name)}))
        return queue.info

    def pause_queue(self, name: str, by: str | None) -> Op[QueueInfo]:
        return Op(
            "pause_queue", lambda: self._set_paused(name, by, is_paused=True), repeatable=True
        )

    def resume_queue(self, name: str) -> Op[QueueInfo]:
        return Op(
            "resume_queue", lambda: self._set_paused(name, None, is_paused=False), repeatable=True
        )

    def _set_paused(self, name: str, by: str | None, *, is_paused: bool) -> Steps[QueueInfo]:
        queue = yield from self.locked_queue(name)
        if queue.info.is_paused != is_paused:
            info = replace(queue.info, is_paused=is_paused, paused_by=by)
            queue = queue._replace(info=info)
            yield from self.save_queue(queue)
        if not is_paused:
            yield Announce(frozenset({f"queue/{name}"}))
        return queue.info

    def drop_queue(self, name: str, keep_data: bool) -> Op[int]:
        return Op("drop_queue", lambda: self._drop(name, keep_data=keep_data))

    def _drop(self, name: str, *, keep_data: bool) -> Steps[int]:
        queue = yield from self.locked_queue(name)
        yield from self.close_queue(queue)
        counted = yield self.sql.count_items(queue=queue.id)
        live: int = sum(row["count"] for row in counted)
        if keep_data:
            ledger = self.ledger()
            found = yield self.sql.active_items(queue=queue.id)
            for row in found:
                item = item_of(row, name)
                ledger.move(queue, item, rules.released(item, queue.now))
            yield from ledger.write()
            if found:
                # What waited behind one of them may have brought its first channel.
                queue = yield from self.locked_queue(name)
            info = replace(queue.info, is_paused=False, paused_by=None)
            yield from self.save_queue(queue._replace(is_live=False, held_until=None, info=info))
            return live
        if queue.limits:
            yield from self._give_back_all(queue)
        if self.files:
            yield self.sql.remove_files(queues=[queue.id])
        yield (
            self.sql.remove_all_items(queue=queue.id),
            self.sql.remove_all_ended(queue=queue.id),
            self.sql.remove_all_used(queue=queue.id),
            self.sql.remove_all_errors(queue=queue.id),
            self.sql.remove_all_samples(queue=queue.id),
            self.sql.remove_tallies(queue=queue.id),
            self.sql.remove_all_turns(queue=queue.id),
            self.sql.remove_all_channels(queue=queue.id),
            self.sql.remove_all_gone(queue=queue.id),
            self.sql.remove_all_selections(queue=queue.id),
            self.sql.remove_all_lanes(queue=queue.id),
            self.sql.remove_all_holds(queue=queue.id),
            self.sql.remove_queue(queue=queue.id),
        )
        return live

    def _give_back_all(self, queue: QueueRow) -> Steps[None]:
        """Take all items of a queue out of the totals that they count in."""
        ledger = self.ledger()
        queues = [queue.id]
        running, held = yield (
            self.sql.count_running(queues=queues),
            self.sql.count_held(queues=queues),
        )
        for on, rows in (("running", running), ("enqueued", held)):
            for row in rows:
                ledger.totals.shift(queue, row["key_values"], **{on: -row["count"]})
        yield from ledger.write()

    def queue_defaults(self) -> Op[QueueSettings]:
        return Op("queue_defaults", self.defaults, writes=False)

    def set_queue_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        def steps() -> Steps[QueueSettings]:
            settings = changed((yield from self.defaults()), changes)
            yield self.sql.save_defaults(settings=text_of(settings))
            return settings

        return Op("set_queue_defaults", steps, repeatable=True)
