"""Maintenance of queues: what is kept, and for how long."""

from __future__ import annotations

import pytest

from headrace.model.maintenance import Tended
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc, ids

MINUTE, HOUR = 60, 3600


class QueueMaintenanceContract(QueueContract):
    """Queues do not grow for ever. Correctness never depends on when maintenance runs."""

    def test_maintenance_counts_ended_leases(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """The leases it ended, and the items that died by that."""
        q.create(max_crashes=2, lease=10)
        q.fill(1)
        q.claim(1)
        clock.advance(10)
        q.fill(1)
        assert ops.queues.maintain("q", 100) == Tended("q", removed=0, expired=1, died=0)
        q.claim(2)
        clock.advance(10)
        assert ops.queues.maintain("q", 1).expired == 1
        assert ops.queues.maintain("q", 1).expired == 1
        assert ops.queues.maintain("q", 1) == Tended("q")
        assert len(q.in_state(State.DEAD)) == 1

    def test_completed_items_are_kept_for_their_time(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """To the millisecond, if maintenance runs then."""
        q.create(keep=10)
        q.fill(2)
        q.end("complete")
        clock.advance(5)
        q.end("complete")
        clock.advance(4.999)
        assert ops.queues.maintain("q", 100).removed == 0
        clock.advance(0.001)
        assert ops.queues.maintain("q", 100).removed == 1
        assert len(q.in_state(State.COMPLETED)) == 1

    def test_all_completed_items_can_be_kept(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """For ever."""
        q.create(keep="all")
        q.fill(1)
        q.end("complete")
        clock.advance(10**8)
        assert ops.queues.maintain("q", 100).removed == 0
        assert len(q.in_state(State.COMPLETED)) == 1

    def test_the_current_settings_count(self, ops: StoreOps, q: Queue) -> None:
        """A queue that is set to keep nothing loses the items it kept before."""
        q.create(keep="all")
        q.fill(2)
        q.end("complete")
        q.update(keep="none")
        assert ops.queues.maintain("q", 100).removed == 1
        assert q.in_state(State.COMPLETED) == []

    def test_dead_items_are_kept_for_ever_or_for_their_time(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """For ever by default."""
        q.create(errors_retention=10**9, metrics_retention=10**9)
        q.fill(1)
        q.end("kill")
        clock.advance(10**7)
        assert ops.queues.maintain("q", 100).removed == 0
        q.update(keep_dead=10**7 + 1)
        clock.advance(0.999)
        assert ops.queues.maintain("q", 100).removed == 0
        clock.advance(0.001)
        assert ops.queues.maintain("q", 100).removed == 1
        assert q.dead() == []

    def test_the_error_log_has_its_own_retention(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """The oldest entries are deleted first."""
        q.create(errors_retention=HOUR, max_attempts=-1)
        q.fill(1)
        for _ in range(3):
            q.end("reject", delay_ms=0)
            clock.advance(HOUR / 2)
        newest, older, _ = q.errors()
        assert ops.queues.maintain("q", 100).removed == 2
        assert q.errors() == [newest]
        assert older.at == clock.now - HOUR * 1000

    def test_a_sample_is_taken_once_a_minute(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """However often maintenance runs."""
        start = clock.now
        q.fill(2)
        ops.queues.maintain("q", 100)
        q.end("complete")
        clock.advance(MINUTE - 0.001)
        ops.queues.maintain("q", 100)
        clock.advance(0.001)
        ops.queues.maintain("q", 100)
        first, second = ops.queues.samples("q", 0, 100)
        assert (first.at, second.at) == (start, start + MINUTE * 1000)
        assert (first.counts.pending, second.counts.pending) == (2, 1)
        assert second.counts == q.counts()

    def test_samples_are_read_from_a_time_on(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """From that time inclusive, oldest first, in pages."""
        q.create()
        for _ in range(4):
            ops.queues.maintain("q", 100)
            clock.advance(MINUTE)
        everything = ops.queues.samples("q", 0, 100)
        assert len(everything) == 4
        assert ops.queues.samples("q", everything[1].at, 2) == everything[1:3]
        assert ops.queues.samples("q", everything[1].at + 1, 100) == everything[2:]

    def test_samples_have_their_own_retention(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """``metrics_retention``."""
        q.create(metrics_retention=HOUR)
        ops.queues.maintain("q", 100)
        clock.advance(HOUR - 0.001)
        assert ops.queues.maintain("q", 100).removed == 0
        clock.advance(0.001)
        assert ops.queues.maintain("q", 100).removed == 1
        assert [sample.at for sample in ops.queues.samples("q", 0, 9)] == [clock.now - 1]

    def test_a_queue_without_metrics_has_no_samples(self, ops: StoreOps, q: Queue) -> None:
        """It has no running counts at all."""
        q.create(metrics=False)
        ops.queues.maintain("q", 100)
        assert ops.queues.samples("q", 0, 9) == []

    def test_maintenance_ends_expired_leases(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Items return even if nothing claims."""
        [id] = q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        assert ops.queues.maintain("q", 100).removed == 0
        assert (q.item(id).state, q.item(id).crashes) == (State.PENDING, 1)

    def test_maintenance_proceeds_in_portions(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """At most ``limit`` rows of each kind, the oldest first, until nothing is left to do."""
        q.create(keep=0, errors=False)
        everything = q.fill(5)
        for item in q.claim(5):
            q.settle(item, "complete")
            clock.advance(1)
        assert ops.queues.maintain("q", 2).removed == 2
        assert ids(q.in_state(State.COMPLETED)) == everything[2:]
        assert [ops.queues.maintain("q", 2).removed for _ in range(3)] == [2, 1, 0]

    @pytest.mark.parametrize("unique", ["window", "forever"])
    def test_used_subjects_are_remembered_for_their_time(
        self, ops: StoreOps, q: Queue, clock: FakeClock, unique: str
    ) -> None:
        """Maintenance does not delete them too early."""
        q.create(unique=unique, unique_window=HOUR)
        q.push(doc(1, subject="s"))
        q.end("complete")
        clock.advance(HOUR - 0.001)
        ops.queues.maintain("q", 100)
        assert q.push(doc(2, subject="s")).ids == (0,)
        clock.advance(0.001)
        ops.queues.maintain("q", 100)
        assert (q.push(doc(3, subject="s")).ids == (0,)) == (unique == "forever")

    def test_maintenance_affects_one_queue(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """Other queues are left alone."""
        r = Queue(ops, "r")
        for queue in (q, r):
            queue.create(keep=1)
            queue.fill(1)
            queue.end("complete")
        clock.advance(1)
        assert ops.queues.maintain("q", 100).removed == 1
        assert (len(q.in_state(3)), len(r.in_state(3))) == (0, 1)
