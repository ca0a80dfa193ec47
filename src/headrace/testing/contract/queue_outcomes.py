"""What becomes of claimed items."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Settled
from headrace.contract.values import CommitCall, Part
from headrace.errors import UnknownItem, UnknownTopic
from headrace.model.items import BYTES, JSON, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import bodies
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    payload,
    payloads,
    said,
)

KINDS = ["complete", "reschedule", "reject", "kill", "drop", "release"]
ENDS = ["complete", "kill", "drop"]
WAITS = ["reschedule", "reject", "release"]


def record(topic: str, text: str) -> CommitCall:
    return CommitCall(parts=(Part(topic, 1, text),))


class OutcomeContract(QueueContract):
    """One who holds an item says what became of it, once."""

    def test_complete_ends_an_item(self, q: Queue) -> None:
        """Nothing is kept of it unless the queue says so."""
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "complete") == Settled(id, "completed")
        with pytest.raises(UnknownItem):
            q.item(id)
        assert q.counts().total == 0

    @pytest.mark.parametrize("keep", ["all", 60])
    def test_completed_items_can_be_kept(self, q: Queue, clock: FakeClock, keep: Any) -> None:
        """As they were in the end, and out of the way of those that live."""
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
        assert q.take().state == "empty"

    def test_reschedule_waits_for_a_time(self, q: Queue, clock: FakeClock) -> None:
        """The same item runs again then, with all its attempts before it."""
        [id] = q.fill(1)
        q.end("reject", delay_ms=0, failure="first")
        due = clock.now + 5000
        assert q.settle(q.claim_one(), "reschedule", due=due) == Settled(id, "planned", due)
        item = q.item(id)
        assert (item.attempts, item.crashes, item.iterations, item.error) == (0, 0, 2, None)
        assert (item.last_iteration, item.token, item.lease_until) == (clock.now, None, None)
        clock.advance(5)
        assert q.claim_one().attempts == 1

    def test_reschedule_waits_for_some_time(self, q: Queue, clock: FakeClock) -> None:
        """Given with the outcome, else by the queue."""
        q.create(reschedule_delay=2.5)
        q.fill(2)
        first, second = q.claim(2)
        assert q.settle(first, "reschedule", delay_ms=700).due == clock.now + 700
        assert q.settle(second, "reschedule").due == clock.now + 2500

    def test_reschedule_at_once_goes_behind_all(self, q: Queue, clock: FakeClock) -> None:
        """What is due now waits in line without a detour."""
        [id, *_] = q.fill(3)
        assert q.settle(q.claim_one(), "reschedule") == Settled(id, "pending", clock.now)
        assert q.claim_all() == [1, 2, 0]

    def test_kill_ends_an_item_as_dead(self, q: Queue, clock: FakeClock) -> None:
        """At once, however many attempts it had left."""
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "kill", failure="hopeless") == Settled(id, "dead")
        [dead] = q.dead()
        assert (dead.item.id, dead.cause, dead.ended_at) == (id, "killed", clock.now)
        assert dead.title == "Rejected: hopeless"
        assert dead.item.iterations == 1
        assert q.take().state == "empty"

    def test_drop_leaves_no_trace(self, q: Queue) -> None:
        """Also in a queue that keeps everything."""
        q.create(keep="all")
        [id] = q.fill(1)
        assert q.settle(q.claim_one(), "drop") == Settled(id, "dropped")
        assert q.is_gone(id)
        assert q.counts().total == 0

    def test_release_is_as_if_it_had_not_been_claimed(self, q: Queue, clock: FakeClock) -> None:
        """No attempt, no iteration, and its old place."""
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
    def test_a_payload_can_be_left_behind(self, q: Queue, kind: str) -> None:
        """A new one replaces the old, with its format; without one the old one stays."""
        q.create(keep="all")
        q.push("old", "older")
        first, second = q.claim(2)
        q.desk.settle(
            "q",
            [
                said(first, kind, payload={"step": 2}, format=JSON),
                said(second, kind),
            ],
        )
        assert payloads(map(q.item, (first.id, second.id))) == [{"step": 2}, "older"]

    def test_a_payload_may_change_its_format(self, q: Queue) -> None:
        """From JSON to bytes, say."""
        [id] = q.fill(1)
        item = q.claim_one()
        outcome = said(item, "reschedule", format=BYTES, payload="aGk=")
        q.desk.settle("q", [outcome])
        assert (q.item(id).payload, q.item(id).format) == (outcome.payload, BYTES)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_stale_token_changes_nothing(
        self, hr: Any, desk: Desk, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """Another has the item by now: neither the outcome nor what came with it is written."""
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
            pushes=(Queue(desk, "r").call(1),),
        )
        assert settled == Settled(id, "lost")
        assert (q.item(id), q.counts(), q.errors()) == (before, counts, errors)
        assert [info.name for info in desk.queues("", "", 10)] == ["q"]
        with pytest.raises(UnknownTopic):
            hr.length("t")

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_outcome_counts_once(self, q: Queue, kind: str) -> None:
        """Said again, with whatever words, it is lost."""
        q.create(keep="all")
        q.fill(1)
        item = q.claim_one()
        assert q.settle(item, kind).state != "lost"
        before = q.counts()
        assert [q.settle(item, other).state for other in KINDS] == ["lost"] * 6
        assert q.counts() == before

    def test_a_late_completion_is_lost(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """A zombie that completes what another has by now, alone or among its own, gets nothing."""
        q.fill(2)
        old = q.claim_one(lease_ms=1000)
        clock.advance(1)
        [again, other] = q.claim(2, lease_ms=60_000)
        assert again.id == old.id
        assert q.settle(old, "complete").state == "lost"
        late = [said(old, "complete"), said(other, "complete")]
        assert [answer.state for answer in desk.settle("q", late)] == ["lost", "completed"]
        assert q.settle(again, "complete").state == "completed"

    def test_an_item_twice_in_one_call_is_settled_once(self, desk: Desk, q: Queue) -> None:
        """By the first of the two."""
        q.fill(1)
        item = q.claim_one()
        answers = desk.settle("q", [said(item, "kill"), said(item, "complete")])
        assert [answer.state for answer in answers] == ["dead", "lost"]

    def test_answers_are_in_order_and_do_not_depend_on_each_other(
        self, desk: Desk, q: Queue
    ) -> None:
        """One that is lost does not spoil the others."""
        q.fill(3)
        a, b, c = q.claim(3)
        q.settle(b, "drop")
        answers = desk.settle("q", [said(c, "complete"), said(b, "complete"), said(a, "kill")])
        assert answers == [
            Settled(c.id, "completed"),
            Settled(b.id, "lost"),
            Settled(a.id, "dead"),
        ]

    def test_a_lease_that_is_over_still_settles(self, q: Queue, clock: FakeClock) -> None:
        """Until somebody ends it: work that was done late is not done twice for nothing."""
        q.fill(1)
        item = q.claim_one(lease_ms=1000)
        clock.advance(3600)
        assert q.settle(item, "complete").state == "completed"

    def test_a_lease_that_was_ended_settles_nothing(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """Though nobody else has claimed the item yet."""
        q.fill(1)
        item = q.claim_one(lease_ms=1000)
        clock.advance(1)
        desk.expire_leases("q", 10)
        assert q.settle(item, "complete").state == "lost"

    def test_an_item_is_settled_in_its_own_queue(self, desk: Desk, q: Queue) -> None:
        """The name of another, or of none, finds no claim that stands."""
        q.fill(1)
        Queue(desk, "r").create()
        item = q.claim_one()
        for other in ("r", "nowhere"):
            assert Queue(desk, other).settle(item, "complete").state == "lost"
        assert q.settle(item, "complete").state == "completed"

    @pytest.mark.parametrize("kind", KINDS)
    def test_records_and_items_are_written_with_an_outcome(
        self, hr: Any, desk: Desk, q: Queue, kind: str
    ) -> None:
        """In one transaction, whatever the outcome is."""
        q.create(dead_threshold=1)
        q.fill(1)
        r = Queue(desk, "r")
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

    def test_pushes_see_all_items_of_the_call_settled(self, desk: Desk, q: Queue) -> None:
        """One outcome may push the subject of an item that another one ends."""
        q.push(doc(1, subject="a"), doc(2, subject="b"))
        a, b = q.claim(2)
        desk.settle(
            "q", [said(a, "complete", pushes=(q.call(doc(3, subject="b")),)), said(b, "complete")]
        )
        assert q.claim_all() == [3]

    @pytest.mark.parametrize("kind", ENDS)
    def test_an_item_that_ends_is_followed_by_its_successor(
        self, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """A new item with the same subject, which waits behind all others."""
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
        """The same item with the newer content, from the beginning; the wait of the outcome is
        that of content which is no more."""
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
        """The answer says when the item runs, which is when its successor shall."""
        q.create(while_active="next")
        q.push(doc("old", subject="s"))
        item = q.claim_one()
        q.upsert(doc("new", subject="s", due=clock.now + 5000))
        assert q.settle(item, "reschedule").due == clock.now + 5000
        clock.advance(4.999)
        assert q.take().state == "empty"
        clock.advance(0.001)
        assert q.claim_all() == ["new"]

    def test_a_rejection_that_kills_is_followed_too(self, q: Queue) -> None:
        """The dead item keeps its content, the new one has the newer."""
        q.create(while_active="next", dead_threshold=1)
        q.push(doc("old", subject="s"))
        item = q.claim_one()
        q.upsert(doc("new", subject="s"))
        assert q.settle(item, "reject").state == "dead"
        assert payloads(q.dead()) == ["old"]
        assert q.dead()[0].item.successor is None
        assert q.claim_all() == ["new"]

    def test_an_abandoned_item_becomes_its_successor(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """The newer content had no part in the crash."""
        q.create(while_active="next")
        [id] = q.push(doc("old", subject="s")).ids
        q.claim_one(lease_ms=1000)
        q.upsert(doc("new", subject="s"))
        clock.advance(1)
        desk.expire_leases("q", 10)
        item = q.item(id)
        assert (payload(item), item.attempts, item.crashes) == ("new", 0, 0)
        assert len(q.errors()) == 1

    @pytest.mark.parametrize("kind", WAITS)
    def test_an_outcome_that_puts_an_item_in_line_wakes_who_waits(
        self, desk: Desk, q: Queue, kind: str
    ) -> None:
        """It is claimable at once."""
        q.fill(1)
        item = q.claim_one()
        waiter = desk.store.waiter("queue/q")
        try:
            q.settle(item, kind, delay_ms=0)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
