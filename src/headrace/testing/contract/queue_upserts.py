"""The guarantees of an upsert."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Pushed, PushWarning
from headrace.errors import UnknownTopic
from headrace.model.queues.items import BYTES, Document, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import bodies
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    json,
    payload,
)

UPDATED = PushWarning(0, "updated")
NEXT = PushWarning(0, "next")


class UpsertContract(QueueContract):
    """Newer content replaces pending content, and never content in flight."""

    def test_an_unknown_subject_is_pushed(self, q: Queue) -> None:
        """So are documents without a subject. The result has no notes."""
        pushed = q.upsert(doc(1, subject="s"), doc(2), doc(2))
        assert pushed.notes == ()
        assert q.claim_all() == [1, 2, 2]

    def test_a_pending_item_gets_the_new_content(self, q: Queue, clock: FakeClock) -> None:
        """Payload, headers, overrides, priority and time. Fields that are not given do not keep
        their old value."""
        [id] = q.push(doc(1, subject="s", headers={"a": "1"}, overrides={"lease": 3})).ids
        due = clock.now + 60_000
        assert q.upsert(doc({"n": 2}, subject="s", priority=4, due=due)) == Pushed(
            (id,), (UPDATED,)
        )
        item = q.item(id)
        assert (item.payload, item.priority, item.next_execution) == (json({"n": 2}), 4, due)
        assert (item.headers, item.overrides) == (None, None)
        assert item.state == State.PLANNED

    def test_an_updated_item_keeps_its_history(self, q: Queue, clock: FakeClock) -> None:
        """Id, creation time, attempts and iterations."""
        [id] = q.push(doc(1, subject="s")).ids
        q.end("reject", delay_ms=5000)
        before = q.item(id)
        clock.advance(1)
        q.upsert(doc(2, subject="s", headers={"b": "2"}, overrides={"max_attempts": 9}))
        after = q.item(id)
        assert (after.attempts, after.iterations) == (before.attempts, before.iterations) == (1, 1)
        assert after.created_at == before.created_at
        assert (after.headers, after.overrides) == (json({"b": "2"}), json({"max_attempts": 9}))

    def test_a_due_item_keeps_its_place(self, q: Queue, clock: FakeClock) -> None:
        """As long as it is due: an update is no new push."""
        q.push(doc(1, subject="a"), doc(2, subject="b"), doc(3, subject="c"))
        clock.advance(1)
        q.upsert(doc(20, subject="b"), doc(10, subject="a", due=clock.now - 1))
        assert q.claim_all() == [10, 20, 3]

    def test_a_new_priority_applies_immediately(self, q: Queue) -> None:
        """Among items of the same priority, the item is placed by its age."""
        q.push(doc(1, subject="a"), doc(2, priority=5), doc(3, subject="c"))
        q.upsert(doc(30, subject="c", priority=5), doc(10, subject="a", priority=5))
        assert q.claim_all() == [10, 2, 30]

    def test_a_postponed_item_is_planned(self, q: Queue, clock: FakeClock) -> None:
        """It gives up its place, and joins the line again when it is due."""
        q.push(doc(1, subject="a"), doc(2))
        q.upsert(doc(10, subject="a", delay=1000))
        assert q.claim_all() == [2]
        q.push(3)
        clock.advance(1)
        assert sorted(q.claim_all()) == [3, 10]

    def test_a_planned_item_made_due_is_pending(self, q: Queue) -> None:
        """It queues behind the items already in line."""
        [id] = q.push(doc(1, subject="a", delay=1000)).ids
        q.push(2)
        q.upsert(doc(10, subject="a"))
        assert q.item(id).state == State.PENDING
        assert q.claim_all() == [2, 10]

    def test_an_item_may_forbid_updates(self, q: Queue) -> None:
        """Its own overrides decide, not those of the new document."""
        fixed = {"updateable": False}
        [a] = q.push(doc(1, subject="a", overrides=fixed)).ids
        assert q.upsert(doc(10, subject="a")) == Pushed((a,), (PushWarning(0, "skipped", "fixed"),))
        [b] = q.push(doc(2, subject="b")).ids
        assert q.upsert(doc(20, subject="b", overrides=fixed)).notes == (UPDATED,)
        assert [payload(q.item(id)) for id in (a, b)] == [1, 20]

    def test_an_item_in_flight_is_left_alone(self, q: Queue) -> None:
        """The document is skipped unless the call or the queue makes it the successor."""
        [id] = q.push(doc(1, subject="s")).ids
        q.claim_one()
        before = q.item(id)
        assert q.upsert(doc(2, subject="s")) == Pushed(
            (id,), (PushWarning(0, "skipped", "active"),)
        )
        assert q.item(id) == before

    @pytest.mark.parametrize("asked", ["by the call", "by the queue"])
    def test_content_can_become_a_successor(self, q: Queue, asked: str) -> None:
        """The item in flight does not change. Its successor waits for the end of the claim."""
        by_call = asked == "by the call"
        q.create(while_active="skip" if by_call else "next")
        [id] = q.push(doc(1, subject="s")).ids
        claimed = q.claim_one()
        how = {"while_active": "next"} if by_call else {}
        assert q.upsert(doc(2, subject="s"), **how) == Pushed((id,), (NEXT,))
        item = q.item(id)
        assert (payload(item), item.token, item.attempts) == (1, claimed.token, 1)
        assert q.counts().total == 1
        q.settle(claimed, "complete")
        assert q.claim_all() == [2]

    def test_a_call_goes_before_the_queue(self, q: Queue) -> None:
        """``while_active`` of the call overrides that of the queue."""
        q.create(while_active="next")
        q.push(doc(1, subject="s"))
        q.claim_one()
        skipped = q.upsert(doc(2, subject="s"), while_active="skip")
        assert skipped.notes == (PushWarning(0, "skipped", "active"),)

    def test_there_is_one_successor(self, q: Queue) -> None:
        """A later one replaces it: only the newest content runs."""
        q.create(while_active="next")
        q.push(doc(1, subject="s"))
        claimed = q.claim_one()
        q.upsert(doc(2, subject="s"))
        q.upsert(doc(3, subject="s"), doc(4, subject="s"))
        q.settle(claimed, "complete")
        assert q.claim_all() == [4]

    def test_a_push_never_creates_a_successor(self, q: Queue) -> None:
        """It leaves existing items alone."""
        q.create(while_active="next")
        q.push(doc(1, subject="s"))
        claimed = q.claim_one()
        assert q.push(doc(2, subject="s"), while_active="next").notes == (
            PushWarning(0, "skipped", "exists"),
        )
        q.settle(claimed, "complete")
        assert q.claim_all() == []

    def test_a_successors_delay_counts_from_its_push(self, q: Queue, clock: FakeClock) -> None:
        """Not from the end of the claim, which is unknown."""
        q.create(while_active="next")
        q.push(doc(1, subject="s"))
        claimed = q.claim_one()
        q.upsert(doc(2, subject="s", delay=10_000))
        pushed_at = clock.now
        clock.advance(4)
        q.settle(claimed, "complete")
        response = q.claim_response()
        assert (response.state, response.next_due) == ("empty", pushed_at + 10_000)
        clock.advance(6)
        assert q.claim_all() == [2]

    def test_a_used_subject_is_skipped(self, q: Queue) -> None:
        """An upsert replaces live items. It does not bypass uniqueness."""
        q.create(unique="forever")
        q.push(doc(1, subject="s"))
        q.end("complete")
        assert q.upsert(doc(2, subject="s")) == Pushed((0,), (PushWarning(0, "skipped", "taken"),))

    def test_a_finished_item_is_not_updated(self, q: Queue) -> None:
        """A new item is created beside a dead one. FetchQ changed the dead one silently."""
        [dead] = q.push(doc(1, subject="s")).ids
        q.end("kill")
        [id] = q.upsert(doc(2, subject="s")).ids
        assert id != dead
        assert (payload(q.item(dead)), payload(q.item(id))) == (1, 2)

    def test_a_subject_twice_in_one_call(self, q: Queue) -> None:
        """The second document updates the item of the first."""
        pushed = q.upsert(doc(1, subject="s"), doc(2, subject="s"))
        assert pushed.ids[0] == pushed.ids[1]
        assert pushed.notes == (PushWarning(1, "updated"),)
        assert q.claim_all() == [2]

    def test_debounce_waits_for_a_pause(self, q: Queue, clock: FakeClock) -> None:
        """Each upsert restarts the wait, including the first one. The times of the documents do not
        matter."""
        [id] = q.upsert(doc(1, subject="s"), debounce_ms=1000).ids
        assert q.item(id).next_execution == clock.now + 1000
        clock.advance(0.999)
        q.upsert(doc(2, subject="s", delay=5), debounce_ms=1000)
        assert q.item(id).next_execution == clock.now + 1000
        clock.advance(0.999)
        assert q.claim_all() == []
        clock.advance(0.001)
        assert q.claim_all() == [2]

    def test_debounce_has_an_end(self, q: Queue, clock: FakeClock) -> None:
        """The item runs ``max_wait_ms`` after the first push, however often it is pushed."""
        start = clock.now
        debounce = {"debounce_ms": 1000, "max_wait_ms": 2500}
        [id] = q.upsert(doc(0, subject="s"), **debounce).ids
        for n in (1, 2, 3):
            clock.advance(0.8)
            q.upsert(doc(n, subject="s"), **debounce)
        assert q.item(id).next_execution == start + 2500
        clock.advance(0.2)
        q.upsert(doc(4, subject="s"), **debounce)
        assert q.item(id).next_execution == clock.now
        assert q.claim_all() == [4]

    def test_the_maximum_wait_restarts_after_a_run(self, q: Queue, clock: FakeClock) -> None:
        """It counts from the start of the current wait, not from the item's first push."""
        debounce = {"debounce_ms": 1000, "max_wait_ms": 1500}
        [id] = q.upsert(doc(1, subject="s"), **debounce).ids
        clock.advance(100)
        q.end("reschedule", delay_ms=60_000)
        q.upsert(doc(2, subject="s"), **debounce)
        assert q.item(id).next_execution == clock.now + 1000

    def test_replaced_payloads_can_be_kept_in_a_topic(
        self, hr: Any, q: Queue, clock: FakeClock
    ) -> None:
        """One record each, in the same transaction."""
        q.create(keep_superseded="old")
        [id] = q.push(doc({"n": 1}, subject="s")).ids
        q.upsert(doc({"n": 2}, subject="s"), doc({"n": 3}, subject="s"))
        expected = {"queue": "q", "id": id, "subject": "s", "superseded_at": clock.now}
        assert bodies(hr.range("old")) == [
            {**expected, "payload": {"n": 1}},
            {**expected, "payload": {"n": 2}},
        ]

    def test_a_replaced_successor_is_kept_as_well(self, hr: Any, q: Queue) -> None:
        """The content in flight is not: it runs."""
        q.create(keep_superseded="old", while_active="next")
        q.push(doc(1, subject="s"))
        claimed = q.claim_one()
        q.upsert(doc(2, subject="s"))
        with pytest.raises(UnknownTopic):
            hr.topic("old").length()
        q.upsert(doc(3, subject="s"))
        assert [body["payload"] for body in bodies(hr.range("old"))] == [2]
        q.settle(claimed, "complete")
        assert hr.topic("old").length() == 1

    def test_bytes_are_kept_as_base64(self, hr: Any, q: Queue) -> None:
        """JSON has no bytes."""
        q.create(keep_superseded="old")
        q.push(Document(payload="aGk=", format=BYTES, subject="s"))
        q.upsert(doc(2, subject="s"))
        assert bodies(hr.range("old"))[0]["payload"] == "aGk="

    def test_a_skipped_document_supersedes_nothing(self, hr: Any, q: Queue) -> None:
        """Neither a push nor a refused upsert."""
        q.create(keep_superseded="old")
        q.push(doc(1, subject="s", overrides={"updateable": False}))
        q.push(doc(2, subject="s"))
        q.upsert(doc(3, subject="s"))
        assert hr.topics.list() == []

    def test_an_upsert_wakes_waiters(self, ops: StoreOps, q: Queue) -> None:
        """It may have made an item due."""
        q.push(doc(1, subject="s", delay=60_000))
        waiter = ops.store.waiter("queue/q")
        try:
            q.upsert(doc(2, subject="s"))
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
