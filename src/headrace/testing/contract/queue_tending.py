"""Maintenance of queues: what is kept, and for how long."""

from __future__ import annotations

import pytest

from headrace.model.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, ids

MINUTE, HOUR = 60, 3600


class TendingContract(QueueContract):
    """Queues do not grow for ever, and nothing correct depends on when they are tended."""

    def test_completed_items_are_kept_for_their_time(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """To the millisecond, if somebody tends the queue then."""
        q.create(keep=10)
        q.fill(2)
        q.end("complete")
        clock.advance(5)
        q.end("complete")
        clock.advance(4.999)
        assert desk.tend_queue("q", 100) == 0
        clock.advance(0.001)
        assert desk.tend_queue("q", 100) == 1
        assert len(q.in_state(State.COMPLETED)) == 1

    def test_all_completed_items_can_be_kept(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """For ever."""
        q.create(keep="all")
        q.fill(1)
        q.end("complete")
        clock.advance(10**8)
        assert desk.tend_queue("q", 100) == 0
        assert len(q.in_state(State.COMPLETED)) == 1

    def test_the_present_settings_count(self, desk: Desk, q: Queue) -> None:
        """A queue that keeps nothing any more loses what it kept."""
        q.create(keep="all")
        q.fill(2)
        q.end("complete")
        q.update(keep="none")
        assert desk.tend_queue("q", 100) == 1
        assert q.in_state(State.COMPLETED) == []

    def test_dead_items_are_kept_for_ever_or_for_their_time(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """For ever unless the queue says otherwise."""
        q.create(errors_retention=10**9, metrics_retention=10**9)
        q.fill(1)
        q.end("kill")
        clock.advance(10**7)
        assert desk.tend_queue("q", 100) == 0
        q.update(keep_dead=10**7 + 1)
        clock.advance(0.999)
        assert desk.tend_queue("q", 100) == 0
        clock.advance(0.001)
        assert desk.tend_queue("q", 100) == 1
        assert q.dead() == []

    def test_the_error_series_has_its_own_time(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """The oldest go first."""
        q.create(errors_retention=HOUR, dead_threshold=-1)
        q.fill(1)
        for _ in range(3):
            q.end("reject", delay_ms=0)
            clock.advance(HOUR / 2)
        newest, older, _ = q.errors()
        assert desk.tend_queue("q", 100) == 2
        assert q.errors() == [newest]
        assert older.at == clock.now - HOUR * 1000

    def test_a_sample_is_taken_once_a_minute(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """However often the queue is tended."""
        start = clock.now
        q.fill(2)
        desk.tend_queue("q", 100)
        q.end("complete")
        clock.advance(MINUTE - 0.001)
        desk.tend_queue("q", 100)
        clock.advance(0.001)
        desk.tend_queue("q", 100)
        first, second = desk.samples("q", 0, 100)
        assert (first.at, second.at) == (start, start + MINUTE * 1000)
        assert (first.counts.pending, second.counts.pending) == (2, 1)
        assert second.counts == q.counts()

    def test_samples_are_read_from_a_time_on(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """That time included, oldest first, in pages."""
        q.create()
        for _ in range(4):
            desk.tend_queue("q", 100)
            clock.advance(MINUTE)
        everything = desk.samples("q", 0, 100)
        assert len(everything) == 4
        assert desk.samples("q", everything[1].at, 2) == everything[1:3]
        assert desk.samples("q", everything[1].at + 1, 100) == everything[2:]

    def test_samples_have_their_own_time(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """Kept for ``metrics_retention``."""
        q.create(metrics_retention=HOUR)
        desk.tend_queue("q", 100)
        clock.advance(HOUR - 0.001)
        assert desk.tend_queue("q", 100) == 0
        clock.advance(0.001)
        assert desk.tend_queue("q", 100) == 1
        assert [sample.at for sample in desk.samples("q", 0, 9)] == [clock.now - 1]

    def test_a_queue_without_metrics_has_no_samples(self, desk: Desk, q: Queue) -> None:
        """It keeps no running numbers at all."""
        q.create(metrics=False)
        desk.tend_queue("q", 100)
        assert desk.samples("q", 0, 9) == []

    def test_leases_are_ended(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """So that items come back though nobody claims."""
        [id] = q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        assert desk.tend_queue("q", 100) == 0
        assert (q.item(id).state, q.item(id).crashes) == (State.PENDING, 1)

    def test_it_is_done_in_portions(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """At most ``limit`` of each thing, the oldest first, until nothing is left to do."""
        q.create(keep=0, errors=False)
        everything = q.fill(5)
        for item in q.claim(5):
            q.settle(item, "complete")
            clock.advance(1)
        assert desk.tend_queue("q", 2) == 2
        assert ids(q.in_state(State.COMPLETED)) == everything[2:]
        assert [desk.tend_queue("q", 2) for _ in range(3)] == [2, 1, 0]

    @pytest.mark.parametrize("unique", ["window", "forever"])
    def test_used_subjects_are_remembered_for_their_time(
        self, desk: Desk, q: Queue, clock: FakeClock, unique: str
    ) -> None:
        """Tending does not forget them too early."""
        q.create(unique=unique, unique_window=HOUR)
        q.push(doc(1, subject="s"))
        q.end("complete")
        clock.advance(HOUR - 0.001)
        desk.tend_queue("q", 100)
        assert q.push(doc(2, subject="s")).ids == (0,)
        clock.advance(0.001)
        desk.tend_queue("q", 100)
        assert (q.push(doc(3, subject="s")).ids == (0,)) == (unique == "forever")

    def test_queues_are_tended_one_by_one(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """The things of other queues are left alone."""
        r = Queue(desk, "r")
        for queue in (q, r):
            queue.create(keep=1)
            queue.fill(1)
            queue.end("complete")
        clock.advance(1)
        assert desk.tend_queue("q", 100) == 1
        assert (len(q.in_state(3)), len(r.in_state(3))) == (0, 1)
