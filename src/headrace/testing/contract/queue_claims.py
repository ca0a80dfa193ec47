"""What a claim on items promises."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import UnknownQueue
from headrace.model.items import State
from headrace.model.queues import Discipline
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Desk,
    Queue,
    QueueContract,
    doc,
    ids,
    payloads,
    said,
)

ORDERS: dict[Discipline, list[int]] = {
    "fifo": [0, 1, 2, 3, 4, 5],
    "lifo": [5, 4, 3, 2, 1, 0],
    "priority": [2, 4, 0, 3, 5, 1],
}


def mixed(q: Queue) -> None:
    """Six items of different priorities, in two pushes."""
    priorities = (0, -1, 9, 0, 9, 0)
    documents = [doc(n, priority=priority) for n, priority in enumerate(priorities)]
    q.push(*documents[:4])
    q.push(*documents[4:])


class ItemClaimContract(QueueContract):
    """Items are handed out in order, each to one at a time."""

    def test_an_unknown_queue_is_refused(self, q: Queue) -> None:
        """FetchQ said that nothing was waiting."""
        with pytest.raises(UnknownQueue):
            q.take()

    def test_nothing_is_due(self, q: Queue, clock: FakeClock) -> None:
        """An empty queue has no next event either."""
        version = q.create().version
        taking = q.take(5)
        assert (taking.state, taking.items, taking.next_due) == ("empty", (), None)
        assert (taking.version, taking.now) == (version, clock.now)

    @pytest.mark.parametrize("discipline", ORDERS)
    def test_the_discipline_decides_the_order(self, q: Queue, discipline: Discipline) -> None:
        """The longest in line, the last in line, or the highest priority and then the longest."""
        q.create(discipline=discipline)
        mixed(q)
        one_by_one = [payloads(q.claim(1)) for _ in range(6)]
        assert one_by_one == [[n] for n in ORDERS[discipline]]

    @pytest.mark.parametrize("discipline", ORDERS)
    def test_a_batch_is_in_the_same_order(self, q: Queue, discipline: Discipline) -> None:
        """FetchQ chose the right items and returned them in any order."""
        q.create(discipline=discipline)
        mixed(q)
        assert payloads(q.claim(4)) + payloads(q.claim(4)) == ORDERS[discipline]

    def test_no_item_is_handed_out_twice(self, q: Queue) -> None:
        """As long as nobody gives it back."""
        everything = q.fill(10)
        claimed = [ids(q.claim(3)) for _ in range(4)]
        assert [len(some) for some in claimed] == [3, 3, 3, 1]
        assert [id for some in claimed for id in some] == everything
        assert q.take(3).state == "empty"

    def test_an_item_is_due_exactly_at_its_time(self, q: Queue, clock: FakeClock) -> None:
        """Not a millisecond before, and nothing has to move it first."""
        due = clock.now + 5000
        q.push(doc(1, due=due))
        clock.advance(4.999)
        taking = q.take()
        assert (taking.state, taking.next_due) == ("empty", due)
        clock.advance(0.001)
        assert payloads(q.claim()) == [1]

    def test_due_items_come_in_the_order_of_their_times(self, q: Queue, clock: FakeClock) -> None:
        """Those of the same time in the order of their pushes."""
        times = (3000, 1000, 2000, 1000, 0, 2000)
        q.push(*(doc(n, delay=delay) for n, delay in enumerate(times)))
        clock.advance(3)
        assert q.claim_all() == [4, 1, 3, 2, 5, 0]

    def test_the_last_to_become_due_is_the_first_of_a_stack(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """A lifo queue hands out what came into line last, planned or not."""
        q.create(discipline="lifo")
        q.push(doc(1, delay=2000), doc(2, delay=1000), doc(3))
        clock.advance(2)
        assert q.claim_all() == [1, 2, 3]

    def test_a_due_item_of_higher_priority_goes_first(self, q: Queue, clock: FakeClock) -> None:
        """Though others were in line long before it."""
        q.fill(3)
        q.push(doc("urgent", priority=1, delay=1000))
        clock.advance(1)
        assert payloads(q.claim(2)) == ["urgent", 0]

    def test_what_has_become_due_stands_before_later_pushes(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """Once a claim has seen that it is due, its turn is fixed."""
        q.push(1, doc(2, delay=1000), doc(3, delay=1000))
        clock.advance(1)
        assert payloads(q.claim(1)) == [1]
        q.push(4)
        assert q.claim_all() == [2, 3, 4]

    def test_a_claimed_item_says_so(self, q: Queue, clock: FakeClock) -> None:
        """Its state, its first attempt, and whose claim it is until when."""
        [id] = q.fill(1)
        clock.advance(1)
        [item] = q.claim(token="mine", lease_ms=1000, worker="w1")
        assert (item.id, item.state, item.attempts) == (id, State.ACTIVE, 1)
        assert (item.token, item.worker) == ("mine", "w1")
        assert (item.claimed_at, item.lease_until) == (clock.now, clock.now + 1000)
        assert (item.iterations, item.crashes) == (0, 0)
        assert q.item(id) == item

    def test_attempts_are_counted_when_an_item_is_handed_out(self, q: Queue) -> None:
        """So that a worker which dies cannot hide them."""
        q.fill(1)
        for attempt in (1, 2, 3):
            item = q.claim_one()
            assert item.attempts == attempt
            q.settle(item, "reject", delay_ms=0)

    def test_the_lease_is_that_of_the_call_or_of_the_queue(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """In this order."""
        q.create(lock_duration=7)
        q.fill(2)
        assert q.claim_one().lease_until == clock.now + 7000
        assert q.claim_one(lease_ms=50).lease_until == clock.now + 50

    def test_an_items_own_timeout_goes_before_both(self, q: Queue, clock: FakeClock) -> None:
        """Also inside a batch of others."""
        q.push(1, doc(2, overrides={"timeout": 0.25}))
        plain, own = q.claim(2, lease_ms=9000)
        assert (plain.lease_until, own.lease_until) == (clock.now + 9000, clock.now + 250)

    def test_a_paused_queue_hands_out_nothing(self, desk: Desk, q: Queue) -> None:
        """It takes in items all the same, and what is out can be settled."""
        q.fill(2)
        out = q.claim_one()
        desk.pause_queue("q", "ann")
        q.push(2)
        taking = q.take(5)
        assert (taking.state, taking.items) == ("paused", ())
        assert q.settle(out, "complete").state == "completed"
        desk.resume_queue("q")
        assert q.claim_all() == [1, 2]

    def test_other_settings_than_expected_hand_out_nothing(self, q: Queue) -> None:
        """A worker that does not know the present settings is told their version."""
        old = q.create().version
        q.fill(3)
        assert q.take(version=old).state == "claimed"
        new = q.update(lock_duration=5).version
        taking = q.take(version=old)
        assert (taking.state, taking.items, taking.version) == ("stale", (), new)
        assert q.take(version=new).state == "claimed"
        assert q.take().state == "claimed"

    def test_a_held_queue_hands_out_nothing_for_some_time(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """The hold ends by itself if whoever made it does not come back."""
        q.fill(1)
        desk.hold_queue("q", 2000, "stopped")
        taking = q.take()
        assert (taking.state, taking.next_due) == ("paused", clock.now + 2000)
        clock.advance(1.999)
        assert q.take().state == "paused"
        clock.advance(0.001)
        assert q.take().state == "claimed"

    @pytest.mark.parametrize("how", ["update", "hold"])
    def test_a_hold_can_be_ended(self, desk: Desk, q: Queue, how: str) -> None:
        """By the update it was made for, changed settings or not, or by a hold of no time."""
        q.fill(1)
        desk.hold_queue("q", 60_000, "stopped")
        if how == "update":
            q.update()
        else:
            desk.hold_queue("q", 0, "running")
        assert q.take().state == "claimed"

    def test_when_to_look_again(self, q: Queue, clock: FakeClock) -> None:
        """The next planned item or the next end of a lease, whichever is earlier."""
        start = clock.now
        q.push(1, doc(2, delay=8000), doc(3, delay=5000))
        q.claim_one(lease_ms=6000)
        assert q.take().next_due == start + 5000
        clock.advance(5)
        assert payloads(q.claim()) == [3]
        assert q.take().next_due == start + 6000

    def test_who_gets_some_is_told_when_there_may_be_more(self, q: Queue, clock: FakeClock) -> None:
        """A claim that gets less than it may take says when to look again, too: its own leases
        count like others."""
        q.push(1, doc(2, delay=5000))
        taking = q.take(5, lease_ms=9000)
        assert (len(taking.items), taking.next_due) == (1, clock.now + 5000)
        q.push(3)
        taking = q.take(5, lease_ms=1000)
        assert (len(taking.items), taking.next_due) == (1, clock.now + 1000)

    def test_a_claim_takes_over_what_was_abandoned(self, q: Queue, clock: FakeClock) -> None:
        """No maintenance is needed; it counts a crash, and the old holder has lost it."""
        q.fill(1)
        old = q.claim_one(lease_ms=1000)
        clock.advance(0.999)
        assert q.take().state == "empty"
        clock.advance(0.001)
        new = q.claim_one(lease_ms=1000)
        assert (new.id, new.attempts, new.crashes) == (old.id, 2, 1)
        assert q.settle(old, "complete").state == "lost"
        assert q.settle(new, "complete").state == "completed"

    def test_what_was_abandoned_is_at_its_old_place(self, q: Queue, clock: FakeClock) -> None:
        """Also within the batch that takes it over."""
        q.fill(3)
        q.claim(1, lease_ms=1000)
        clock.advance(1)
        assert payloads(q.claim(5)) == [0, 1, 2]

    def test_a_claim_can_be_extended(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """From now on, for the items named and for no others."""
        q.fill(3)
        a, b, _ = q.claim(3, token="mine", lease_ms=1000)
        clock.advance(0.9)
        assert desk.extend_items("q", "mine", [a.id, b.id], 5000) == [a.id, b.id]
        assert q.item(a.id).lease_until == clock.now + 5000
        clock.advance(0.1)
        assert payloads(q.claim(5)) == [2]

    def test_only_what_is_held_is_extended(self, desk: Desk, q: Queue) -> None:
        """Those settled, those of others and those that never were are left out."""
        q.fill(3)
        a, b = q.claim(2, token="mine", lease_ms=1000)
        other = q.claim_one(token="other", lease_ms=1000)
        q.settle(a, "complete")
        asked = [a.id, b.id, other.id, 10**9]
        assert desk.extend_items("q", "mine", asked, 5000) == [b.id]
        assert desk.extend_items("q", "nobody", asked, 5000) == []
        assert q.item(other.id).lease_until == other.lease_until
        assert desk.extend_items("nowhere", "mine", asked, 5000) == []

    def test_a_lease_that_is_over_can_be_extended_until_it_is_ended(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """A lease ends by a write, never by the clock alone."""
        q.fill(1)
        item = q.claim_one(token="mine", lease_ms=1000)
        clock.advance(60)
        assert desk.extend_items("q", "mine", [item.id], 1000) == [item.id]
        assert q.take().state == "empty"
        clock.advance(60)
        assert desk.expire_leases("q", 10) == [item.id]
        assert desk.extend_items("q", "mine", [item.id], 1000) == []

    def test_a_claim_that_stands_can_be_secured(
        self, desk: Desk, q: Queue, clock: FakeClock
    ) -> None:
        """By any of its items, as often as one likes, until its lease is ended."""
        q.fill(2)
        a, b = q.claim(2, token="mine", lease_ms=1000, may_be_loose=True)
        clock.advance(60)
        assert [desk.secure_claim("q", "mine", item.id) for item in (a, b, a)] == [True] * 3
        assert (q.item(a.id).lease_until, q.item(a.id).token) == (a.lease_until, "mine")
        assert desk.expire_leases("q", 1) == [a.id]
        assert [desk.secure_claim("q", "mine", item.id) for item in (a, b)] == [False, True]

    def test_a_claim_that_does_not_stand_cannot_be_secured(self, desk: Desk, q: Queue) -> None:
        """What was settled, what others have, and what never was."""
        q.fill(3)
        a, b = q.claim(2, token="mine", may_be_loose=True)
        other = q.claim_one(token="other", may_be_loose=True)
        q.settle(a, "complete")
        asked = [a.id, b.id, other.id, 10**9]
        assert [desk.secure_claim("q", "mine", id) for id in asked] == [False, True, False, False]
        assert desk.secure_claim("nowhere", "mine", b.id) is False
        desk.drop_queue("q", False)
        assert desk.secure_claim("q", "mine", b.id) is False

    def test_tokens_of_one_claim_hold_for_all_its_items(self, desk: Desk, q: Queue) -> None:
        """Each is settled by itself."""
        q.fill(3)
        claimed = q.claim(3, token="mine")
        answers = desk.settle("q", [said(item, "complete") for item in claimed])
        assert [answer.state for answer in answers] == ["completed"] * 3

    def test_the_claims_of_two_clients_do_not_meet(self, connect: Any, desk: Desk) -> None:
        """However they take turns."""
        here, there = Queue(desk), Queue(Desk(connect()))
        here.fill(9)
        got = [ids(queue.claim(2)) for queue in (here, there, here, there, here)]
        assert len({id for some in got for id in some}) == 9
