"""Who works on queues, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.items import ClientRow, Orders, WorkerRow, WorkerStatus
from headrace.contract.op import Op, Steps
from headrace.drivers.relational.queues.lives import Lives
from headrace.drivers.relational.queues.rows import QueueRow, queue_of
from headrace.drivers.relational.sql import Announce, Row

_REPORTED = ("current", "version", "busy", "done", "failed", "rate", "error")


class Coordination(Lives):
    """Clients and their workers, and what they shall do."""

    def beat(self, client: ClientRow, workers: Sequence[WorkerRow]) -> Op[Orders]:
        def steps() -> Steps[Orders]:
            rows = yield self.sql.keep_client(
                id=client.id,
                name=client.name,
                host=client.host,
                pid=client.pid,
                now=self.clock(),
            )
            now: int = rows[0]["seen_at"]
            ids = [worker.id for worker in workers]
            yield self.sql.drop_other_workers(client=client.id, ids=ids)
            for name in sorted({worker.queue for worker in workers}):
                yield from self._end_old_hold(name)
            desired: dict[str, WorkerStatus] = {}
            for worker in workers:
                desired[worker.id] = yield from self._beat_worker(worker, now)
            return Orders(desired=desired, now=now)

        return Op("beat", steps, relaxed=True, repeatable=True)

    def _end_old_hold(self, name: str) -> Steps[None]:
        queue = yield from self.find_queue(name)
        if not _is_left_held(queue):
            return
        # Somebody else may be about to change it, or to end the hold.
        found = yield self.sql.lock_queue(name=name, now=self.clock())
        queue = queue_of(found[0]) if found else None
        if queue is not None and queue.is_live and _is_left_held(queue):
            yield from self.save_queue(queue._replace(held_until=None))
            yield self.sql.desire(queue=name, desired="running")

    def _beat_worker(self, worker: WorkerRow, now: int) -> Steps[WorkerStatus]:
        queue = yield from self.find_queue(worker.queue)
        is_held = queue is not None and queue.is_held
        # Only a worker that is new gets this: what is desired of a known one stays.
        desired = "stopped" if is_held else worker.desired
        rows = yield self.sql.keep_worker(
            id=worker.id,
            client=worker.client,
            queue=worker.queue,
            desired=desired,
            now=now,
            **{field: getattr(worker, field) for field in _REPORTED},
        )
        answer: WorkerStatus = rows[0]["desired"]
        return answer

    def leave(self, client: str) -> Op[None]:
        return Op("leave", lambda: self._forget_client(client), repeatable=True)

    def _forget_client(self, client: str) -> Steps[None]:
        yield self.sql.drop_workers(client=client), self.sql.drop_client(client=client)

    def clients(self) -> Op[list[ClientRow]]:
        def steps() -> Steps[list[ClientRow]]:
            rows = yield self.sql.list_clients()
            fields = ClientRow.__struct_fields__
            return [ClientRow(**{field: row[field] for field in fields}) for row in rows]

        return Op("clients", steps, writes=False)

    def workers(self, queue: str | None) -> Op[list[WorkerRow]]:
        return Op("workers", lambda: self._workers(queue), writes=False)

    def _workers(self, queue: str | None) -> Steps[list[WorkerRow]]:
        rows = yield self.sql.list_workers(queue=queue)
        return [_worker(row) for row in rows]

    def hold_queue(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[list[WorkerRow]]:
        def steps() -> Steps[list[WorkerRow]]:
            queue = yield from self.locked_queue(name)
            until = queue.now + for_ms if for_ms else None
            yield from self.save_queue(queue._replace(held_until=until))
            yield self.sql.desire(queue=name, desired=desired)
            yield Announce(frozenset({f"queue/{name}"}))
            return (yield from self._workers(name))

        return Op("hold_queue", steps, repeatable=True)

    def forget_clients(self, silent_ms: int) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.silent_clients(silent=silent_ms, now=self.clock())
            for row in rows:
                yield from self._forget_client(row["id"])
            return [row["id"] for row in rows]

        return Op("forget_clients", steps, repeatable=True)


def _is_left_held(queue: QueueRow | None) -> bool:
    """Whether whoever has made a hold did not come back to end it."""
    return queue is not None and queue.held_until is not None and not queue.is_held


def _worker(row: Row) -> WorkerRow:
    return WorkerRow(**{field: row[field] for field in WorkerRow.__struct_fields__})
