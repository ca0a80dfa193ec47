"""The clients and workers of queues in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.items import ClientInfo, HeartbeatReply, WorkerRow, WorkerStatus
from headrace.contract.op import Op
from headrace.drivers.memory.topics import immediate
from headrace.model.queues.settings import PRESENCE_WORD

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryPresence:
    """Clients and their workers, and the orders for them."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def heartbeat(self, client: ClientInfo, workers: Sequence[WorkerRow]) -> Op[HeartbeatReply]:
        def act() -> HeartbeatReply:
            now = self.now()
            known = self.data.clients.get(client.id)
            started_at = known.started_at if known else now
            row = replace(client, started_at=started_at, seen_at=now)
            self._context.storage.set_entry(self.data.clients, client.id, row)
            mine = [row for row in self.data.workers.values() if row.client == client.id]
            before = {row.id: row.current for row in mine}
            if before != {worker.id: worker.current for worker in workers}:
                self.data.announced.add(PRESENCE_WORD)
            self._keep_workers(client.id, {worker.id for worker in workers})
            for worker in workers:
                self._beat_worker(worker, now)
            desired = {worker.id: self.data.workers[worker.id].desired for worker in workers}
            return HeartbeatReply(desired=desired, now=now)

        return immediate("queues.heartbeat", act)

    def _beat_worker(self, worker: WorkerRow, now: int) -> None:
        queue = self.data.queues.get(worker.queue)
        if queue is not None and queue.frozen_until is not None and not queue.is_frozen(now):
            # The client that froze the queue did not return to unfreeze it.
            self._context.lifecycle.end_freeze(worker.queue, queue)
        known = self.data.workers.get(worker.id)
        desired = known.desired if known else worker.desired
        if known is None and queue is not None and queue.is_frozen(now):
            desired = "stopped"
        started_at = known.started_at if known else now
        row = replace(worker, desired=desired, started_at=started_at, seen_at=now)
        self._context.storage.set_entry(self.data.workers, worker.id, row)

    def _keep_workers(self, client: str, keep: set[str]) -> None:
        """Remove all workers of a client except some."""
        for worker in list(self.data.workers.values()):
            if worker.client == client and worker.id not in keep:
                self._context.storage.set_entry(self.data.workers, worker.id, None)

    def unregister(self, client: str) -> Op[None]:
        return immediate("queues.unregister", lambda: self._forget_client(client))

    def _forget_client(self, client: str) -> None:
        self._keep_workers(client, set())
        self._context.storage.set_entry(self.data.clients, client, None)
        self.data.announced.add(PRESENCE_WORD)

    def clients(self) -> Op[list[ClientInfo]]:
        def act() -> list[ClientInfo]:
            now = self.now()
            rows = sorted(self.data.clients.values(), key=lambda row: (row.started_at, row.id))
            return [replace(row, silent_ms=now - row.seen_at) for row in rows]

        return immediate("queues.clients", act, writes=False)

    def workers(self, queue: str | None) -> Op[list[WorkerRow]]:
        return immediate("queues.workers", lambda: self._workers(queue), writes=False)

    def _workers(self, queue: str | None) -> list[WorkerRow]:
        now = self.now()
        rows = [row for row in self.data.workers.values() if queue in (None, row.queue)]
        rows.sort(key=lambda row: (row.started_at, row.id))
        return [replace(row, silent_ms=now - row.seen_at) for row in rows]

    def freeze(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[list[WorkerRow]]:
        def act() -> list[WorkerRow]:
            queue, _ = self._context.storage.queue(name)
            self._context.storage.change(
                queue, frozen_until=self.now() + for_ms if for_ms else None
            )
            for worker in self._workers(name):
                self._context.storage.set_entry(
                    self.data.workers, worker.id, replace(worker, desired=desired)
                )
            self._context.storage.announce(name)
            return self._workers(name)

        return immediate("queues.freeze", act)

    def forget_clients(self, silent_ms: int) -> Op[list[str]]:
        def act() -> list[str]:
            heard = self.now() - silent_ms
            silent = [row.id for row in self.data.clients.values() if row.seen_at <= heard]
            for client in silent:
                self._forget_client(client)
            return sorted(silent)

        return immediate("queues.forget_clients", act)
