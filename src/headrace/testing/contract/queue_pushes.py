"""The guarantees of a push."""

from __future__ import annotations

import base64

import pytest

from headrace.contract.items import ItemFilter, Pushed, PushWarning
from headrace.model.queues.items import BYTES, Document, ItemState, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    json,
    payload,
)

EXISTS = PushWarning(0, "skipped", "exists")
TAKEN = PushWarning(0, "skipped", "taken")


class PushContract(QueueContract):
    """Documents become items, each subject at most once."""

    def test_each_document_gets_an_id_of_its_own(self, q: Queue) -> None:
        """In order. New documents have no notes."""
        pushed = q.push("a", "b", "c")
        assert pushed.notes == ()
        assert len(set(pushed.ids)) == 3
        assert [payload(q.item(id)) for id in pushed.ids] == ["a", "b", "c"]
        assert list(pushed.ids) == sorted(pushed.ids)

    def test_due_is_pending_and_later_is_planned(self, q: Queue, clock: FakeClock) -> None:
        """An item is due at its very millisecond, not after it."""
        due = (clock.now - 5, clock.now, clock.now + 1)
        ids = q.push(*(doc(due=at) for at in due)).ids
        items = [q.item(id) for id in ids]
        assert [item.state for item in items] == [State.PENDING, State.PENDING, State.PLANNED]
        assert tuple(item.next_execution for item in items) == due

    def test_a_delay_counts_from_the_clock_of_the_store(self, q: Queue, clock: FakeClock) -> None:
        """A wrong clock of a client does not matter."""
        [id] = q.push(doc(delay=1500)).ids
        assert q.item(id).next_execution == clock.now + 1500

    def test_an_item_is_what_was_pushed(self, q: Queue, clock: FakeClock) -> None:
        """Payload, headers, overrides, subject and priority. Its counters are zero."""
        document = doc(
            {"ü": [1, None, "\n"]},
            subject="order 7/ü'%s",
            priority=-3,
            due=clock.now + 9,
            headers={"trace": "x"},
            overrides={"max_attempts": 2},
        )
        [id] = q.push(document).ids
        assert q.item(id) == ItemState(
            id=id,
            queue="q",
            payload=document.payload,
            subject="order 7/ü'%s",
            priority=-3,
            state=State.PLANNED,
            next_execution=clock.now + 9,
            waiting_since=clock.now,
            created_at=clock.now,
            headers=json({"trace": "x"}),
            overrides=json({"max_attempts": 2}),
        )

    def test_bytes_come_back_as_bytes(self, q: Queue) -> None:
        """A payload that is not JSON is stored unchanged, with its format."""
        text = base64.b64encode(bytes(range(256))).decode()
        q.push(Document(payload=text, format=BYTES))
        item = q.claim_one()
        assert (item.payload, item.format) == (text, BYTES)

    def test_a_push_creates_the_queue_with_the_stored_defaults(
        self, ops: StoreOps, q: Queue
    ) -> None:
        """Defaults that change later change no existing queue."""
        ops.queues.set_defaults({"lease": 7, "discipline": "lifo"})
        q.push(1)
        ops.queues.set_defaults({"lease": 8})
        settings = ops.queues.info("q").settings
        assert (settings.lease, settings.discipline) == (7, "lifo")
        Queue(ops, "r").push(1)
        assert ops.queues.info("r").settings.lease == 8

    @pytest.mark.parametrize("state", ["planned", "pending", "active"])
    def test_a_live_subject_is_skipped(self, q: Queue, state: str) -> None:
        """In whichever state the item is. The result has the id of the item, which is not
        changed."""
        [id] = q.push(doc("old", subject="s", delay=9 if state == "planned" else None)).ids
        if state == "active":
            q.claim_one()
        before = q.item(id)
        assert q.push(doc("new", subject="s")) == Pushed((id,), (EXISTS,))
        assert q.item(id) == before
        assert q.counts().total == 1

    def test_documents_without_a_subject_are_never_skipped(self, q: Queue) -> None:
        """However equal they are."""
        q.push("same", "same")
        q.push("same")
        assert q.claim_all() == ["same"] * 3

    def test_subjects_belong_to_their_queue(self, ops: StoreOps, q: Queue) -> None:
        """The same subject in another queue is another item."""
        q.push(doc(1, subject="s"))
        assert Queue(ops, "r").push(doc(2, subject="s")).notes == ()

    def test_a_subject_twice_in_one_call_is_one_item(self, q: Queue) -> None:
        """Documents are processed one by one: the later one finds the earlier."""
        pushed = q.push(doc(1, subject="s"), doc(2), doc(3, subject="s"))
        assert pushed.ids[0] == pushed.ids[2]
        assert pushed.notes == (PushWarning(2, "skipped", "exists"),)
        assert q.claim_all() == [1, 2]

    def test_calls_are_answered_one_by_one(self, ops: StoreOps, q: Queue) -> None:
        """Several calls are one transaction. Each has its result, in order."""
        r = Queue(ops, "r")
        first, second, third = ops.queues.push(
            [q.call(doc(1, subject="s")), r.call(doc(2, subject="s")), q.call(doc(3, subject="s"))]
        )
        assert first.notes == second.notes == ()
        assert third == Pushed(first.ids, (EXISTS,))
        assert (q.claim_all(), r.claim_all()) == ([1], [2])

    @pytest.mark.parametrize("kind", ["complete", "kill", "drop"])
    def test_a_subject_is_free_when_its_item_has_ended(self, q: Queue, kind: str) -> None:
        """By default subjects are unique among live items."""
        q.create(keep="all")
        first = q.push(doc(1, subject="s"))
        q.end(kind)
        again = q.push(doc(2, subject="s"))
        assert again.notes == ()
        assert again.ids != first.ids

    @pytest.mark.parametrize("kind", ["complete", "kill"])
    def test_a_subject_can_be_unique_for_ever(
        self, ops: StoreOps, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """Even if the item is not kept. The result then has no id."""
        q.create(unique="forever")
        q.push(doc(1, subject="s"))
        q.end(kind)
        ops.queues.purge_dead("q", ItemFilter(), 10)
        clock.advance(10**8)
        assert q.push(doc(2, subject="s")) == Pushed((0,), (TAKEN,))
        assert q.counts().total == 0

    def test_a_live_item_goes_before_a_used_subject(self, q: Queue) -> None:
        """While the item is live, the result says that it exists."""
        q.create(unique="forever")
        [id] = q.push(doc(1, subject="s")).ids
        assert q.push(doc(2, subject="s")) == Pushed((id,), (EXISTS,))

    @pytest.mark.parametrize("unique", ["forever", "window"])
    def test_a_dropped_or_cancelled_item_frees_its_subject(
        self, ops: StoreOps, q: Queue, unique: str
    ) -> None:
        """It leaves no trace."""
        q.create(unique=unique)
        q.push(doc(1, subject="s"))
        q.end("drop")
        [id] = q.push(doc(2, subject="s")).ids
        ops.queues.cancel_item("q", id)
        assert q.push(doc(3, subject="s")).notes == ()

    def test_a_subject_can_be_unique_for_a_window(self, q: Queue, clock: FakeClock) -> None:
        """The window starts with the push and ends to the millisecond."""
        q.create(unique="window", unique_window=60)
        q.push(doc(1, subject="s"))
        clock.advance(10)
        q.end("complete")
        clock.advance(49.999)
        assert q.push(doc(2, subject="s")) == Pushed((0,), (TAKEN,))
        clock.advance(0.001)
        assert q.push(doc(3, subject="s")).notes == ()

    def test_each_new_item_restarts_the_window(self, q: Queue, clock: FakeClock) -> None:
        """Skipped documents do not extend it."""
        q.create(unique="window", unique_window=60)
        q.push(doc(1, subject="s"))
        q.end("complete")
        clock.advance(60)
        q.push(doc(2, subject="s"))
        q.end("complete")
        clock.advance(59.999)
        assert q.push(doc(3, subject="s")).notes == (TAKEN,)
        clock.advance(0.001)
        assert q.push(doc(4, subject="s")).notes == ()

    def test_the_window_of_a_live_item_may_be_over(self, q: Queue, clock: FakeClock) -> None:
        """A live subject is unique however old it is."""
        q.create(unique="window", unique_window=60)
        q.push(doc(1, subject="s"))
        clock.advance(3600)
        assert q.push(doc(2, subject="s")).notes == (EXISTS,)

    def test_subjects_are_remembered_only_if_the_queue_says_so(self, q: Queue) -> None:
        """Subjects pushed while they were unique among live items only do not count later."""
        q.push(doc(1, subject="s"))
        q.end("complete")
        q.update(unique="forever")
        assert q.push(doc(2, subject="s")).notes == ()
        q.end("complete")
        assert q.push(doc(3, subject="s")).notes == (TAKEN,)

    def test_a_push_wakes_waiters_of_its_queue(self, ops: StoreOps, q: Queue) -> None:
        """Waiters for ``queue/<name>`` need not poll."""
        waiter = ops.store.waiter("queue/q")
        try:
            q.push(1)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
