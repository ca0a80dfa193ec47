"""The counts of queues."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from headrace.contract.items import COUNTED, ItemFilter
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    check_counts,
    doc,
)

SETTLED: dict[str, dict[str, int]] = {
    "complete": {"processed": 1, "completed": 1},
    "reschedule": {"processed": 1, "rescheduled": 1, "pending": 1},
    "reject": {"processed": 1, "rejected": 1, "errors": 1, "pending": 1},
    "kill": {"processed": 1, "dead": 1},
    "drop": {"processed": 1, "dropped": 1},
    "release": {"pending": 1},
}


def changes(q: Queue, before: Any) -> dict[str, int]:
    """The counts that differ from those before."""
    then, now = asdict(before), asdict(q.counts())
    return {name: now[name] - then[name] for name in COUNTED if now[name] != then[name]}


class QueueCountContract(QueueContract):
    """The counts are exact at any moment."""

    def test_the_counts_of_a_new_queue(self, ops: StoreOps, q: Queue) -> None:
        """All are zero, and no item is due."""
        q.create()
        [backlog] = ops.queues.counts(["q"], False)
        assert set(asdict(backlog.counts).values()) == {0}
        assert (backlog.counts.total, backlog.oldest_due_ms) == (0, None)
        assert not backlog.is_computed

    def test_a_push_counts_new_items(self, q: Queue) -> None:
        """Skipped and updated items do not count as entered."""
        q.push(doc(1, subject="a"))
        before = q.counts()
        q.push(doc(2), doc(3, delay=9), doc(4, subject="a"))
        assert changes(q, before) == {"entered": 2, "pending": 1, "planned": 1}
        before = q.counts()
        q.upsert(doc(5, subject="a", delay=9))
        assert changes(q, before) == {"pending": -1, "planned": 1}

    def test_a_claim_counts_its_items(self, q: Queue, clock: FakeClock) -> None:
        """It also turns planned items that are due into active ones. An empty claim counts
        nothing."""
        q.push(1, doc(2, delay=1000))
        before = q.counts()
        q.claim(5)
        assert changes(q, before) == {"picked": 1, "pending": -1, "active": 1}
        clock.advance(1)
        before = q.counts()
        q.claim(5)
        assert changes(q, before) == {"picked": 1, "planned": -1, "active": 1}
        before = q.counts()
        q.claim(5)
        assert changes(q, before) == {}

    @pytest.mark.parametrize("kind", SETTLED)
    def test_each_outcome_is_counted_as_in_fetchq(self, q: Queue, kind: str) -> None:
        """The item is no longer active. A release does not undo the counted claim."""
        q.create(keep="all")
        q.fill(1)
        item = q.claim_one()
        before = q.counts()
        q.settle(item, kind, delay_ms=0)
        assert changes(q, before) == {"active": -1, **SETTLED[kind]}

    def test_a_rejection_that_kills_is_counted_as_both(self, q: Queue) -> None:
        """As rejected and as dead."""
        q.create(max_attempts=1)
        q.fill(1)
        item = q.claim_one()
        before = q.counts()
        q.settle(item, "reject")
        expected = {"active": -1, "processed": 1, "rejected": 1, "errors": 1, "dead": 1}
        assert changes(q, before) == expected

    @pytest.mark.parametrize(("crashes", "state"), [(2, "pending"), (1, "dead")])
    def test_an_abandoned_item_is_an_orphan(
        self, ops: StoreOps, q: Queue, clock: FakeClock, crashes: int, state: str
    ) -> None:
        """It counts as an error but not as processed, since it has no outcome."""
        q.create(max_crashes=crashes)
        q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        before = q.counts()
        ops.queues.expire_leases("q", 10)
        assert changes(q, before) == {"active": -1, "orphaned": 1, "errors": 1, state: 1}

    def test_deleted_items_do_not_count(self, ops: StoreOps, q: Queue) -> None:
        """Completed items by default, and dead items that moved to another queue."""
        q.create(dead_to=["r"])
        q.fill(2)
        for kind in ("complete", "kill"):
            q.end(kind)
        assert (q.counts().total, q.counts().processed) == (0, 2)
        assert (Queue(ops, "r").counts().entered, Queue(ops, "r").counts().pending) == (1, 1)

    def test_counts_are_right_after_every_operation(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Running counts equal computed counts after any operation on a queue."""
        q.create(while_active="next", keep=60, max_attempts=3, unique="window")
        made = q.push(*(doc(n, subject=str(n % 7), delay=(n % 3) * 500) for n in range(12))).ids
        r = Queue(ops, "r")
        steps = [
            lambda: q.upsert(doc(1, subject="1"), doc(2, subject="2", delay=5000)),
            lambda: q.claim(2, lease_ms=1000),
            lambda: q.upsert(*(doc("next", subject=str(n)) for n in range(7))),
            lambda: q.end("reject", delay_ms=1, failure="x"),
            lambda: clock.advance(1),
            lambda: q.claim(9, lease_ms=1000),
            lambda: clock.advance(1),
            lambda: ops.queues.expire_leases("q", 2),
            lambda: q.end("complete"),
            lambda: q.end("kill", pushes=(r.call(1, 2),)),
            lambda: ops.queues.redrive("q", ItemFilter(), None, 1),
            lambda: q.end("kill"),
            lambda: ops.queues.redrive("q", ItemFilter(), "r", 1),
            lambda: q.end("release"),
            lambda: q.end("drop"),
            lambda: q.update(discipline="lifo"),
            lambda: q.push(doc("c", subject="cancelled"), doc("d", delay=9)),
            lambda: ops.queues.cancel_item("q", q.item("cancelled").id),
            lambda: ops.queues.edit_item("q", q.push(doc("e", delay=9)).ids[0], None, 1, clock.now),
            lambda: q.end("kill"),
            lambda: ops.queues.retry_item("q", q.dead()[0].item.id),
            lambda: ops.queues.drop("q", True),
            lambda: q.create(keep=60),
            lambda: clock.advance(60),
            lambda: ops.queues.maintain("q", 100),
            lambda: ops.queues.purge_dead("q", ItemFilter(), 100),
            lambda: q.claim(100),
        ]
        for step in steps:
            step()
            check_counts(ops)
        assert len(made) == 12

    def test_counts_of_some_or_of_all_queues(self, ops: StoreOps) -> None:
        """They are sorted by name, in whatever order the queues were given."""
        for name, count in (("b", 2), ("c", 3), ("a", 1)):
            Queue(ops, name).fill(count)
        every = [
            (backlog.queue, backlog.counts.pending) for backlog in ops.queues.counts(None, False)
        ]
        assert every == [("a", 1), ("b", 2), ("c", 3)]
        some = ops.queues.counts(["c", "a"], True)
        assert [backlog.queue for backlog in some] == ["a", "c"]
        assert all(backlog.is_computed for backlog in some)
        assert ops.queues.counts([], False) == []

    def test_computed_counts_keep_the_lifetime_counters(self, ops: StoreOps, q: Queue) -> None:
        """Computed counts return the same lifetime counters as running ones."""
        q.fill(2)
        q.end("complete")
        [running] = ops.queues.counts(["q"], False)
        [computed] = ops.queues.counts(["q"], True)
        assert computed.counts == running.counts
        assert running.counts.entered == 2

    def test_how_long_the_oldest_item_has_been_due(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Planned items count from their due time on. Active items do not count."""

        def oldest() -> int | None:
            [backlog] = ops.queues.counts(["q"], False)
            waited: int | None = backlog.oldest_due_ms
            return waited

        q.push(doc("planned", delay=2000))
        assert oldest() is None
        q.push("due")
        clock.advance(1)
        assert oldest() == 1000
        q.claim_one()
        assert oldest() is None
        clock.advance(3)
        assert oldest() == 2000

    def test_a_queue_may_keep_no_running_counts(self, ops: StoreOps, q: Queue) -> None:
        """Its states are then counted on demand, and there are no lifetime counters."""
        q.create(metrics=False)
        q.fill(3)
        q.end("kill")
        q.claim_one()
        [backlog] = ops.queues.counts(["q"], False)
        counts = backlog.counts
        assert (counts.pending, counts.active, counts.dead, counts.total) == (1, 1, 1, 3)
        assert (counts.entered, counts.picked, counts.processed) == (0, 0, 0)
        assert backlog.is_computed

    def test_running_counts_can_be_switched_on(self, ops: StoreOps, q: Queue) -> None:
        """They are right from the first moment."""
        q.create(metrics=False)
        q.fill(3)
        q.claim_one()
        q.update(metrics=True)
        [backlog] = ops.queues.counts(["q"], False)
        assert (backlog.counts.pending, backlog.counts.active) == (2, 1)
        assert not backlog.is_computed
        q.push(4)
        assert (q.counts().pending, q.counts().entered) == (3, 1)

    def test_running_counts_can_be_switched_off(self, ops: StoreOps, q: Queue) -> None:
        """The states are still counted."""
        q.fill(3)
        q.update(metrics=False)
        q.claim_one()
        [backlog] = ops.queues.counts(["q"], False)
        assert (backlog.counts.pending, backlog.counts.active) == (2, 1)
        assert (backlog.counts.entered, backlog.is_computed) == (0, True)

    def test_consolidate_computes_the_running_counts(self, ops: StoreOps, q: Queue) -> None:
        """For some queues or for all. Afterwards the running counts equal the computed ones."""
        q.fill(3)
        q.end("kill")
        Queue(ops, "r").fill(1)
        [backlog] = ops.queues.consolidate(["q"])
        assert (backlog.counts.pending, backlog.counts.dead, backlog.is_computed) == (2, 1, True)
        assert [backlog.queue for backlog in ops.queues.consolidate(None)] == ["q", "r"]
        assert q.counts() == backlog.counts
