"""The guarantees of a claim on items."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.limits import RuleRow
from headrace.core.where import where
from headrace.errors import UnknownQueue
from headrace.model.limits.rules import EVERYTHING
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import State
from headrace.model.queues.settings import Discipline
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import needs
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    ids,
    outcome_of,
    payloads,
)

ORDERS: dict[Discipline, list[int]] = {
    "fifo": [0, 1, 2, 3, 4, 5],
    "lifo": [5, 4, 3, 2, 1, 0],
    "priority": [2, 4, 0, 3, 5, 1],
}
LINUX = where(os="linux").form
# How to claim, and whether the items are in channels.
WAYS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, False),
    "in line": ({}, True),
    "in turn": ({"select": Query().form}, True),
    "by query": ({"select": LINUX}, True),
    "by query, in line": ({"select": LINUX, "order": "line"}, True),
}


def mixed(q: Queue) -> None:
    """Six items of different priorities, in two pushes."""
    priorities = (0, -1, 9, 0, 9, 0)
    documents = [doc(n, priority=priority) for n, priority in enumerate(priorities)]
    q.push(*documents[:4])
    q.push(*documents[4:])


class ItemClaimContract(QueueContract):
    """Claims return items in order, each item to one claim at a time."""

    def test_an_unknown_queue_is_refused(self, q: Queue) -> None:
        """FetchQ answered that nothing was waiting."""
        with pytest.raises(UnknownQueue):
            q.claim_response()

    def test_nothing_is_due(self, q: Queue, clock: FakeClock) -> None:
        """An empty queue has no next due time either."""
        version = q.create().version
        response = q.claim_response(5)
        assert (response.state, response.items, response.next_due) == ("empty", (), None)
        assert (response.version, response.now) == (version, clock.now)

    @pytest.mark.parametrize("discipline", ORDERS)
    def test_the_discipline_decides_the_order(self, q: Queue, discipline: Discipline) -> None:
        """The oldest in line, the newest in line, or the highest priority and then the oldest."""
        q.create(discipline=discipline)
        mixed(q)
        one_by_one = [payloads(q.claim(1)) for _ in range(6)]
        assert one_by_one == [[n] for n in ORDERS[discipline]]

    @pytest.mark.parametrize("discipline", ORDERS)
    def test_a_batch_is_in_the_same_order(self, q: Queue, discipline: Discipline) -> None:
        """FetchQ chose the right items but returned them in any order."""
        q.create(discipline=discipline)
        mixed(q)
        assert payloads(q.claim(4)) + payloads(q.claim(4)) == ORDERS[discipline]

    def test_no_item_is_claimed_twice(self, q: Queue) -> None:
        """Unless it was released."""
        everything = q.fill(10)
        claimed = [ids(q.claim(3)) for _ in range(4)]
        assert [len(some) for some in claimed] == [3, 3, 3, 1]
        assert [id for some in claimed for id in some] == everything
        assert q.claim_response(3).state == "empty"

    @pytest.mark.parametrize("discipline", ORDERS)
    def test_a_repeat_gets_the_items_of_its_token(self, q: Queue, discipline: Discipline) -> None:
        """A client that lost the answer to a claim gets it again, and nothing else is claimed."""
        q.create(discipline=discipline)
        mixed(q)
        first = q.claim(2, token="mine")
        assert ids(q.claim(2, token="mine", is_repeat=True)) == ids(first)
        assert [item.attempts for item in q.claim(2, token="mine", is_repeat=True)] == [1, 1]
        assert len(q.claim(6)) == 4

    def test_a_repeat_of_a_claim_that_never_arrived_claims(self, q: Queue) -> None:
        q.fill(2)
        q.claim_one(token="of another")
        assert len(q.claim(2, token="mine", is_repeat=True)) == 1

    def test_an_item_is_due_exactly_at_its_time(self, q: Queue, clock: FakeClock) -> None:
        """Not a millisecond earlier, and without maintenance."""
        due = clock.now + 5000
        q.push(doc(1, due=due))
        clock.advance(4.999)
        response = q.claim_response()
        assert (response.state, response.next_due) == ("empty", due)
        clock.advance(0.001)
        assert payloads(q.claim()) == [1]

    def test_due_items_come_in_the_order_of_their_times(self, q: Queue, clock: FakeClock) -> None:
        """Items of the same time come in push order."""
        times = (3000, 1000, 2000, 1000, 0, 2000)
        q.push(*(doc(n, delay=delay) for n, delay in enumerate(times)))
        clock.advance(3)
        assert q.claim_all() == [4, 1, 3, 2, 5, 0]

    def test_a_past_time_does_not_jump_the_line(self, q: Queue, clock: FakeClock) -> None:
        """An item that is due when it is pushed queues behind earlier pushes, however old its time
        is. FetchQ ordered by time, so that an item from a century ago came first. Headrace has
        priorities for that."""
        q.push(1)
        q.push(doc(2, due=clock.now - 1000))
        q.push(doc(3, due=0), doc(4), doc(5, due=clock.now - 2000))
        q.push(doc("first", due=clock.now, priority=1))
        assert q.claim_all() == ["first", 1, 2, 3, 4, 5]

    def test_a_planned_item_gets_its_place_from_the_first_claim(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """The first claim that finds it due gives a planned item its place. If no claim came before
        a later push, that push is ahead of it."""
        q.push(doc(1, delay=1000))
        clock.advance(2)
        q.push(2)
        assert q.claim_all() == [2, 1]

    def test_the_last_to_become_due_is_the_first_of_a_stack(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """A lifo queue delivers the item that entered the line last, planned or not."""
        q.create(discipline="lifo")
        q.push(doc(1, delay=2000), doc(2, delay=1000), doc(3))
        clock.advance(2)
        assert q.claim_all() == [1, 2, 3]

    def test_a_due_item_of_higher_priority_goes_first(self, q: Queue, clock: FakeClock) -> None:
        """Even if the others were in line long before it."""
        q.fill(3)
        q.push(doc("urgent", priority=1, delay=1000))
        clock.advance(1)
        assert payloads(q.claim(2)) == ["urgent", 0]

    def test_a_due_item_goes_before_later_pushes(self, q: Queue, clock: FakeClock) -> None:
        """Once a claim has found it due, its place is fixed."""
        q.push(1, doc(2, delay=1000), doc(3, delay=1000))
        clock.advance(1)
        assert payloads(q.claim(1)) == [1]
        q.push(4)
        assert q.claim_all() == [2, 3, 4]

    def test_the_fields_of_a_claimed_item(self, q: Queue, clock: FakeClock) -> None:
        """Its state, its first attempt, its claimant and the end of its lease."""
        [id] = q.fill(1)
        clock.advance(1)
        [item] = q.claim(token="mine", lease_ms=1000, worker="w1")
        assert (item.id, item.state, item.attempts) == (id, State.ACTIVE, 1)
        assert (item.token, item.worker) == ("mine", "w1")
        assert (item.claimed_at, item.lease_until) == (clock.now, clock.now + 1000)
        assert (item.iterations, item.crashes) == (0, 0)
        assert q.item(id) == item

    def test_attempts_are_counted_at_the_claim(self, q: Queue) -> None:
        """So a worker that dies cannot hide them."""
        q.fill(1)
        for attempt in (1, 2, 3):
            item = q.claim_one()
            assert item.attempts == attempt
            q.settle(item, "reject", delay_ms=0)

    def test_the_lease_is_that_of_the_call_or_of_the_queue(
        self, q: Queue, clock: FakeClock
    ) -> None:
        """The call goes before the queue."""
        q.create(lease=7)
        q.fill(2)
        assert q.claim_one().lease_until == clock.now + 7000
        assert q.claim_one(lease_ms=50).lease_until == clock.now + 50

    def test_the_lease_of_an_item_goes_before_both(self, q: Queue, clock: FakeClock) -> None:
        """This also holds inside a batch of other items."""
        q.push(1, doc(2, overrides={"lease": 0.25}))
        plain, own = q.claim(2, lease_ms=9000)
        assert (plain.lease_until, own.lease_until) == (clock.now + 9000, clock.now + 250)

    def test_a_paused_queue_cannot_be_claimed(self, ops: StoreOps, q: Queue) -> None:
        """It still accepts pushes, and items in flight can be settled."""
        q.fill(2)
        out = q.claim_one()
        ops.queues.pause("q", "ann")
        q.push(2)
        response = q.claim_response(5)
        assert (response.state, response.items) == ("paused", ())
        assert q.settle(out, "complete").state == "completed"
        ops.queues.resume("q")
        assert q.claim_all() == [1, 2]

    def test_a_claim_with_a_stale_version_gets_nothing(self, q: Queue) -> None:
        """The answer has the current version."""
        old = q.create().version
        q.fill(3)
        assert q.claim_response(version=old).state == "claimed"
        new = q.update(lease=5).version
        response = q.claim_response(version=old)
        assert (response.state, response.items, response.version) == ("stale", (), new)
        assert q.claim_response(version=new).state == "claimed"
        assert q.claim_response().state == "claimed"

    def test_a_frozen_queue_cannot_be_claimed_for_some_time(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """The freeze ends automatically if its owner does not return."""
        q.fill(1)
        ops.queues.freeze("q", 2000, "stopped")
        response = q.claim_response()
        assert (response.state, response.next_due) == ("paused", clock.now + 2000)
        clock.advance(1.999)
        assert q.claim_response().state == "paused"
        clock.advance(0.001)
        assert q.claim_response().state == "claimed"

    @pytest.mark.parametrize("how", ["update", "freeze"])
    def test_a_freeze_can_be_ended(self, ops: StoreOps, q: Queue, how: str) -> None:
        """By the update that needed it, whether it changed settings or not, or by a freeze of no
        duration."""
        q.fill(1)
        ops.queues.freeze("q", 60_000, "stopped")
        if how == "update":
            q.update()
        else:
            ops.queues.freeze("q", 0, "running")
        assert q.claim_response().state == "claimed"

    def test_an_empty_claim_says_when_to_poll_again(self, q: Queue, clock: FakeClock) -> None:
        """At the next planned item or the next end of a lease, whichever is earlier."""
        start = clock.now
        q.push(1, doc(2, delay=8000), doc(3, delay=5000))
        q.claim_one(lease_ms=6000)
        assert q.claim_response().next_due == start + 5000
        clock.advance(5)
        assert payloads(q.claim()) == [3]
        assert q.claim_response().next_due == start + 6000

    def test_a_partial_claim_says_when_to_poll_again(self, q: Queue, clock: FakeClock) -> None:
        """A claim that returns fewer items than it may says when to poll again. Its own leases
        count like others."""
        q.push(1, doc(2, delay=5000))
        response = q.claim_response(5, lease_ms=9000)
        assert (len(response.items), response.next_due) == (1, clock.now + 5000)
        q.push(3)
        response = q.claim_response(5, lease_ms=1000)
        assert (len(response.items), response.next_due) == (1, clock.now + 1000)

    def test_a_claim_takes_over_abandoned_items(self, q: Queue, clock: FakeClock) -> None:
        """No maintenance is needed. The takeover counts a crash, and the old holder has lost the
        item."""
        q.fill(1)
        old = q.claim_one(lease_ms=1000)
        clock.advance(0.999)
        assert q.claim_response().state == "empty"
        clock.advance(0.001)
        new = q.claim_one(lease_ms=1000)
        assert (new.id, new.attempts, new.crashes) == (old.id, 2, 1)
        assert q.settle(old, "complete").state == "lost"
        assert q.settle(new, "complete").state == "completed"

    def test_an_abandoned_item_returns_to_its_old_place(self, q: Queue, clock: FakeClock) -> None:
        """This also holds within the batch that takes it over."""
        q.fill(3)
        q.claim(1, lease_ms=1000)
        clock.advance(1)
        assert payloads(q.claim(5)) == [0, 1, 2]

    @needs("limits")
    @pytest.mark.parametrize("is_limited", [False, True], ids=["free", "limited"])
    @pytest.mark.parametrize("way", WAYS)
    def test_an_expired_item_does_not_wait_for_the_backlog(
        self, ops: StoreOps, q: Queue, clock: FakeClock, way: str, is_limited: bool
    ) -> None:
        """The next claim gets it, by its priority or at its old place. Neither a backlog nor
        missing maintenance delays it."""
        how, has_channel = WAYS[way]
        channel = KeyValues.of({"os": "linux"}).form if has_channel else None
        if is_limited:
            ops.limits.create([RuleRow(id="r", key_values=EVERYTHING.form, limit=50)])
        q.push(*(doc(number, key_values=channel) for number in range(5)))
        q.push(doc("urgent", priority=100, key_values=channel))
        for lapsed, later in (("urgent", 0), (0, 1)):
            [item] = q.claim(1, lease_ms=1000, **how)
            [other] = q.claim(1, lease_ms=9000, **how)
            assert payloads([item, other]) == [lapsed, later]
            q.settle(other, "release")
            clock.advance(0.999)
            [other] = q.claim(1, lease_ms=9000, **how)
            assert payloads([other]) == [later]
            q.settle(other, "release")
            clock.advance(0.001)
            [again] = q.claim(1, lease_ms=9000, **how)
            assert (again.id, again.crashes) == (item.id, 1)
            assert q.settle(item, "complete").state == "lost"
            assert q.settle(again, "complete").state == "completed"

    @pytest.mark.parametrize("way", ["in line", "in turn", "by query"])
    def test_an_expired_item_of_a_strict_channel_does_not_wait_for_others(
        self, q: Queue, clock: FakeClock, way: str
    ) -> None:
        """Its channel takes its turn among the others again."""
        q.create(serial=True)
        channels = [KeyValues.of({"os": "linux", "n": number}).form for number in range(4)]
        q.push(*(doc(name, key_values=name) for name in channels))
        how, _ = WAYS[way]
        item = q.claim_one(lease_ms=1000, **how)
        clock.advance(1)
        again = q.claim_one(lease_ms=9000, **how)
        assert q.item(item.id).crashes == 1
        if way == "in line":
            assert again.id == item.id

    def test_a_claim_can_be_extended(self, ops: StoreOps, q: Queue, clock: FakeClock) -> None:
        """The new lease starts now, for the named items only."""
        q.fill(3)
        a, b, _ = q.claim(3, token="mine", lease_ms=1000)
        clock.advance(0.9)
        assert ops.queues.extend("q", "mine", [a.id, b.id], 5000) == [a.id, b.id]
        assert q.item(a.id).lease_until == clock.now + 5000
        clock.advance(0.1)
        assert payloads(q.claim(5)) == [2]

    def test_only_claimed_items_are_extended(self, ops: StoreOps, q: Queue) -> None:
        """Settled items, items of other claims and unknown items are left out."""
        q.fill(3)
        a, b = q.claim(2, token="mine", lease_ms=1000)
        other = q.claim_one(token="other", lease_ms=1000)
        q.settle(a, "complete")
        asked = [a.id, b.id, other.id, 10**9]
        assert ops.queues.extend("q", "mine", asked, 5000) == [b.id]
        assert ops.queues.extend("q", "nobody", asked, 5000) == []
        assert q.item(other.id).lease_until == other.lease_until
        assert ops.queues.extend("nowhere", "mine", asked, 5000) == []

    def test_an_expired_lease_can_be_extended_until_it_is_ended(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """A lease ends by a write, never by the clock alone."""
        q.fill(1)
        item = q.claim_one(token="mine", lease_ms=1000)
        clock.advance(60)
        assert ops.queues.extend("q", "mine", [item.id], 1000) == [item.id]
        assert q.claim_response().state == "empty"
        clock.advance(60)
        assert ops.queues.expire_leases("q", 10) == [item.id]
        assert ops.queues.extend("q", "mine", [item.id], 1000) == []

    def test_items_of_one_claim_share_a_token(self, ops: StoreOps, q: Queue) -> None:
        """Each item is settled separately."""
        q.fill(3)
        claimed = q.claim(3, token="mine")
        answers = ops.queues.settle("q", [outcome_of(item, "complete") for item in claimed])
        assert [answer.state for answer in answers] == ["completed"] * 3

    def test_two_clients_never_claim_the_same_item(self, connect: Any, ops: StoreOps) -> None:
        """In whatever order they claim."""
        here, there = Queue(ops), Queue(StoreOps(connect()))
        here.fill(9)
        got = [ids(queue.claim(2)) for queue in (here, there, here, there, here)]
        assert len({id for some in got for id in some}) == 9
