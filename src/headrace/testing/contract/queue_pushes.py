"""What a push promises."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from headrace.contract.items import Filter, Note, PushConflict, Pushed
from headrace.errors import UnknownQueue
from headrace.model.items import BYTES, Document, ItemState, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    doc,
    json,
    payload,
    payloads,
)

EXISTS = Note(0, "skipped", "exists")
TAKEN = Note(0, "skipped", "taken")


class PushContract(QueueContract):
    """Documents become items, each subject at most once."""

    def test_each_document_gets_an_id_of_its_own(self, q: Queue) -> None:
        """In order, and no notes on documents that are simply new."""
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
        """So that clients with wrong clocks plan rightly."""
        [id] = q.push(doc(delay=1500)).ids
        assert q.item(id).next_execution == clock.now + 1500

    def test_an_item_is_what_was_pushed(self, q: Queue, clock: FakeClock) -> None:
        """Content, headers, overrides, subject and priority; nothing has happened to it yet."""
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
        """A payload that is not JSON is stored as it is, with its format."""
        text = base64.b64encode(bytes(range(256))).decode()
        q.push(Document(payload=text, format=BYTES))
        item = q.claim_one()
        assert (item.payload, item.format) == (text, BYTES)

    def test_a_push_makes_the_queue_with_the_stored_defaults(self, desk: Desk, q: Queue) -> None:
        """Those of the moment: defaults that change later change no queue."""
        desk.set_queue_defaults({"lock_duration": 7, "discipline": "lifo"})
        q.push(1)
        desk.set_queue_defaults({"lock_duration": 8})
        settings = desk.queue_info("q").settings
        assert (settings.lock_duration, settings.discipline) == (7, "lifo")
        Queue(desk, "r").push(1)
        assert desk.queue_info("r").settings.lock_duration == 8

    @pytest.mark.parametrize("state", ["planned", "pending", "active"])
    def test_a_live_subject_is_skipped(self, q: Queue, state: str) -> None:
        """Whatever the item does; the id is that of the item, which is not touched."""
        [id] = q.push(doc("old", subject="s", delay=9 if state == "planned" else None)).ids
        if state == "active":
            q.claim_one()
        before = q.item(id)
        assert q.push(doc("new", subject="s")) == Pushed((id,), (EXISTS,))
        assert q.item(id) == before
        assert q.counts().total == 1

    def test_documents_without_a_subject_never_meet(self, q: Queue) -> None:
        """However equal they are."""
        q.push("same", "same")
        q.push("same")
        assert q.claim_all() == ["same"] * 3

    def test_subjects_belong_to_their_queue(self, desk: Desk, q: Queue) -> None:
        """The same subject elsewhere is another item."""
        q.push(doc(1, subject="s"))
        assert Queue(desk, "r").push(doc(2, subject="s")).notes == ()

    def test_a_subject_twice_in_one_call_is_one_item(self, q: Queue) -> None:
        """Documents are taken one by one: the later one finds the earlier."""
        pushed = q.push(doc(1, subject="s"), doc(2), doc(3, subject="s"))
        assert pushed.ids[0] == pushed.ids[2]
        assert pushed.notes == (Note(2, "skipped", "exists"),)
        assert q.claim_all() == [1, 2]

    def test_calls_are_answered_one_by_one(self, desk: Desk, q: Queue) -> None:
        """Several calls are one transaction; each has an outcome, in order."""
        r = Queue(desk, "r")
        first, second, third = desk.push(
            [q.call(doc(1, subject="s")), r.call(doc(2, subject="s")), q.call(doc(3, subject="s"))]
        )
        assert first.notes == second.notes == ()
        assert third == Pushed(first.ids, (EXISTS,))
        assert (q.claim_all(), r.claim_all()) == ([1], [2])

    @pytest.mark.parametrize("kind", ["complete", "kill", "drop"])
    def test_a_subject_is_free_when_its_item_has_ended(self, q: Queue, kind: str) -> None:
        """Uniqueness is among live items unless the queue says more."""
        q.create(keep="all")
        first = q.push(doc(1, subject="s"))
        q.end(kind)
        again = q.push(doc(2, subject="s"))
        assert again.notes == ()
        assert again.ids != first.ids

    @pytest.mark.parametrize("kind", ["complete", "kill"])
    def test_a_subject_can_be_taken_for_ever(
        self, desk: Desk, q: Queue, clock: FakeClock, kind: str
    ) -> None:
        """Also when nothing of the item is kept; then there is no id to give."""
        q.create(unique="forever")
        q.push(doc(1, subject="s"))
        q.end(kind)
        desk.purge_dead("q", Filter(), 10)
        clock.advance(10**8)
        assert q.push(doc(2, subject="s")) == Pushed((0,), (TAKEN,))
        assert q.counts().total == 0

    def test_a_live_item_goes_before_a_taken_subject(self, q: Queue) -> None:
        """While the item lives the subject simply exists."""
        q.create(unique="forever")
        [id] = q.push(doc(1, subject="s")).ids
        assert q.push(doc(2, subject="s")) == Pushed((id,), (EXISTS,))

    @pytest.mark.parametrize("unique", ["forever", "window"])
    def test_what_was_dropped_or_cancelled_frees_its_subject(
        self, desk: Desk, q: Queue, unique: str
    ) -> None:
        """It is gone without a trace."""
        q.create(unique=unique)
        q.push(doc(1, subject="s"))
        q.end("drop")
        [id] = q.push(doc(2, subject="s")).ids
        desk.cancel_item("q", id)
        assert q.push(doc(3, subject="s")).notes == ()

    def test_a_subject_can_be_taken_for_some_time(self, q: Queue, clock: FakeClock) -> None:
        """From its push on, and not a millisecond longer."""
        q.create(unique="window", unique_window=60)
        q.push(doc(1, subject="s"))
        clock.advance(10)
        q.end("complete")
        clock.advance(49.999)
        assert q.push(doc(2, subject="s")) == Pushed((0,), (TAKEN,))
        clock.advance(0.001)
        assert q.push(doc(3, subject="s")).notes == ()

    def test_the_window_begins_anew_with_each_item(self, q: Queue, clock: FakeClock) -> None:
        """Skipped documents do not make it longer."""
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

    def test_uses_are_remembered_only_when_asked_for(self, q: Queue) -> None:
        """What was pushed while subjects were unique among live items only does not count."""
        q.push(doc(1, subject="s"))
        q.end("complete")
        q.update(unique="forever")
        assert q.push(doc(2, subject="s")).notes == ()
        q.end("complete")
        assert q.push(doc(3, subject="s")).notes == (TAKEN,)

    def test_a_key_makes_a_push_count_once(self, q: Queue, clock: FakeClock) -> None:
        """The second time it writes nothing and has the outcome of the first, whatever became
        of the items meanwhile."""
        q.push(doc(1, subject="s"))
        documents = (doc(2), doc(3, subject="s"))
        first = q.push(*documents, key="k", digest="d")
        assert first.notes == (Note(1, "skipped", "exists"),)
        q.end("complete")
        clock.advance(3600)
        assert q.push(*documents, key="k", digest="d") == first
        assert q.counts().entered == 2

    def test_a_key_with_other_content_is_a_conflict(self, desk: Desk, q: Queue) -> None:
        """Nothing of that call is written, not even its queue; other calls are not affected."""
        q.push(1, key="k", digest="d")
        r, s = Queue(desk, "r"), Queue(desk, "s")
        conflict, fine = desk.push([r.call(2, key="k", digest="e"), s.call(3)])
        assert conflict == PushConflict("k")
        assert payloads([s.item(fine.ids[0])]) == [3]
        with pytest.raises(UnknownQueue):
            desk.queue_info("r")

    def test_a_key_twice_in_one_operation_counts_once(self, desk: Desk, q: Queue) -> None:
        """The later call finds the key of the earlier."""
        first, again, conflict = desk.push(
            [
                q.call(1, key="k", digest="d"),
                q.call(1, key="k", digest="d"),
                q.call(2, key="k", digest="e"),
            ]
        )
        assert first == again
        assert conflict == PushConflict("k")
        assert q.claim_all() == [1]

    def test_a_key_is_forgotten_after_its_time(self, q: Queue, clock: FakeClock) -> None:
        """Exactly ``key_ttl_ms`` after it was used."""
        first = q.push(1, key="k", digest="d", key_ttl_ms=5000)
        clock.advance(4.999)
        assert q.push(1, key="k", digest="d", key_ttl_ms=5000) == first
        clock.advance(0.001)
        assert q.push(2, key="k", digest="e").ids != first.ids
        assert q.claim_all() == [1, 2]

    def test_keys_of_pushes_and_of_commits_are_different_things(self, hr: Any, q: Queue) -> None:
        """The same key may be used for both."""
        hr.commit("t", {"n": 1}, key="k")
        q.push(1, key="k", digest="d")
        hr.commit("u", {"n": 2}, key="l")
        q.push(2, key="l", digest="d")
        assert q.claim_all() == [1, 2]
        assert (hr.length("t"), hr.length("u")) == (1, 1)

    def test_a_push_wakes_who_waits_for_the_queue(self, desk: Desk, q: Queue) -> None:
        """Whoever waits for ``queue/<name>`` need not look all the time."""
        waiter = desk.store.waiter("queue/q")
        try:
            q.push(1)
            assert desk.is_woken(waiter)
        finally:
            waiter.close()
