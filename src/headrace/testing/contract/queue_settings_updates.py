"""Coordinated updates of settings: stop the workers, wait, change, start again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.contract.items import ClientInfo, WorkerRow
from headrace.errors import InvalidOption, UnknownQueue, UpdateRefused
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_base import StoreOps

CLIENT = ClientInfo(id="c1", name="shop", host="here", pid=7)


class FakeWorkers:
    """A client whose workers send heartbeats on request."""

    def __init__(self, hr: Any, *ids: str, obedient: bool = True) -> None:
        self.ops = StoreOps(hr)
        self.current: dict[str, Any] = dict.fromkeys(ids, "running")
        self.obedient = obedient
        self.seen: list[dict[str, Any]] = []
        self.beat()

    def beat(self) -> None:
        rows = [
            WorkerRow(id=id, client="c1", queue="q", current=current)
            for id, current in self.current.items()
        ]
        orders = self.ops.queues.heartbeat(CLIENT, rows)
        self.seen.append(orders.desired)
        if self.obedient:
            self.current.update(orders.desired)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Send heartbeats repeatedly, in a thread."""
        is_over = threading.Event()

        def run() -> None:
            while not is_over.wait(0.005):
                self.beat()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


class QueueSettingsUpdateContract(Contract):
    """The queue ``q`` exists."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("q")

    def test_without_workers_an_update_is_immediate(self, hr: Any, q: Any) -> None:
        q.push(1)
        report = hr.queue("q").update(max_attempts=9, lease="1m")
        assert (report.is_changed, report.stopped, report.unanswered) == (True, (), ())
        assert report.queue.version == 2
        assert report.queue.settings.lease == 60
        assert len(q.claim()) == 1

    def test_an_update_without_changes_stops_no_worker(self, hr: Any, q: Any) -> None:
        workers = FakeWorkers(hr, "w1")
        report = q.update(max_attempts=5)
        assert (report.is_changed, report.queue.version) == (False, 1)
        workers.beat()
        assert workers.seen[-1] == {"w1": "running"}

    def test_workers_stop_and_start_again(self, hr: Any, q: Any, connect: Connect) -> None:
        workers = FakeWorkers(connect(), "w1", "w2")
        with workers.beating():
            report = q.update(max_attempts=9, time_limit=20)
        assert sorted(worker.id for worker in report.stopped) == ["w1", "w2"]
        assert report.unanswered == ()
        assert {"w1": "stopped", "w2": "stopped"} in workers.seen
        workers.beat()
        assert workers.seen[-1] == {"w1": "running", "w2": "running"}

    def test_workers_that_do_not_answer_are_named(self, hr: Any, q: Any, connect: Connect) -> None:
        workers = FakeWorkers(connect(), "w1", obedient=False)
        report = q.update(max_attempts=9, time_limit=0.05)
        [late] = report.unanswered
        assert (late.id, late.client, late.host, late.pid) == ("w1", "shop", "here", 7)
        assert (report.is_changed, report.stopped) == (True, ())
        assert report.waited >= 0.05
        workers.beat()
        assert workers.seen[-1] == {"w1": "running"}

    def test_a_strict_update_is_refused_if_a_worker_does_not_answer(
        self, hr: Any, q: Any, connect: Connect
    ) -> None:
        """Nothing is changed, and all workers continue."""
        workers = FakeWorkers(connect(), "w1", obedient=False)
        q.push(1)
        with pytest.raises(UpdateRefused) as caught:
            q.update(max_attempts=9, time_limit=0.02, strict=True)
        assert [worker.id for worker in caught.value.unanswered] == ["w1"]
        assert "w1 of client shop (here, pid 7)" in str(caught.value)
        assert hr.queues.list()[0].version == 1
        assert len(q.claim()) == 1
        workers.beat()
        assert workers.seen[-1] == {"w1": "running"}

    def test_an_update_does_not_wait_for_dead_workers(
        self, hr: Any, q: Any, connect: Connect, clock: FakeClock
    ) -> None:
        FakeWorkers(connect(), "w1", obedient=False)
        clock.advance(16)
        report = q.update(max_attempts=9, time_limit=20, strict=True)
        assert (report.is_changed, report.unanswered) == (True, ())

    def test_an_invalid_update_stops_no_worker(self, hr: Any, q: Any, connect: Connect) -> None:
        workers = FakeWorkers(connect(), "w1")
        for wrong in ({"max_attempts": 0}, {"colour": "red"}, {"time_limit": -1, "keep": "all"}):
            with pytest.raises(InvalidOption):
                q.update(**wrong)
        with pytest.raises(UnknownQueue):
            hr.queue("none").update(keep="all")
        workers.beat()
        assert workers.seen[-1] == {"w1": "running"}
        assert hr.queues.list()[0].version == 1
