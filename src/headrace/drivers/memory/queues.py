"""The lives of queues in memory."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.contract.op import Op
from headrace.drivers.memory.items import MemoryItems
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model import items as rules
from headrace.model import refusals
from headrace.model.items import State
from headrace.model.queues import (
    QueueChanges,
    QueueInfo,
    QueueSettings,
    changed,
    room_word,
    with_dead_queue,
)


class MemoryQueues(MemoryItems):
    """Queues are made, changed and dropped."""

    def create_queue(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        def act() -> QueueInfo:
            queue = self.data.queues.get(name)
            if queue is None or queue.info is None:
                wanted = changed(self.data.queue_defaults, changes)
                self.queue_made(name, wanted)
                return self.queue(name)[1]
            if must_be_new:
                raise refusals.queue_exists(name)
            return self._update(name, changes) if changes else queue.info

        return immediate("create_queue", act)

    def queue_info(self, name: str) -> Op[QueueInfo]:
        return immediate("queue_info", lambda: self.queue(name)[1], writes=False)

    def queues(self, prefix: str, after: str, limit: int) -> Op[list[QueueInfo]]:
        def act() -> list[QueueInfo]:
            found = [queue.info for queue in self.data.queues.values() if queue.info is not None]
            named = [info for info in found if info.name > after and info.name.startswith(prefix)]
            return sorted(named, key=lambda info: info.name)[:limit]

        return immediate("queues", act, writes=False)

    def update_queue(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        return immediate("update_queue", lambda: self._update(name, changes))

    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        def act() -> QueueInfo:
            _, info = self.queue(name)
            changes = with_dead_queue(info.settings, to)
            return self._update(name, changes) if changes else info

        return immediate("add_dead_queue", act)

    def _update(self, name: str, changes: QueueChanges) -> QueueInfo:
        queue, info = self.queue(name)
        settings = changed(info.settings, changes)
        if settings != info.settings:
            info = replace(info, settings=settings, version=info.version + 1)
            self.change(queue, info=info)
            self.reorder(queue)
        if queue.held_until is not None:
            self.end_hold(name, queue)
        self.announce(name)
        self.data.announced.add(room_word(name))
        return info

    def end_hold(self, name: str, queue: QueueData) -> None:
        """Hand out items again, and let the workers that were stopped for it run."""
        self.change(queue, held_until=None)
        for worker in self.data.workers.values():
            if worker.queue == name:
                self.set_entry(self.data.workers, worker.id, replace(worker, desired="running"))

    def pause_queue(self, name: str, by: str | None) -> Op[QueueInfo]:
        return immediate("pause_queue", lambda: self._set_paused(name, by, is_paused=True))

    def resume_queue(self, name: str) -> Op[QueueInfo]:
        def act() -> QueueInfo:
            self.announce(name)
            return self._set_paused(name, None, is_paused=False)

        return immediate("resume_queue", act)

    def _set_paused(self, name: str, by: str | None, *, is_paused: bool) -> QueueInfo:
        queue, info = self.queue(name)
        if info.is_paused != is_paused:
            info = replace(info, is_paused=is_paused, paused_by=by)
            self.change(queue, info=info)
        return info

    def drop_queue(self, name: str, keep_data: bool) -> Op[int]:
        def act() -> int:
            queue, info = self.queue(name)
            live = len(queue.items)
            if not keep_data:
                self.set_entry(self.data.queues, name, None)
                self.announce_room()
                return live
            for item in list(queue.items.values()):
                if item.state == State.ACTIVE:
                    self.move(queue, item, rules.released(item, self.now()))
            # What waited behind one of them may have brought its first channel.
            _, info = self.queue(name)
            self.change(
                queue,
                info=None,
                version=info.version,
                has_channels=info.has_channels,
                held_until=None,
            )
            return live

        return immediate("drop_queue", act)

    def queue_defaults(self) -> Op[QueueSettings]:
        return immediate("queue_defaults", lambda: self.data.queue_defaults, writes=False)

    def set_queue_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        def act() -> QueueSettings:
            self.change(self.data, queue_defaults=changed(self.data.queue_defaults, changes))
            return self.data.queue_defaults

        return immediate("set_queue_defaults", act)
