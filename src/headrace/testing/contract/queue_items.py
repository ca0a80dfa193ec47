"""Single items: to find, to change and to remove by hand."""

from __future__ import annotations

import pytest

from headrace.errors import ItemActive, UnknownItem
from headrace.model.items import BYTES, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    ALL,
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    json,
    payload,
)


class ItemContract(QueueContract):
    """People look after single items."""

    def test_an_item_is_found_by_id_and_by_subject(self, desk: Desk, q: Queue) -> None:
        """In its own queue only."""
        [id] = q.push(doc(1, subject="s")).ids
        Queue(desk, "r").create()
        assert q.item(id) == q.item("s")
        for queue, wanted in (("q", 10**9), ("q", "t"), ("r", id), ("r", "s")):
            with pytest.raises(UnknownItem) as caught:
                desk.item(queue, wanted)
            assert (caught.value.queue, caught.value.item) == (queue, wanted)

    def test_a_subject_finds_what_lives_or_what_ended_last(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """Whether that was completed or is dead."""
        q.create(keep="all")
        for n, kind in enumerate(("kill", "complete", "kill", "complete")):
            q.push(doc(n, subject="s"))
            assert payload(q.item("s")) == n
            q.end(kind)
            clock.advance(1)
            assert payload(q.item("s")) == n

    def test_items_are_listed_by_state(self, desk: Desk, q: Queue) -> None:
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
        page = desk.items("q", State.PENDING, everything[3], 1)
        assert ids(page) == [everything[4]]
        assert ids(desk.items("q", State.PENDING, page[-1].id, ALL)) == [everything[5]]

    def test_a_waiting_item_has_a_place(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """How many are handed out before it: those ahead in line, or due before it."""
        a, b, c = q.fill(3)
        [late] = q.push(doc("late", delay=9000)).ids
        [early] = q.push(doc("early", delay=5000)).ids
        q.claim_one()
        places = [desk.place("q", id).before for id in (a, b, c, early, late)]
        assert places == [0, 0, 1, 2, 3]
        place = desk.place("q", early)
        assert (place.item.id, place.now) == (early, clock.now)

    @pytest.mark.parametrize(
        ("discipline", "places"),
        [("fifo", [0, 1, 2]), ("lifo", [2, 1, 0]), ("priority", [1, 2, 0])],
    )
    def test_places_follow_the_discipline(
        self, desk: Desk, q: Queue, discipline: str, places: list[int]
    ) -> None:
        """The one with which an item is handed out."""
        q.create(discipline=discipline)
        made = q.push(doc(0), doc(1), doc(2, priority=1)).ids
        assert [desk.place("q", id).before for id in made] == places

    def test_what_does_not_live_has_no_place(self, desk: Desk, q: Queue) -> None:
        """A dead item is known, but it does not wait."""
        [id] = q.fill(1)
        q.end("kill")
        for item in (id, 10**9):
            with pytest.raises(UnknownItem):
                desk.place("q", item)

    @pytest.mark.parametrize("delay", [None, 1000])
    def test_a_waiting_item_can_be_cancelled(self, desk: Desk, q: Queue, delay: int | None) -> None:
        """Planned or pending; it never runs, and its subject is free."""
        [id] = q.push(doc(1, subject="s", delay=delay)).ids
        before = q.item(id)
        assert desk.cancel_item("q", id) == before
        assert q.is_gone(id)
        assert q.counts().total == 0
        assert q.push(doc(2, subject="s")).notes == ()
        assert q.claim_all() == [2]

    def test_only_what_waits_can_be_cancelled(self, desk: Desk, q: Queue) -> None:
        """Neither what is in flight nor what has ended."""
        [id] = q.fill(1)
        item = q.claim_one()
        with pytest.raises(ItemActive) as caught:
            desk.cancel_item("q", id)
        assert (caught.value.queue, caught.value.item) == ("q", id)
        q.settle(item, "kill")
        with pytest.raises(UnknownItem):
            desk.cancel_item("q", id)
        assert ids(q.dead()) == [id]

    def test_what_is_not_named_stays(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """An edit changes payload, priority and time, each if it is given."""
        [id] = q.push(doc(1, subject="s", priority=2, delay=1000, headers={"h": "1"})).ids
        before = q.item(id)
        assert desk.edit_item("q", id, None, None, None) == before
        edited = desk.edit_item("q", id, ("aGk=", BYTES), None, None)
        assert (edited.payload, edited.format, edited.priority) == ("aGk=", BYTES, 2)
        edited = desk.edit_item("q", id, None, 7, clock.now + 5)
        assert (edited.payload, edited.priority, edited.next_execution) == (
            "aGk=",
            7,
            clock.now + 5,
        )
        assert (edited.subject, edited.headers) == ("s", before.headers)
        assert q.item(id) == edited

    def test_an_edit_moves_an_item_in_time(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """Into the line or out of it; one that was due and still is keeps its place."""
        a, b, c = q.push("a", "b", doc("c", delay=1000)).ids
        desk.edit_item("q", a, (json("A"), 0), None, clock.now - 1)
        assert desk.edit_item("q", c, None, None, clock.now).state == State.PENDING
        assert desk.edit_item("q", b, None, None, clock.now + 1).state == State.PLANNED
        assert q.claim_all() == ["A", "c"]
        clock.advance(0.001)
        assert q.claim_all() == ["b"]

    def test_an_edit_of_the_priority_counts_at_once(self, desk: Desk, q: Queue) -> None:
        """The item stands among its new equals by its age."""
        a, _, c = q.fill(3)
        desk.edit_item("q", c, None, 1, None)
        desk.edit_item("q", a, None, 1, None)
        assert q.claim_all() == [0, 2, 1]

    def test_an_item_in_flight_is_not_edited(self, desk: Desk, q: Queue) -> None:
        """Nor is one that is not there."""
        [id] = q.fill(1)
        before = q.claim_one()
        with pytest.raises(ItemActive):
            desk.edit_item("q", id, (json(2), 0), None, None)
        assert q.item(id) == before
        with pytest.raises(UnknownItem):
            desk.edit_item("q", 10**9, None, 1, None)
