"""Creating, changing and dropping queues in memory."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.op import Op
from headrace.drivers.memory.queue_data import QueueData
from headrace.drivers.memory.topics import immediate
from headrace.model import error_messages
from headrace.model.queues import transitions as rules
from headrace.model.queues.items import State
from headrace.model.queues.settings import (
    QueueChanges,
    QueueInfo,
    QueueSettings,
    capacity_word,
    changed,
    with_dead_queue,
)

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryLifecycle:
    """Queues are created, changed and dropped."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def create(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        def act() -> QueueInfo:
            queue = self.data.queues.get(name)
            if queue is None or queue.info is None:
                wanted = changed(self.data.queue_defaults, changes)
                self._context.storage.queue_made(name, wanted)
                return self._context.storage.queue(name)[1]
            if must_be_new:
                raise error_messages.queue_exists(name)
            return self._update(name, changes) if changes else queue.info

        return immediate("queues.create", act)

    def info(self, name: str) -> Op[QueueInfo]:
        return immediate("queues.info", lambda: self._context.storage.queue(name)[1], writes=False)

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[QueueInfo]]:
        def act() -> list[QueueInfo]:
            found = [queue.info for queue in self.data.queues.values() if queue.info is not None]
            named = [info for info in found if info.name > after and info.name.startswith(prefix)]
            return sorted(named, key=lambda info: info.name)[:limit]

        return immediate("queues.list", act, writes=False)

    def update(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        return immediate("queues.update", lambda: self._update(name, changes))

    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        def act() -> QueueInfo:
            _, info = self._context.storage.queue(name)
            changes = with_dead_queue(info.settings, to)
            return self._update(name, changes) if changes else info

        return immediate("queues.add_dead_queue", act)

    def _update(self, name: str, changes: QueueChanges) -> QueueInfo:
        queue, info = self._context.storage.queue(name)
        settings = changed(info.settings, changes)
        if settings != info.settings:
            info = replace(info, settings=settings, version=info.version + 1)
            self._context.storage.change(queue, info=info)
            self._context.storage.reorder(queue)
        if queue.frozen_until is not None:
            self.end_freeze(name, queue)
        self._context.storage.announce(name)
        self.data.announced.add(capacity_word(name))
        return info

    def end_freeze(self, name: str, queue: QueueData) -> None:
        """Let claims get items again, and let workers run that were stopped for an update."""
        self._context.storage.change(queue, frozen_until=None)
        for worker in self.data.workers.values():
            if worker.queue == name:
                self._context.storage.set_entry(
                    self.data.workers, worker.id, replace(worker, desired="running")
                )

    def pause(self, name: str, by: str | None) -> Op[QueueInfo]:
        return immediate("queues.pause", lambda: self.set_paused(name, by, is_paused=True))

    def resume(self, name: str) -> Op[QueueInfo]:
        return immediate("queues.resume", lambda: self.set_paused(name, None, is_paused=False))

    def set_paused(self, name: str, by: str | None, *, is_paused: bool) -> QueueInfo:
        queue, info = self._context.storage.queue(name)
        if not is_paused:
            self._context.storage.announce(name)
        if info.is_paused != is_paused:
            info = replace(info, is_paused=is_paused, paused_by=by)
            self._context.storage.change(queue, info=info)
        return info

    def drop(self, name: str, keep_data: bool) -> Op[int]:
        def act() -> int:
            queue, info = self._context.storage.queue(name)
            live = len(queue.items)
            self._context.storage.announce(name)
            if not keep_data:
                self._context.storage.set_entry(self.data.queues, name, None)
                self._context.storage.announce_free_slots()
                return live
            for item in list(queue.items.values()):
                if item.state == State.ACTIVE:
                    self._context.storage.move(queue, item, rules.released(item, self.now()))
            # Items that waited behind one of them may have brought its first channel.
            _, info = self._context.storage.queue(name)
            self._context.storage.change(
                queue,
                info=None,
                version=info.version,
                has_channels=info.has_channels,
                frozen_until=None,
            )
            return live

        return immediate("queues.drop", act)

    def defaults(self) -> Op[QueueSettings]:
        return immediate("queues.defaults", lambda: self.data.queue_defaults, writes=False)

    def set_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        def act() -> QueueSettings:
            self._context.storage.change(
                self.data, queue_defaults=changed(self.data.queue_defaults, changes)
            )
            return self.data.queue_defaults

        return immediate("queues.set_defaults", act)
