"""Outcomes of claimed items."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Settled
from headrace.contract.values import CommitCall, CommitPart
from headrace.errors import UnknownItem, UnknownTopic
from headrace.model.queues.items import BYTES, JSON, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import bodies
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    outcome_of,
    payload,
    payloads,
)

KINDS = ["complete", "reschedule", "reject", "kill", "drop", "release"]
ENDS = ["complete", "kill", "drop"]
WAITS = ["reschedule", "reject", "release"]


def record(topic: str, text: str) -> CommitCall:
    return CommitCall(parts=(CommitPart(topic, 1, text),))


class OutcomeContract(QueueContract):
    """The holder of an item reports its outcome, once."""

    def test_complete_ends_an_item(self, q: Queue) -> None:
        """It is deleted unless the queue keeps completed items."""
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "complete") == Settled(id, "completed")
        with pytest.raises(UnknownItem):
            q.item(id)
        assert q.counts().total == 0

    @pytest.mark.parametrize("keep", ["all", 60])
    def test_completed_items_can_be_kept(self, q: Queue, clock: FakeClock, keep: Any) -> None:
        """As they were at the end, apart from the live items."""
        q.create(keep=keep)
        [id] = q.fill(1)
        clock.advance(1)
        q.end("complete", payload="done")
        [kept] = q.in_state(State.COMPLETED)
        assert (kept.item.id, kept.cause, kept.ended_at) == (id, "completed", clock.now)
        assert (payload(kept), kept.item.iterations, kept.item.attempts) == ("done", 1, 0)
        assert kept.item.last_iteration == clock.now
        assert (kept.fingerprint, kept.title) == (None, None)
        assert q.item(id) == kept
        assert q.claim_response().state == "empty"

    def test_reschedule_waits_for_a_time(self, q: Queue, clock: FakeClock) -> None:
        """The same item runs again then, with all its attempts."""
        [id] = q.fill(1)
        q.end("reject", delay_ms=0, failure="first")
        due = clock.now + 5000
        assert q.settle(q.claim_one(), "reschedule", due=due) == Settled(id, "planned", due)
        item = q.item(id)
        assert (item.attempts, item.crashes, item.iterations, item.error) == (0, 0, 2, None)
        assert (item.last_iteration, item.token, item.lease_until) == (clock.now, None, None)
        clock.advance(5)
        assert q.claim_one().attempts == 1

    def test_reschedule_waits_for_a_delay(self, q: Queue, clock: FakeClock) -> None:
        """The delay of the outcome, else that of the queue."""
        q.create(reschedule_delay=2.5)
        q.fill(2)
        first, second = q.claim(2)
        assert q.settle(first, "reschedule", delay_ms=700).due == clock.now + 700
        assert q.settle(second, "reschedule").due == clock.now + 2500

    def test_an_immediate_reschedule_goes_to_the_back(self, q: Queue, clock: FakeClock) -> None:
        """An item that is due now is pending without a detour."""
        [id, *_] = q.fill(3)
        assert q.settle(q.claim_one(), "reschedule") == Settled(id, "pending", clock.now)
        assert q.claim_all() == [1, 2, 0]

    def test_kill_ends_an_item_as_dead(self, q: Queue, clock: FakeClock) -> None:
        """Immediately, however many attempts are left."""
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "kill", failure="hopeless") == Settled(id, "dead")
        [dead] = q.dead()
        assert (dead.item.id, dead.cause, dead.ended_at) == (id, "killed", clock.now)
        assert dead.title == "Rejected: hopeless"
        assert dead.item.iterations == 1
        assert q.claim_response().state == "empty"

    def test_drop_leaves_no_trace(self, q: Queue) -> None:
        """Not even in a queue that keeps everything."""
        q.create(keep="all")
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "drop") == Settled(id, "dropped")
        assert q.is_gone(id)
        assert q.counts().total == 0

    def test_release_undoes_the_claim(self, q: Queue, clock: FakeClock) -> None:
        """No attempt and no iteration is counted, and the item keeps its old place."""
        [id, *_] = q.fill(3)
        before = q.item(id)
        clock.advance(1)
        item = q.claim_one()
        assert q.settle(item, "release", failure="ignored").state == "pending"
        after = q.item(id)
        assert (after.attempts, after.iterations, after.error) == (0, 0, None)
        assert (after.position, after.waiting_since) == (before.position, before.waiting_since)
        assert q.errors() == []
        assert q.claim_all() == [0, 1, 2]

    @pytest.mark.parametrize("kind", ["complete", "reschedule", "reject", "kill"])
    def test_an_outcome_can_replace_the_payload(self, q: Queue, kind: str) -> None:
        """The new one has its own format. Without one, the old payload stays."""
        q.create(keep="all")
        q.push("old", "older")
        first, second = q.claim(2)
        q.ops.queues.settle(
            "q",
            [
                outcome_of(first, kind, payload={"step": 2}, format=JSON),
                outcome_of(second, kind),
            ],
        )
        assert payloads(map(q.item, (first.id, second.id))) == [{"step": 2}, "older"]

    def test_a_payload_may_change_its_format(self, q: Queue) -> None:
        """For example from JSON to bytes."""
        [id] = q.fill(1)
        item = q.claim_one()
        outcome = outcome_of(item, "reschedule", format=BYTES, payload="aGk=")
        q.ops.queues.settle("q", [outcome])
        assert (q.item(id).payload, q.item(id).format) == (outcome.payload, BYTES)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_stale_token_changes_nothing(
        self, hr: Any, ops: StoreOps, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """Another claim has the item by now. Neither the outcome nor its follow-ups are written."""
        [id] = q.fill(1)
        old = q.claim_one(lease_ms=1000)
        clock.advance(1)
        q.claim_one(lease_ms=60_000)
        before, counts, errors = q.item(id), q.counts(), q.errors()
        settled = q.settle(
            old,
            kind,
            payload="stolen",
            failure="late",
            commits=(record("t", "{}"),),
            pushes=(Queue(ops, "r").call(1),),
        )
        assert settled == Settled(id, "lost")
        assert (q.item(id), q.counts(), q.errors()) == (before, counts, errors)
        assert [info.name for info in ops.queues.list("", "", 10)] == ["q"]
        with pytest.raises(UnknownTopic):
            hr.topic("t").length()

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_outcome_counts_once(self, q: Queue, kind: str) -> None:
        """A second outcome, of any kind, is lost."""
        q.create(keep="all")
        q.fill(1)
        item = q.claim_one()
        assert q.settle(item, kind).state != "lost"
        before = q.counts()
        assert [q.settle(item, other).state for other in KINDS] == ["lost"] * 6
        assert q.counts() == before

    def test_a_late_completion_is_lost(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """A zombie that completes an item of another claim gets "lost", alone or among its own
        items."""
        q.fill(2)
        old = q.claim_one(lease_ms=1000)
        clock.advance(1)
        [again, other] = q.claim(2, lease_ms=60_000)
        assert again.id == old.id
        assert q.settle(old, "complete").state == "lost"
        late = [outcome_of(old, "complete"), outcome_of(other, "complete")]
        assert [answer.state for answer in ops.queues.settle("q", late)] == ["lost", "completed"]
        assert q.settle(again, "complete").state == "completed"

    def test_an_item_twice_in_one_call_is_settled_once(self, ops: StoreOps, q: Queue) -> None:
        """By the first of the two."""
        q.fill(1)
        item = q.claim_one()
        answers = ops.queues.settle("q", [outcome_of(item, "kill"), outcome_of(item, "complete")])
        assert [answer.state for answer in answers] == ["dead", "lost"]

    def test_answers_are_in_order_and_independent(self, ops: StoreOps, q: Queue) -> None:
        """A lost item does not affect the others."""
        q.fill(3)
        a, b, c = q.claim(3)
        q.settle(b, "drop")
        answers = ops.queues.settle(
            "q", [outcome_of(c, "complete"), outcome_of(b, "complete"), outcome_of(a, "kill")]
        )
        assert answers == [
            Settled(c.id, "completed"),
            Settled(b.id, "lost"),
            Settled(a.id, "dead"),
        ]

    def test_an_expired_lease_can_still_settle(self, q: Queue, clock: FakeClock) -> None:
        """Until a write ends it: work that was done late is not done twice for nothing."""
        q.fill(1)
        item = q.claim_one(lease_ms=1000)
        clock.advance(3600)
        assert q.settle(item, "complete").state == "completed"

    def test_an_ended_lease_cannot_settle(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """Even if nothing has claimed the item yet."""
        q.fill(1)
        item = q.claim_one(lease_ms=1000)
        clock.advance(1)
        ops.queues.expire_leases("q", 10)
        assert q.settle(item, "complete").state == "lost"

    def test_an_item_is_settled_in_its_own_queue(self, ops: StoreOps, q: Queue) -> None:
        """The name of another queue, or of none, finds no valid claim."""
        q.fill(1)
        Queue(ops, "r").create()
        item = q.claim_one()
        for other in ("r", "nowhere"):
            assert Queue(ops, other).settle(item, "complete").state == "lost"
        assert q.settle(item, "complete").state == "completed"

    @pytest.mark.parametrize("kind", KINDS)
    def test_records_and_items_are_written_with_an_outcome(
        self, hr: Any, ops: StoreOps, q: Queue, kind: str
    ) -> None:
        """In one transaction, whatever the outcome is."""
        q.create(max_attempts=1)
        q.fill(1)
        r = Queue(ops, "r")
        q.end(
            kind,
            commits=(record("t", '{"n":1}'), record("u", '{"n":2}')),
            pushes=(r.call("x", "y"), r.call("z")),
        )
        assert (bodies(hr.range("t")), bodies(hr.range("u"))) == ([{"n": 1}], [{"n": 2}])
        assert r.claim_all() == ["x", "y", "z"]

    def test_a_completed_item_can_push_its_own_subject(self, q: Queue) -> None:
        """The item is settled first, so that its subject is free."""
        [id] = q.push(doc(1, subject="s")).ids
        q.end("complete", pushes=(q.call(doc(2, subject="s")),))
        item = q.claim_one()
        assert (payload(item), item.subject) == (2, "s")
        assert item.id != id

    def test_pushes_see_all_items_of_the_call_settled(self, ops: StoreOps, q: Queue) -> None:
        """An outcome may push the subject of an item that another outcome of the call ends."""
        q.push(doc(1, subject="a"), doc(2, subject="b"))
        a, b = q.claim(2)
        ops.queues.settle(
            "q",
            [
                outcome_of(a, "complete", pushes=(q.call(doc(3, subject="b")),)),
                outcome_of(b, "complete"),
            ],
        )
        assert q.claim_all() == [3]

    @pytest.mark.parametrize("kind", ENDS)
    def test_a_finished_item_is_followed_by_its_successor(
        self, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """A new item with the same subject, behind all others."""
        q.create(while_active="next", keep="all")
        q.push(doc("old", subject="s", headers={"a": "1"}), doc("other"))
        item = q.claim_one()
        q.upsert(doc("new", subject="s", priority=0, headers={"b": "2"}))
        clock.advance(1)
        assert q.settle(item, kind).due is None
        after = q.item("s")
        assert after.id != item.id
        assert (payload(after), after.attempts, after.iterations) == ("new", 0, 0)
        assert (after.headers, after.created_at) == ('{"b":"2"}', clock.now)
        assert q.claim_all() == ["other", "new"]
        assert q.counts().entered == 3

    @pytest.mark.parametrize("kind", WAITS)
    def test_an_item_that_would_wait_becomes_its_successor(self, q: Queue, kind: str) -> None:
        """The same item gets the newer content and all its attempts. The delay of the outcome does
        not apply to it."""
        q.create(while_active="next")
        [id, _] = q.push(doc("old", subject="s"), doc("other")).ids
        q.end("reject", delay_ms=0, failure="once")
        q.claim_one()
        item = q.claim_one()
        q.upsert(doc("new", subject="s"))
        settled = q.settle(item, kind, delay_ms=60_000, payload="own")
        assert (settled.item, settled.state) == (id, "pending")
        after = q.item(id)
        assert (payload(after), after.attempts, after.crashes, after.error) == ("new", 0, 0, None)
        assert ids(q.claim(5)) == [id]
        assert q.counts().entered == 2

    def test_a_successor_keeps_its_own_time(self, q: Queue, clock: FakeClock) -> None:
        """The answer says when the item runs: at the time of its successor."""
        q.create(while_active="next")
        q.push(doc("old", subject="s"))
        item = q.claim_one()
        q.upsert(doc("new", subject="s", due=clock.now + 5000))
        assert q.settle(item, "reschedule").due == clock.now + 5000
        clock.advance(4.999)
        assert q.claim_response().state == "empty"
        clock.advance(0.001)
        assert q.claim_all() == ["new"]

    def test_a_dead_item_is_followed_by_its_successor(self, q: Queue) -> None:
        """The dead item keeps its content. The new item has the newer content."""
        q.create(while_active="next", max_attempts=1)
        q.push(doc("old", subject="s"))
        item = q.claim_one()
        q.upsert(doc("new", subject="s"))
        assert q.settle(item, "reject").state == "dead"
        assert payloads(q.dead()) == ["old"]
        assert q.dead()[0].item.successor is None
        assert q.claim_all() == ["new"]

    def test_an_abandoned_item_becomes_its_successor(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """The newer content had no part in the crash."""
        q.create(while_active="next")
        [id] = q.push(doc("old", subject="s")).ids
        q.claim_one(lease_ms=1000)
        q.upsert(doc("new", subject="s"))
        clock.advance(1)
        ops.queues.expire_leases("q", 10)
        item = q.item(id)
        assert (payload(item), item.attempts, item.crashes) == ("new", 0, 0)
        assert len(q.errors()) == 1

    @pytest.mark.parametrize("kind", WAITS)
    def test_an_outcome_that_makes_an_item_pending_wakes_waiters(
        self, ops: StoreOps, q: Queue, kind: str
    ) -> None:
        """The item is claimable immediately."""
        q.fill(1)
        item = q.claim_one()
        waiter = ops.store.waiter("queue/q")
        try:
            q.settle(item, kind, delay_ms=0)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
