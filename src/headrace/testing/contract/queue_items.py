"""Single items: find, edit, cancel."""

from __future__ import annotations

import pytest

from headrace.errors import ItemActive, UnknownItem
from headrace.model.queues.items import BYTES, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    ALL,
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    json,
    payload,
)


class ItemContract(QueueContract):
    """Administration of single items."""

    def test_an_item_is_found_by_id_and_by_subject(self, ops: StoreOps, q: Queue) -> None:
        """In its own queue only."""
        [id] = q.push(doc(1, subject="s")).ids
        Queue(ops, "r").create()
        assert q.item(id) == q.item("s")
        for queue, wanted in (("q", 10**9), ("q", "t"), ("r", id), ("r", "s")):
            with pytest.raises(UnknownItem) as caught:
                ops.queues.item(queue, wanted)
            assert (caught.value.queue, caught.value.item) == (queue, wanted)

    def test_a_subject_finds_the_live_or_the_last_finished_item(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """Completed or dead."""
        q.create(keep="all")
        for n, kind in enumerate(("kill", "complete", "kill", "complete")):
            q.push(doc(n, subject="s"))
            assert payload(q.item("s")) == n
            q.end(kind)
            clock.advance(1)
            assert payload(q.item("s")) == n

    def test_items_are_listed_by_state(self, ops: StoreOps, q: Queue) -> None:
        """By id, in pages."""
        q.create(keep="all")
        everything = q.push(*range(6), doc("later", delay=1000)).ids
        for kind in ("complete", "kill"):
            q.end(kind)
        q.claim_one()
        assert [ids(q.in_state(state)) for state in (3, -1, 2, 1, 0)] == [
            [everything[0]],
            [everything[1]],
            [everything[2]],
            list(everything[3:6]),
            [everything[6]],
        ]
        page = ops.queues.items("q", State.PENDING, everything[3], 1)
        assert ids(page) == [everything[4]]
        assert ids(ops.queues.items("q", State.PENDING, page[-1].id, ALL)) == [everything[5]]

    def test_the_position_of_an_item(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """The number of items that are claimed before it: those ahead in line, or due earlier."""
        a, b, c = q.fill(3)
        [late] = q.push(doc("late", delay=9000)).ids
        [early] = q.push(doc("early", delay=5000)).ids
        q.claim_one()
        places = [ops.queues.position("q", id).before for id in (a, b, c, early, late)]
        assert places == [0, 0, 1, 2, 3]
        place = ops.queues.position("q", early)
        assert (place.item.id, place.now) == (early, clock.now)

    @pytest.mark.parametrize(
        ("discipline", "places"),
        [("fifo", [0, 1, 2]), ("lifo", [2, 1, 0]), ("priority", [1, 2, 0])],
    )
    def test_positions_follow_the_discipline(
        self, ops: StoreOps, q: Queue, discipline: str, places: list[int]
    ) -> None:
        """The discipline by which items are claimed."""
        q.create(discipline=discipline)
        made = q.push(doc(0), doc(1), doc(2, priority=1)).ids
        assert [ops.queues.position("q", id).before for id in made] == places

    def test_a_finished_item_has_no_position(self, ops: StoreOps, q: Queue) -> None:
        """A dead item is found, but it is not waiting."""
        [id] = q.fill(1)
        q.end("kill")
        for item in (id, 10**9):
            with pytest.raises(UnknownItem):
                ops.queues.position("q", item)

    @pytest.mark.parametrize("delay", [None, 1000])
    def test_a_waiting_item_can_be_cancelled(
        self, ops: StoreOps, q: Queue, delay: int | None
    ) -> None:
        """Planned or pending. It never runs, and its subject is free."""
        [id] = q.push(doc(1, subject="s", delay=delay)).ids
        before = q.item(id)
        assert ops.queues.cancel_item("q", id) == before
        assert q.is_gone(id)
        assert q.counts().total == 0
        assert q.push(doc(2, subject="s")).notes == ()
        assert q.claim_all() == [2]

    @pytest.mark.parametrize("end", ["complete", "kill"])
    @pytest.mark.parametrize("unique", ["live", "forever"])
    def test_a_finished_item_can_be_deleted(
        self, ops: StoreOps, q: Queue, end: str, unique: str
    ) -> None:
        """Only that one, for whatever reason it was kept. Its subject counts as used, as before."""
        q.create(keep="all", unique=unique)
        id, other = q.push(doc(1, subject="s"), doc(2, subject="t")).ids
        q.end(end)
        q.end(end)
        before = q.item(id)
        assert ops.queues.cancel_item("q", id) == before
        assert q.is_gone(id)
        assert q.is_gone("s")
        assert (q.item(other).item.id, q.counts().total) == (other, 1)
        with pytest.raises(UnknownItem):
            ops.queues.cancel_item("q", id)
        assert len(q.push(doc(3, subject="s")).notes) == (unique == "forever")

    def test_an_item_in_flight_cannot_be_cancelled(self, ops: StoreOps, q: Queue) -> None:
        """Its worker settles it."""
        [id] = q.fill(1)
        item = q.claim_one()
        with pytest.raises(ItemActive) as caught:
            ops.queues.cancel_item("q", id)
        assert (caught.value.queue, caught.value.item) == ("q", id)
        assert q.settle(item, "complete").state == "completed"
        with pytest.raises(UnknownItem):
            ops.queues.cancel_item("q", id)

    def test_an_edit_changes_the_given_fields_only(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Payload, priority and time."""
        [id] = q.push(doc(1, subject="s", priority=2, delay=1000, headers={"h": "1"})).ids
        before = q.item(id)
        assert ops.queues.edit_item("q", id, None, None, None) == before
        edited = ops.queues.edit_item("q", id, ("aGk=", BYTES), None, None)
        assert (edited.payload, edited.format, edited.priority) == ("aGk=", BYTES, 2)
        edited = ops.queues.edit_item("q", id, None, 7, clock.now + 5)
        assert (edited.payload, edited.priority, edited.next_execution) == (
            "aGk=",
            7,
            clock.now + 5,
        )
        assert (edited.subject, edited.headers) == ("s", before.headers)
        assert q.item(id) == edited

    def test_an_edit_moves_an_item_in_time(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """Into the line or out of it. An item that was due and still is keeps its place."""
        a, b, c = q.push("a", "b", doc("c", delay=1000)).ids
        ops.queues.edit_item("q", a, (json("A"), 0), None, clock.now - 1)
        assert ops.queues.edit_item("q", c, None, None, clock.now).state == State.PENDING
        assert ops.queues.edit_item("q", b, None, None, clock.now + 1).state == State.PLANNED
        assert q.claim_all() == ["A", "c"]
        clock.advance(0.001)
        assert q.claim_all() == ["b"]

    def test_an_edited_priority_applies_immediately(self, ops: StoreOps, q: Queue) -> None:
        """Among items of the same priority, the item is placed by its age."""
        a, _, c = q.fill(3)
        ops.queues.edit_item("q", c, None, 1, None)
        ops.queues.edit_item("q", a, None, 1, None)
        assert q.claim_all() == [0, 2, 1]

    def test_an_item_in_flight_is_not_edited(self, ops: StoreOps, q: Queue) -> None:
        """Nor is an unknown item."""
        [id] = q.fill(1)
        before = q.claim_one()
        with pytest.raises(ItemActive):
            ops.queues.edit_item("q", id, (json(2), 0), None, None)
        assert q.item(id) == before
        with pytest.raises(UnknownItem):
            ops.queues.edit_item("q", 10**9, None, 1, None)
