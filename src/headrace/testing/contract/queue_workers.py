"""Clients and workers, and what they are told."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import ClientRow, WorkerRow
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract


def client(name: str = "c1") -> ClientRow:
    return ClientRow(id=name, name=f"name of {name}", host="here", pid=7)


def worker(name: str = "w1", of: str = "c1", queue: str = "q", **fields: Any) -> WorkerRow:
    return WorkerRow(id=name, client=of, queue=queue, **fields)


def names(rows: Any) -> list[str]:
    return [row.id for row in rows]


class WorkerContract(QueueContract):
    """Whoever works says so from time to time, and hears what is desired."""

    def test_a_beat_makes_a_client_and_its_workers_known(
        self, desk: Desk, clock: FakeClock
    ) -> None:
        """The times are the store's; a worker's queue need not exist."""
        given = worker(current="paused", version=3, busy=2, done=5, failed=1, rate=0.5, error="x")
        orders = desk.beat(client(), [given])
        assert (orders.desired, orders.now) == ({"w1": "running"}, clock.now)
        [known] = desk.clients()
        assert (known.id, known.name, known.host, known.pid) == ("c1", "name of c1", "here", 7)
        assert known.started_at == known.seen_at == clock.now
        [row] = desk.workers(None)
        assert (row.client, row.queue, row.desired, row.current) == ("c1", "q", "running", "paused")
        assert (row.version, row.busy, row.done, row.failed) == (3, 2, 5, 1)
        assert (row.rate, row.error) == (0.5, "x")
        assert row.started_at == row.seen_at == clock.now

    def test_a_later_beat_brings_the_rows_up_to_date(self, desk: Desk, clock: FakeClock) -> None:
        """They keep the time of the first."""
        desk.beat(client(), [worker(), worker("w2")])
        start = clock.now
        clock.advance(5)
        desk.beat(client(), [worker(done=9, current="stopped"), worker("w2")])
        [known] = desk.clients()
        assert (known.started_at, known.seen_at) == (start, clock.now)
        row, _ = desk.workers(None)
        assert (row.started_at, row.seen_at) == (start, clock.now)
        assert (row.done, row.current) == (9, "stopped")

    def test_a_beat_names_all_workers_of_a_client(self, desk: Desk) -> None:
        """Others of that client are gone, those of other clients are not."""
        desk.beat(client(), [worker("w1"), worker("w2")])
        desk.beat(client("c2"), [worker("w3", of="c2")])
        orders = desk.beat(client(), [worker("w2")])
        assert orders.desired == {"w2": "running"}
        assert names(desk.workers(None)) == ["w2", "w3"]

    def test_workers_are_listed_by_start(self, desk: Desk, clock: FakeClock) -> None:
        """Those of one queue or all."""
        desk.beat(client("z"), [worker("w9", of="z")])
        clock.advance(1)
        desk.beat(client("a"), [worker("w5", of="a", queue="r"), worker("w1", of="a")])
        assert names(desk.clients()) == ["z", "a"]
        assert names(desk.workers(None))[0] == "w9"
        assert names(desk.workers("q")) == ["w9", "w1"]
        assert names(desk.workers("r")) == ["w5"]
        assert desk.workers("nowhere") == []

    def test_a_client_can_leave(self, desk: Desk) -> None:
        """With its workers; twice is no error."""
        desk.beat(client(), [worker()])
        desk.beat(client("c2"), [worker("w2", of="c2")])
        for _ in range(2):
            desk.leave("c1")
            assert names(desk.clients()) == ["c2"]
            assert names(desk.workers(None)) == ["w2"]

    def test_silent_clients_are_forgotten(self, desk: Desk, clock: FakeClock) -> None:
        """Those who were not heard of for so long, and their workers."""
        desk.beat(client("c1"), [worker()])
        desk.beat(client("c2"), [worker("w2", of="c2")])
        clock.advance(10)
        desk.beat(client("c2"), [worker("w2", of="c2")])
        clock.advance(4.999)
        assert desk.forget_clients(15_000) == []
        clock.advance(0.001)
        assert desk.forget_clients(15_000) == ["c1"]
        assert names(desk.clients()) == ["c2"]
        assert names(desk.workers(None)) == ["w2"]

    def test_a_hold_tells_the_workers_of_a_queue(self, desk: Desk, q: Queue) -> None:
        """And of no other; what is desired stays, whatever the worker's own row says."""
        q.create()
        workers = [worker("w1"), worker("w2"), worker("w3", queue="r")]
        desk.beat(client(), workers)
        told = desk.hold_queue("q", 60_000, "stopped")
        assert [(row.id, row.desired) for row in told] == [("w1", "stopped"), ("w2", "stopped")]
        orders = desk.beat(client(), workers)
        assert orders.desired == {"w1": "stopped", "w2": "stopped", "w3": "running"}

    def test_who_comes_to_a_held_queue_is_stopped(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """No worker runs while settings change."""
        q.create()
        assert desk.hold_queue("q", 1000, "stopped") == []
        assert desk.beat(client(), [worker()]).desired == {"w1": "stopped"}

    def test_who_comes_after_a_hold_runs(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """A hold that ran out of time is over."""
        q.create()
        desk.hold_queue("q", 1000, "stopped")
        clock.advance(1)
        assert desk.beat(client(), [worker()]).desired == {"w1": "running"}

    @pytest.mark.parametrize("how", ["update", "hold", "time"])
    def test_workers_run_again_after_a_hold(
        self, desk: Desk, q: Queue, clock: FakeClock, how: str
    ) -> None:
        """Whoever ends it, or nobody: an updater that died stops no queue for ever."""
        q.create()
        desk.beat(client(), [worker()])
        desk.hold_queue("q", 1000, "stopped")
        assert desk.beat(client(), [worker()]).desired == {"w1": "stopped"}
        if how == "update":
            q.update(lock_duration=5)
        elif how == "hold":
            [row] = desk.hold_queue("q", 0, "running")
            assert row.desired == "running"
        else:
            clock.advance(1)
        assert desk.beat(client(), [worker()]).desired == {"w1": "running"}

    def test_workers_can_be_told_without_a_hold(self, desk: Desk, q: Queue) -> None:
        """An update that ends no hold leaves them as they are."""
        q.fill(1)
        desk.beat(client(), [worker()])
        desk.hold_queue("q", 0, "paused")
        q.update(lock_duration=5)
        assert desk.beat(client(), [worker()]).desired == {"w1": "paused"}
        assert q.take().state == "claimed"
