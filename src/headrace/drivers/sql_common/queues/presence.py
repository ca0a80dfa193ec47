"""Clients and workers of queues, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.items import ClientInfo, HeartbeatReply, WorkerRow, WorkerStatus
from headrace.contract.op import Op, Steps
from headrace.drivers.sql_common.queues.rows import QueueRow, queue_of
from headrace.drivers.sql_common.statements import Notify, Row
from headrace.model.queues.settings import PRESENCE_WORD

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

_REPORTED = ("current", "version", "busy", "done", "failed", "rate", "error")


class Presence:
    """Clients, their workers, and the workers' desired status."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def heartbeat(self, client: ClientInfo, workers: Sequence[WorkerRow]) -> Op[HeartbeatReply]:
        def steps() -> Steps[HeartbeatReply]:
            rows = yield self.sql.save_client(
                id=client.id,
                name=client.name,
                host=client.host,
                pid=client.pid,
                now=self.clock(),
            )
            now: int = rows[0]["seen_at"]
            ids = [worker.id for worker in workers]
            statuses = yield self.sql.worker_statuses(client=client.id)
            known = {row["id"]: row["current"] for row in statuses}
            for name in sorted({worker.queue for worker in workers}):
                yield from self._end_old_freeze(name)
            for name in sorted({worker.queue for worker in workers if worker.id not in known}):
                # A freeze that begins or ends now must find the worker's row, or be seen here.
                yield self.sql.lock_queue_settings(name=name)
            yield self.sql.drop_other_workers(client=client.id, ids=ids)
            desired: dict[str, WorkerStatus] = {}
            for worker in workers:
                desired[worker.id] = yield from self._beat_worker(worker, now)
            if known != {worker.id: worker.current for worker in workers}:
                yield Notify(frozenset({PRESENCE_WORD}))
            return HeartbeatReply(desired=desired, now=now)

        return Op("queues.heartbeat", steps, relaxed=True, repeatable=True)

    def _end_old_freeze(self, name: str) -> Steps[None]:
        queue = yield from self._context.storage.find_queue(name)
        if not _is_left_frozen(queue):
            return
        # Another transaction may be about to change it, or to end the freeze.
        found = yield self.sql.lock_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        if queue is not None and queue.is_live and _is_left_frozen(queue):
            yield from self._context.storage.save_queue(queue._replace(frozen_until=None))
            yield self.sql.set_desired_state(queue=name, desired="running")

    def _beat_worker(self, worker: WorkerRow, now: int) -> Steps[WorkerStatus]:
        queue = yield from self._context.storage.find_queue(worker.queue)
        is_frozen = queue is not None and queue.is_frozen
        # Only a new worker gets this: the desired status of a known one stays.
        desired = "stopped" if is_frozen else worker.desired
        rows = yield self.sql.save_worker(
            id=worker.id,
            client=worker.client,
            queue=worker.queue,
            desired=desired,
            now=now,
            **{field: getattr(worker, field) for field in _REPORTED},
        )
        answer: WorkerStatus = rows[0]["desired"]
        return answer

    def unregister(self, client: str) -> Op[None]:
        return Op("queues.unregister", lambda: self._forget_client(client), repeatable=True)

    def _forget_client(self, client: str) -> Steps[None]:
        yield self.sql.drop_workers(client=client), self.sql.drop_client(client=client)
        yield Notify(frozenset({PRESENCE_WORD}))

    def clients(self) -> Op[list[ClientInfo]]:
        def steps() -> Steps[list[ClientInfo]]:
            rows = yield self.sql.list_clients(now=self.clock())
            fields = ClientInfo.__struct_fields__
            return [ClientInfo(**{field: row[field] for field in fields}) for row in rows]

        return Op("queues.clients", steps, writes=False)

    def workers(self, queue: str | None) -> Op[list[WorkerRow]]:
        return Op("queues.workers", lambda: self._workers(queue), writes=False)

    def _workers(self, queue: str | None) -> Steps[list[WorkerRow]]:
        rows = yield self.sql.list_workers(queue=queue, now=self.clock())
        return [_worker(row) for row in rows]

    def freeze(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[list[WorkerRow]]:
        def steps() -> Steps[list[WorkerRow]]:
            queue = yield from self._context.storage.locked_queue(name)
            until = queue.now + for_ms if for_ms else None
            yield from self._context.storage.save_queue(queue._replace(frozen_until=until))
            yield self.sql.set_desired_state(queue=name, desired=desired)
            yield Notify(frozenset({f"queue/{name}"}))
            return (yield from self._workers(name))

        return Op("queues.freeze", steps, repeatable=True)

    def forget_clients(self, silent_ms: int) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.silent_clients(silent=silent_ms, now=self.clock())
            for row in rows:
                yield from self._forget_client(row["id"])
            return [row["id"] for row in rows]

        return Op("queues.forget_clients", steps, repeatable=True)


def _is_left_frozen(queue: QueueRow | None) -> bool:
    """Whether a freeze ran out of time, without its client ending it."""
    return queue is not None and queue.frozen_until is not None and not queue.is_frozen


def _worker(row: Row) -> WorkerRow:
    return WorkerRow(**{field: row[field] for field in WorkerRow.__struct_fields__})
