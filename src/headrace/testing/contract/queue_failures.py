"""Failing items, and failing workers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.model.failures import Failure
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    payload,
    payloads,
)


def crash(q: Queue, clock: FakeClock, times: int = 1) -> list[int]:
    """Claim an item and let its lease expire, several times. Return the items that ended with the
    last one."""
    ended: list[int] = []
    for _ in range(times):
        q.claim_one(lease_ms=1000, worker="w1")
        clock.advance(1)
        ended = q.ops.queues.expire_leases(q.name, 10)
    return ended


def headers_of(item: Any) -> dict[str, str]:
    headers: dict[str, str] = msgspec.json.decode(item.headers)
    return headers


class ItemFailureContract(QueueContract):
    """A failure is counted and recorded. It leads to another attempt or to the item's death."""

    def test_the_backoff_grows_with_each_attempt(self, q: Queue, clock: FakeClock) -> None:
        """FetchQ derived it from the rest of the lease."""
        q.create(max_attempts=-1, backoff={"first": 1, "factor": 3, "longest": 20, "jitter": 0})
        q.fill(1)
        waits = []
        for _ in range(5):
            settled = q.settle(q.claim_one(), "reject")
            assert settled.state == "planned"
            waits.append(settled.due - clock.now if settled.due else None)
            clock.advance(20)
        assert waits == [1000, 3000, 9000, 20_000, 20_000]

    def test_a_part_of_the_backoff_is_random(self, q: Queue, clock: FakeClock) -> None:
        """The outcome carries the random number, so that all drivers decide alike."""
        q.create(backoff={"first": 10, "jitter": 0.5})
        q.fill(2)
        first, second = q.claim(2)
        assert q.settle(first, "reject", chance=0.0).due == clock.now + 10_000
        assert q.settle(second, "reject", chance=1.0).due == clock.now + 5000

    def test_a_reject_delay_replaces_the_backoff(self, q: Queue, clock: FakeClock) -> None:
        q.create(reject_delay=1.5)
        q.fill(1)
        for _ in range(2):
            assert q.settle(q.claim_one(), "reject", chance=0.9).due == clock.now + 1500
            clock.advance(1.5)

    def test_an_outcome_can_set_its_delay(self, q: Queue, clock: FakeClock) -> None:
        """Its own time or delay goes before the queue's."""
        q.create(reject_delay=60)
        q.fill(2)
        first, second = q.claim(2)
        assert q.settle(first, "reject", due=clock.now + 7).due == clock.now + 7
        assert q.settle(second, "reject", delay_ms=9).due == clock.now + 9

    def test_a_rejected_item_returns_at_its_time(self, q: Queue, clock: FakeClock) -> None:
        """Its history is kept."""
        [id] = q.fill(1)
        q.end("reject", delay_ms=1000, failure="no luck")
        clock.advance(0.999)
        assert q.claim_response().state == "empty"
        clock.advance(0.001)
        item = q.claim_one()
        assert (item.id, item.attempts, item.iterations, item.crashes) == (id, 2, 1, 0)
        assert msgspec.json.decode(item.error or "", type=Failure).message == "no luck"

    def test_max_attempts_is_the_number_of_deliveries(self, q: Queue) -> None:
        """With three, the third rejection kills."""
        q.create(max_attempts=3)
        [id] = q.fill(1)
        states = [q.settle(q.claim_one(), "reject", delay_ms=0).state for _ in range(3)]
        assert states == ["pending", "pending", "dead"]
        [dead] = q.dead()
        assert (dead.item.id, dead.cause, dead.item.attempts) == (id, "rejected", 3)
        assert dead.item.iterations == 3

    def test_attempts_may_be_unlimited(self, q: Queue) -> None:
        """With -1, an item is retried for ever."""
        q.create(max_attempts=-1)
        q.fill(1)
        for _ in range(12):
            assert q.settle(q.claim_one(), "reject", delay_ms=0).state == "pending"

    @pytest.mark.parametrize(("most", "states"), [(1, ["dead"]), (-1, ["pending"] * 4)])
    def test_an_item_may_have_its_own_max_attempts(
        self, q: Queue, most: int, states: list[str]
    ) -> None:
        """Lower or higher than the queue's."""
        q.create(max_attempts=2)
        q.push(doc(1, overrides={"max_attempts": most}))
        assert [q.settle(q.claim_one(), "reject", delay_ms=0).state for _ in states] == states

    def test_a_release_counts_no_attempt(self, q: Queue) -> None:
        """A worker that shuts down does not bring an item nearer to its death."""
        q.create(max_attempts=2)
        q.fill(1)
        for _ in range(5):
            q.end("release")
        assert q.settle(q.claim_one(), "reject", delay_ms=0).state == "pending"
        assert q.settle(q.claim_one(), "reject", delay_ms=0).state == "dead"

    def test_a_reschedule_resets_the_attempts(self, q: Queue, clock: FakeClock) -> None:
        """It also resets the crashes: the item succeeded."""
        q.create(max_attempts=2, max_crashes=2)
        q.fill(1)
        for _ in range(3):
            crash(q, clock)
            q.end("reschedule")
        assert q.dead() == []

    @pytest.mark.parametrize("where", ["back", "front"])
    @pytest.mark.parametrize("delay_ms", [0, 1000])
    @pytest.mark.parametrize("by", ["queue", "item"])
    def test_a_rejected_item_returns_to_the_back_or_to_its_place(
        self, q: Queue, clock: FakeClock, where: str, delay_ms: int, by: str
    ) -> None:
        """The item's setting goes before the queue's. A delayed item returns after its delay."""
        other = "front" if where == "back" else "back"
        q.create(retry_position=where if by == "queue" else other)
        own = {"overrides": {"retry_position": where}} if by == "item" else {}
        q.push(doc(0, **own), 1, 2)
        q.end("reject", delay_ms=delay_ms)
        clock.advance(1)
        assert q.claim_all() == ([0, 1, 2] if where == "front" else [1, 2, 0])

    @pytest.mark.parametrize("where", ["back", "front", None])
    @pytest.mark.parametrize("by", ["queue", "item"])
    @pytest.mark.parametrize("ends", ["claim", "maintenance"])
    def test_an_expired_item_returns_to_the_back_or_to_its_place(
        self, q: Queue, clock: FakeClock, where: str | None, by: str, ends: str
    ) -> None:
        """The queue or the item may say where, as for a rejected item. By default it keeps its old
        place: the item did not fail, its worker did."""
        other = {"back": "front", "front": "back"}.get(where or "")
        q.create(retry_position=where if by == "queue" else other)
        own = {"overrides": {"retry_position": where}} if by == "item" and where else {}
        q.push(doc(0, **own), doc(1, **own), 2, doc("low", priority=-1))
        q.claim(2, lease_ms=1000)
        clock.advance(1)
        if ends == "maintenance":
            assert len(q.ops.queues.expire_leases("q", 10)) == 2
        assert q.claim_all() == ([2, 0, 1, "low"] if where == "back" else [0, 1, 2, "low"])

    def test_an_abandoned_item_counts_a_crash(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """It is pending immediately, at its old place, with its attempts unchanged."""
        [id, *_] = q.fill(3)
        assert crash(q, clock) == [id]
        item = q.item(id)
        assert (item.state, item.attempts, item.crashes) == (State.PENDING, 1, 1)
        assert (item.iterations, item.last_iteration) == (0, None)
        assert (item.token, item.lease_until, item.worker) == (None, None, None)
        assert msgspec.json.decode(item.error, type=Failure).type == "WorkerLost"
        assert q.claim_all() == [0, 1, 2]

    def test_a_lease_ends_exactly_at_its_time(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Not a millisecond earlier."""
        [id] = q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(0.999)
        assert ops.queues.expire_leases("q", 10) == []
        clock.advance(0.001)
        assert ops.queues.expire_leases("q", 10) == [id]
        assert ops.queues.expire_leases("q", 10) == []

    def test_the_oldest_leases_are_ended_first(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Up to the limit of the call."""
        a, b, c = q.fill(3)
        for lease in (3000, 1000, 2000):
            q.claim_one(lease_ms=lease)
        clock.advance(10)
        assert ops.queues.expire_leases("q", 2) == [b, c]
        assert ops.queues.expire_leases("q", 2) == [a]

    def test_a_poison_item_dies_after_max_crashes(self, q: Queue, clock: FakeClock) -> None:
        """It cannot kill one worker after another for ever."""
        q.create(max_crashes=2, max_attempts=-1)
        [id] = q.fill(1)
        crash(q, clock)
        q.end("reject", delay_ms=0)
        crash(q, clock)
        [dead] = q.dead()
        assert (dead.item.id, dead.cause, dead.item.crashes) == (id, "worker lost", 2)
        assert (dead.item.attempts, dead.ended_at) == (3, clock.now)
        assert (dead.title or "").startswith("WorkerLost: worker w…")

    def test_crashes_count_as_attempts(self, q: Queue, clock: FakeClock) -> None:
        """Without a limit of crashes, max_attempts still applies."""
        q.create(max_crashes=-1, max_attempts=3)
        q.fill(1)
        crash(q, clock, times=2)
        assert q.dead() == []
        crash(q, clock)
        assert [dead.cause for dead in q.dead()] == ["worker lost"]

    def test_a_claim_does_not_return_items_that_it_finds_dead(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """A claim that takes over abandoned items counts their crashes as maintenance does."""
        q.create(max_crashes=1)
        q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        assert q.claim_response().state == "empty"
        assert len(q.dead()) == 1

    def test_the_end_of_a_lease_wakes_waiters(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """The item is claimable immediately."""
        q.fill(1)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        waiter = ops.store.waiter("queue/q")
        try:
            ops.queues.expire_leases("q", 10)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()

    def test_failures_are_logged(self, q: Queue, clock: FakeClock) -> None:
        """Newest first, with the attempt, the worker and the complete failure."""
        [id] = q.push(doc(1, subject="s")).ids
        story = Failure(type="ValueError", message="no 7", traceback="…\nline 3", details='{"a":1}')
        q.settle(q.claim_one(worker="w1"), "reject", delay_ms=0, failure=story)
        clock.advance(1)
        q.settle(q.claim_one(), "reject", delay_ms=0, failure="again")
        second, first = q.errors()
        assert (first.item, first.subject, first.attempt, first.worker) == (id, "s", 1, "w1")
        assert (first.at, first.failure) == (clock.now - 1000, story)
        assert (second.attempt, second.worker, second.failure.message) == (2, None, "again")
        assert second.id > first.id

    def test_the_error_log_is_read_in_pages(self, ops: StoreOps, q: Queue) -> None:
        """Of all items or of one."""
        a, b = q.fill(2)
        for _ in range(4):
            q.end("reject", delay_ms=0)
        everything = q.errors()
        assert [error.item for error in everything] == [b, a, b, a]
        assert ops.queues.logged_errors("q", None, 2**62, 3) == everything[:3]
        assert ops.queues.logged_errors("q", None, everything[2].id, 3) == everything[3:]
        assert ops.queues.logged_errors("q", a, 2**62, 10) == [everything[1], everything[3]]
        assert ops.queues.logged_errors("q", a, everything[1].id, 10) == [everything[3]]

    def test_a_crash_is_logged(self, q: Queue, clock: FakeClock) -> None:
        """The entry names the worker and the attempt. FetchQ only counted it."""
        [id] = q.push(doc(1, subject="s")).ids
        q.end("reject", delay_ms=0)
        crash(q, clock)
        error = q.errors()[0]
        assert (error.item, error.subject, error.attempt, error.worker) == (id, "s", 2, "w1")
        assert error.failure.type == "WorkerLost"
        assert "w1" in error.failure.message
        assert error.at == clock.now

    def test_which_outcomes_are_failures(self, q: Queue) -> None:
        """Every rejection is one, even without a message. Other outcomes are if they carry a
        failure."""
        q.fill(9)
        for kind in ("complete", "reschedule", "kill", "drop", "release"):
            q.end(kind, delay_ms=60_000)
        assert q.errors() == []
        q.end("reject")
        assert [error.failure for error in q.errors()] == [Failure()]
        for kind in ("complete", "reschedule", "kill", "drop"):
            q.settle(q.claim_one(), kind, failure=kind, delay_ms=60_000)
        messages = [error.failure.message for error in q.errors()]
        assert messages == ["drop", "kill", "reschedule", "complete", ""]
        assert q.counts().errors == 5

    def test_a_queue_may_keep_no_error_log(self, q: Queue, clock: FakeClock) -> None:
        """Failures are still counted, and the item keeps its last error."""
        q.create(errors=False)
        [id] = q.fill(1)
        q.end("reject", delay_ms=0, failure="told")
        crash(q, clock)
        assert q.errors() == []
        assert q.counts().errors == 2
        assert q.item(id).error is not None

    def test_dead_items_can_go_to_other_queues(self, ops: StoreOps, q: Queue) -> None:
        """Each queue gets a copy that names its origin, and is created if necessary. The item
        itself is then not kept."""
        q.create(dead_to=["r", "s"], max_attempts=2)
        [id] = q.push(doc({"n": 1}, subject="x", priority=3, headers={"own": "1"})).ids
        for _ in range(2):
            q.end("reject", delay_ms=0, failure=Failure(type="ValueError", message="no 7"))
        assert q.is_gone(id)
        assert q.counts().total == 0
        for name in ("r", "s"):
            copy = Queue(ops, name).claim_one()
            assert (payload(copy), copy.subject, copy.priority) == ({"n": 1}, "x", 3)
            assert (copy.attempts, copy.crashes, copy.iterations, copy.error) == (1, 0, 0, None)
            assert headers_of(copy) == {
                "own": "1",
                "headrace-dead-queue": "q",
                "headrace-dead-id": str(id),
                "headrace-dead-cause": "rejected",
                "headrace-dead-error": "ValueError: no 7",
                "headrace-dead-attempts": "2",
            }

    def test_dead_letter_queues_can_be_chained(self, ops: StoreOps, q: Queue) -> None:
        """The headers describe the last death. The last queue keeps its dead items."""
        q.create(dead_to=["r"])
        r, s = Queue(ops, "r"), Queue(ops, "s")
        r.create(dead_to=["s"])
        q.push(1)
        q.end("kill")
        second = r.end("kill", failure="again")
        s.end("kill")
        assert (q.dead(), r.dead()) == ([], [])
        [dead] = s.dead()
        headers = headers_of(dead.item)
        assert headers["headrace-dead-queue"] == "r"
        assert headers["headrace-dead-id"] == str(second.id)
        assert headers["headrace-dead-error"] == "Rejected: again"
        assert "headrace-dead-error" not in headers_of(second)

    def test_a_queue_sends_no_copy_to_itself(self, ops: StoreOps, q: Queue) -> None:
        """It keeps its dead items. So does the queue that the stored defaults name as dead-letter
        queue."""
        q.create(dead_to=["q"], while_active="next")
        q.push(doc("old", subject="x"))
        held = q.claim_one()
        q.upsert(doc("new", subject="x"))
        q.settle(held, "kill")
        [dead] = q.dead()
        assert (payload(dead.item), dead.item.subject) == ("old", "x")
        q.end("drop")
        q.create(dead_to=["q", "r"])
        q.push(doc("both", subject="x"))
        q.end("kill")
        assert len(q.dead()) == 1
        assert payload(Queue(ops, "r").claim_one()) == "both"

    def test_a_copy_is_never_lost(self, ops: StoreOps, q: Queue) -> None:
        """If its subject is in use, the copy has none. Uniqueness does not refuse it."""
        q.create(dead_to=["r"])
        r = Queue(ops, "r")
        r.create(unique="forever")
        q.push(doc("first", subject="s"))
        q.end("kill")
        r.end("complete")
        for content in ("second", "third"):
            q.push(doc(content, subject="s"))
            q.end("kill")
        copies = r.claim(5)
        assert payloads(copies) == ["second", "third"]
        assert [copy.subject for copy in copies] == ["s", None]

    def test_an_abandoned_item_goes_to_other_queues_too(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Its successor, if it has one, stays behind."""
        q.create(dead_to=["r"], max_crashes=1, while_active="next")
        q.push(doc("old", subject="s"))
        q.claim_one(lease_ms=1000)
        q.upsert(doc("new", subject="s"))
        clock.advance(1)
        ops.queues.expire_leases("q", 10)
        [copy] = Queue(ops, "r").claim(5)
        assert payload(copy) == "old"
        assert headers_of(copy)["headrace-dead-cause"] == "worker lost"
        assert q.claim_all() == ["new"]

    @pytest.mark.parametrize("kind", ["complete", "drop", "reschedule", "release", "reject"])
    def test_only_dead_items_are_copied(self, ops: StoreOps, q: Queue, kind: str) -> None:
        """The dead-letter queue is not even created."""
        q.create(dead_to=["r"])
        q.fill(1)
        q.end(kind)
        assert [info.name for info in ops.queues.list("", "", 10)] == ["q"]

    def test_a_copy_wakes_waiters_of_its_queue(self, ops: StoreOps, q: Queue) -> None:
        """As any push does."""
        q.create(dead_to=["r"])
        q.fill(1)
        item = q.claim_one()
        waiter = ops.store.waiter("queue/r")
        try:
            q.settle(item, "kill")
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        assert len(ids(Queue(ops, "r").claim(5))) == 1
