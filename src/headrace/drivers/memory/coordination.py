"""Who works on queues in memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.contract.items import ClientRow, Orders, WorkerRow, WorkerStatus
from headrace.contract.op import Op
from headrace.drivers.memory.queues import MemoryQueues
from headrace.drivers.memory.topics import immediate


class MemoryCoordination(MemoryQueues):
    """Clients and their workers, and what they shall do."""

    def beat(self, client: ClientRow, workers: Sequence[WorkerRow]) -> Op[Orders]:
        def act() -> Orders:
            now = self.now()
            known = self.data.clients.get(client.id)
            started_at = known.started_at if known else now
            row = replace(client, started_at=started_at, seen_at=now)
            self.set_entry(self.data.clients, client.id, row)
            self._keep_workers(client.id, {worker.id for worker in workers})
            for worker in workers:
                self._beat_worker(worker, now)
            desired = {worker.id: self.data.workers[worker.id].desired for worker in workers}
            return Orders(desired=desired, now=now)

        return immediate("beat", act)

    def _beat_worker(self, worker: WorkerRow, now: int) -> None:
        queue = self.data.queues.get(worker.queue)
        if queue is not None and queue.held_until is not None and not queue.is_held(now):
            # Whoever made the hold did not come back to end it.
            self.end_hold(worker.queue, queue)
        known = self.data.workers.get(worker.id)
        desired = known.desired if known else worker.desired
        if known is None and queue is not None and queue.is_held(now):
            desired = "stopped"
        started_at = known.started_at if known else now
        row = replace(worker, desired=desired, started_at=started_at, seen_at=now)
        self.set_entry(self.data.workers, worker.id, row)

    def _keep_workers(self, client: str, keep: set[str]) -> None:
        """Remove the workers of a client but some."""
        for worker in list(self.data.workers.values()):
            if worker.client == client and worker.id not in keep:
                self.set_entry(self.data.workers, worker.id, None)

    def leave(self, client: str) -> Op[None]:
        return immediate("leave", lambda: self._forget_client(client))

    def _forget_client(self, client: str) -> None:
        self._keep_workers(client, set())
        self.set_entry(self.data.clients, client, None)

    def clients(self) -> Op[list[ClientRow]]:
        def act() -> list[ClientRow]:
            return sorted(self.data.clients.values(), key=lambda row: (row.started_at, row.id))

        return immediate("clients", act, writes=False)

    def workers(self, queue: str | None) -> Op[list[WorkerRow]]:
        return immediate("workers", lambda: self._workers(queue), writes=False)

    def _workers(self, queue: str | None) -> list[WorkerRow]:
        rows = [row for row in self.data.workers.values() if queue in (None, row.queue)]
        return sorted(rows, key=lambda row: (row.started_at, row.id))

    def hold_queue(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[list[WorkerRow]]:
        def act() -> list[WorkerRow]:
            queue, _ = self.queue(name)
            self.change(queue, held_until=self.now() + for_ms if for_ms else None)
            for worker in self._workers(name):
                self.set_entry(self.data.workers, worker.id, replace(worker, desired=desired))
            self.announce(name)
            return self._workers(name)

        return immediate("hold_queue", act)

    def forget_clients(self, silent_ms: int) -> Op[list[str]]:
        def act() -> list[str]:
            heard = self.now() - silent_ms
            silent = [row.id for row in self.data.clients.values() if row.seen_at <= heard]
            for client in silent:
                self._forget_client(client)
            return sorted(silent)

        return immediate("forget_clients", act)
