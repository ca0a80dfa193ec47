"""New settings while workers run: stop, wait, change, start."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.contract.items import ClientRow, WorkerRow
from headrace.errors import InvalidOption, UnknownQueue, UpdateRefused
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_base import Desk

CLIENT = ClientRow(id="c1", name="shop", host="here", pid=7)


class Crew:
    """A client with workers that say what they do, as often as they are asked to."""

    def __init__(self, hr: Any, *ids: str, obedient: bool = True) -> None:
        self.desk = Desk(hr)
        self.current: dict[str, Any] = dict.fromkeys(ids, "running")
        self.obedient = obedient
        self.seen: list[dict[str, Any]] = []
        self.beat()

    def beat(self) -> None:
        rows = [
            WorkerRow(id=id, client="c1", queue="q", current=current)
            for id, current in self.current.items()
        ]
        orders = self.desk.beat(CLIENT, rows)
        self.seen.append(orders.desired)
        if self.obedient:
            self.current.update(orders.desired)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Say so again and again, in a thread."""
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


class QueueUpdateContract(Contract):
    """A queue ``q`` is made."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queue("q")

    def test_without_workers_it_is_done_at_once(self, hr: Any, q: Any) -> None:
        q.push(1)
        report = hr.update("q", dead_threshold=9, lock_duration="1m")
        assert (report.is_changed, report.stopped, report.unanswered) == (True, (), ())
        assert report.queue.version == 2
        assert report.queue.settings.lock_duration == 60
        assert len(q.claim()) == 1

    def test_what_changes_nothing_stops_nobody(self, hr: Any, q: Any) -> None:
        crew = Crew(hr, "w1")
        report = q.update(dead_threshold=5)
        assert (report.is_changed, report.queue.version) == (False, 1)
        crew.beat()
        assert crew.seen[-1] == {"w1": "running"}

    def test_workers_stop_and_start_again(self, hr: Any, q: Any, connect: Connect) -> None:
        crew = Crew(connect(), "w1", "w2")
        with crew.beating():
            report = q.update(dead_threshold=9, time_limit=20)
        assert sorted(worker.id for worker in report.stopped) == ["w1", "w2"]
        assert report.unanswered == ()
        assert {"w1": "stopped", "w2": "stopped"} in crew.seen
        crew.beat()
        assert crew.seen[-1] == {"w1": "running", "w2": "running"}

    def test_who_does_not_answer_is_named(self, hr: Any, q: Any, connect: Connect) -> None:
        crew = Crew(connect(), "w1", obedient=False)
        report = q.update(dead_threshold=9, time_limit=0.05)
        [late] = report.unanswered
        assert (late.id, late.client, late.host, late.pid) == ("w1", "shop", "here", 7)
        assert (report.is_changed, report.stopped) == (True, ())
        assert report.waited >= 0.05
        crew.beat()
        assert crew.seen[-1] == {"w1": "running"}

    def test_a_strict_update_is_refused(self, hr: Any, q: Any, connect: Connect) -> None:
        """Nothing is changed, and everybody goes on."""
        crew = Crew(connect(), "w1", obedient=False)
        q.push(1)
        with pytest.raises(UpdateRefused) as caught:
            q.update(dead_threshold=9, time_limit=0.02, strict=True)
        assert [worker.id for worker in caught.value.unanswered] == ["w1"]
        assert "w1 of client shop (here, pid 7)" in str(caught.value)
        assert hr.queues()[0].version == 1
        assert len(q.claim()) == 1
        crew.beat()
        assert crew.seen[-1] == {"w1": "running"}

    def test_nobody_waits_for_the_dead(
        self, hr: Any, q: Any, connect: Connect, clock: FakeClock
    ) -> None:
        Crew(connect(), "w1", obedient=False)
        clock.advance(16)
        report = q.update(dead_threshold=9, time_limit=20, strict=True)
        assert (report.is_changed, report.unanswered) == (True, ())

    def test_a_wrong_update_stops_nobody(self, hr: Any, q: Any, connect: Connect) -> None:
        crew = Crew(connect(), "w1")
        for wrong in ({"dead_threshold": 0}, {"colour": "red"}, {"time_limit": -1, "keep": "all"}):
            with pytest.raises(InvalidOption):
                q.update(**wrong)
        with pytest.raises(UnknownQueue):
            hr.update("none", keep="all")
        crew.beat()
        assert crew.seen[-1] == {"w1": "running"}
        assert hr.queues()[0].version == 1
