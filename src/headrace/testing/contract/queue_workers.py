"""The registry of clients and workers, and the replies to their heartbeats."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import ClientInfo, WorkerRow
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps


def client(name: str = "c1") -> ClientInfo:
    return ClientInfo(id=name, name=f"name of {name}", host="here", pid=7)


def worker(name: str = "w1", of: str = "c1", queue: str = "q", **fields: Any) -> WorkerRow:
    return WorkerRow(id=name, client=of, queue=queue, **fields)


def names(rows: Any) -> list[str]:
    return [row.id for row in rows]


class WorkerContract(QueueContract):
    """Workers send heartbeats and learn their desired state from the replies."""

    def test_a_heartbeat_registers_a_client_and_its_workers(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        """The times are the store's. The queue of a worker need not exist."""
        given = worker(current="paused", version=3, busy=2, done=5, failed=1, rate=0.5, error="x")
        orders = ops.queues.heartbeat(client(), [given])
        assert (orders.desired, orders.now) == ({"w1": "running"}, clock.now)
        [known] = ops.queues.clients()
        assert (known.id, known.name, known.host, known.pid) == ("c1", "name of c1", "here", 7)
        assert known.started_at == known.seen_at == clock.now
        [row] = ops.queues.workers(None)
        assert (row.client, row.queue, row.desired, row.current) == ("c1", "q", "running", "paused")
        assert (row.version, row.busy, row.done, row.failed) == (3, 2, 5, 1)
        assert (row.rate, row.error) == (0.5, "x")
        assert row.started_at == row.seen_at == clock.now

    def test_a_later_heartbeat_updates_the_rows(self, ops: StoreOps, clock: FakeClock) -> None:
        """They keep the time of the first one."""
        ops.queues.heartbeat(client(), [worker(), worker("w2")])
        start = clock.now
        clock.advance(5)
        ops.queues.heartbeat(client(), [worker(done=9, current="stopped"), worker("w2")])
        [known] = ops.queues.clients()
        assert (known.started_at, known.seen_at) == (start, clock.now)
        row, _ = ops.queues.workers(None)
        assert (row.started_at, row.seen_at) == (start, clock.now)
        assert (row.done, row.current) == (9, "stopped")

    def test_a_heartbeat_names_all_workers_of_a_client(self, ops: StoreOps) -> None:
        """Other workers of that client are removed. Those of other clients stay."""
        ops.queues.heartbeat(client(), [worker("w1"), worker("w2")])
        ops.queues.heartbeat(client("c2"), [worker("w3", of="c2")])
        orders = ops.queues.heartbeat(client(), [worker("w2")])
        assert orders.desired == {"w2": "running"}
        assert names(ops.queues.workers(None)) == ["w2", "w3"]

    def test_workers_are_listed_by_start(self, ops: StoreOps, clock: FakeClock) -> None:
        """Those of one queue, or all."""
        ops.queues.heartbeat(client("z"), [worker("w9", of="z")])
        clock.advance(1)
        ops.queues.heartbeat(client("a"), [worker("w5", of="a", queue="r"), worker("w1", of="a")])
        assert names(ops.queues.clients()) == ["z", "a"]
        assert names(ops.queues.workers(None))[0] == "w9"
        assert names(ops.queues.workers("q")) == ["w9", "w1"]
        assert names(ops.queues.workers("r")) == ["w5"]
        assert ops.queues.workers("nowhere") == []

    def test_a_client_can_unregister(self, ops: StoreOps) -> None:
        """With its workers. Repeating it is no error."""
        ops.queues.heartbeat(client(), [worker()])
        ops.queues.heartbeat(client("c2"), [worker("w2", of="c2")])
        for _ in range(2):
            ops.queues.unregister("c1")
            assert names(ops.queues.clients()) == ["c2"]
            assert names(ops.queues.workers(None)) == ["w2"]

    def test_silent_clients_are_removed(self, ops: StoreOps, clock: FakeClock) -> None:
        """Clients without a heartbeat for the given time, and their workers."""
        ops.queues.heartbeat(client("c1"), [worker()])
        ops.queues.heartbeat(client("c2"), [worker("w2", of="c2")])
        clock.advance(10)
        ops.queues.heartbeat(client("c2"), [worker("w2", of="c2")])
        clock.advance(4.999)
        assert ops.queues.forget_clients(15_000) == []
        clock.advance(0.001)
        assert ops.queues.forget_clients(15_000) == ["c1"]
        assert names(ops.queues.clients()) == ["c2"]
        assert names(ops.queues.workers(None)) == ["w2"]

    def test_a_freeze_stops_the_workers_of_a_queue(self, ops: StoreOps, q: Queue) -> None:
        """And of no other queue. The desired state stays, whatever the worker reports."""
        q.create()
        workers = [worker("w1"), worker("w2"), worker("w3", queue="r")]
        ops.queues.heartbeat(client(), workers)
        rows = ops.queues.freeze("q", 60_000, "stopped")
        assert [(row.id, row.desired) for row in rows] == [("w1", "stopped"), ("w2", "stopped")]
        orders = ops.queues.heartbeat(client(), workers)
        assert orders.desired == {"w1": "stopped", "w2": "stopped", "w3": "running"}

    def test_a_worker_that_joins_a_frozen_queue_is_stopped(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """No worker runs while settings change."""
        q.create()
        assert ops.queues.freeze("q", 1000, "stopped") == []
        assert ops.queues.heartbeat(client(), [worker()]).desired == {"w1": "stopped"}

    def test_a_worker_that_joins_after_a_freeze_runs(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """A freeze whose time has run out is over."""
        q.create()
        ops.queues.freeze("q", 1000, "stopped")
        clock.advance(1)
        assert ops.queues.heartbeat(client(), [worker()]).desired == {"w1": "running"}

    @pytest.mark.parametrize("how", ["update", "freeze", "time"])
    def test_workers_run_again_after_a_freeze(
        self, ops: StoreOps, q: Queue, clock: FakeClock, how: str
    ) -> None:
        """Whether or not it is ended explicitly: a client that died during an update stops no queue
        for ever."""
        q.create()
        ops.queues.heartbeat(client(), [worker()])
        ops.queues.freeze("q", 1000, "stopped")
        assert ops.queues.heartbeat(client(), [worker()]).desired == {"w1": "stopped"}
        if how == "update":
            q.update(lease=5)
        elif how == "freeze":
            [row] = ops.queues.freeze("q", 0, "running")
            assert row.desired == "running"
        else:
            clock.advance(1)
        assert ops.queues.heartbeat(client(), [worker()]).desired == {"w1": "running"}

    def test_workers_can_be_stopped_without_a_freeze(self, ops: StoreOps, q: Queue) -> None:
        """An update that ends no freeze leaves them as they are."""
        q.fill(1)
        ops.queues.heartbeat(client(), [worker()])
        ops.queues.freeze("q", 0, "paused")
        q.update(lease=5)
        assert ops.queues.heartbeat(client(), [worker()]).desired == {"w1": "paused"}
        assert q.claim_response().state == "claimed"
