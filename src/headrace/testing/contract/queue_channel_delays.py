"""Channels that are delayed until a time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channels import ChannelInfo
from headrace.core.where import where
from headrace.errors import InvalidKeyValues, InvalidOption, UnknownQueue
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import State
from headrace.model.times import moment_of
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc, payloads
from headrace.testing.contract.queue_channels import EVERY, A, B, form, of
from headrace.testing.contract.queue_clients import soon

CLAIMS = [
    {"select": EVERY},
    {"select": EVERY, "quantum": 1},
    {"select": where(name__in=["a", "b"]).form},
    {"select": EVERY, "order": "line"},
    {},
]


class ChannelDelayContract(QueueContract):
    """A delay stops a whole channel until a time."""

    needed_parts = frozenset({"channels"})

    @pytest.mark.parametrize("options", CLAIMS, ids=str)
    @pytest.mark.parametrize("serial", [False, True])
    def test_a_delayed_channel_cannot_be_claimed(
        self, q: Queue, clock: FakeClock, options: Any, serial: bool
    ) -> None:
        """All of its items are claimable from that time on. Other channels are not affected."""
        q.create(serial=serial)
        q.push(of(A, 1), of(A, 2), of(B, 3))
        assert q.ops.channels.delay("q", form(A), None, 5000) == clock.now + 5000
        response = q.claim_response(9, lease_ms=60_000, **options)
        assert payloads(response.items) == [3]
        assert response.next_due == clock.now + 5000
        q.push(of(A, 4))
        clock.advance(4.999)
        response = q.claim_response(9, lease_ms=60_000, **options)
        assert (response.state, response.next_due) == ("empty", clock.now + 1)
        clock.advance(0.001)
        assert payloads(q.claim(9, **options)) == ([1] if serial else [1, 2, 4])

    def test_a_delayed_channel_keeps_its_turn(self, q: Queue, clock: FakeClock) -> None:
        """It comes first when its time has come."""
        q.push(of(A, 1), of(B, 2), of(B, 3))
        q.ops.channels.delay("q", form(A), None, 1000)
        assert payloads(q.claim(1, select=EVERY, quantum=1)) == [2]
        clock.advance(1)
        assert payloads(q.claim(2, select=EVERY, quantum=1)) == [1, 3]

    def test_of_two_delays_the_later_one_counts(self, q: Queue, clock: FakeClock) -> None:
        """It counts until a caller ends it."""
        q.push(of(A, 1))
        now = clock.now
        assert q.ops.channels.delay("q", form(A), now + 2000, None) == now + 2000
        assert q.ops.channels.delay("q", form(A), now + 1000, None) == now + 2000
        assert q.ops.channels.delayed_until("q", form(A)) == now + 2000
        waiter = q.ops.store.waiter("queue/q")
        try:
            assert q.ops.channels.delay("q", form(A), None, None) is None
            assert q.ops.is_woken(waiter)
        finally:
            waiter.close()
        assert q.ops.channels.delayed_until("q", form(A)) is None
        assert payloads(q.claim(1)) == [1]

    def test_a_delay_belongs_to_the_key_values(self, q: Queue, clock: FakeClock) -> None:
        """It applies to an empty channel, and outlives the deletion of the channel."""
        q.create()
        q.ops.channels.delay("q", form(A), None, 5000)
        assert q.ops.channels.list("q", None, "", 9) == []
        q.push(of(A, 1))
        [row] = q.ops.channels.list("q", None, "", 9)
        assert row.delayed_until == clock.now + 5000
        q.ops.channels.delete("q", None, 9)
        q.push(of(A, 2))
        assert q.claim(9, select=EVERY) == []
        clock.advance(5)
        [row] = q.ops.channels.list("q", None, "", 9)
        assert row.delayed_until is None
        q.ops.queues.maintain("q", 100)
        assert payloads(q.claim(9, select=EVERY)) == [2]

    def test_a_delay_belongs_to_one_queue(self, q: Queue, ops: StoreOps) -> None:
        """It is deleted with the queue."""
        other = Queue(ops, "other")
        for queue in (q, other):
            queue.push(of(A, 1))
        ops.channels.delay("q", form(A), None, 5000)
        assert payloads(other.claim(1, select=EVERY)) == [1]
        ops.queues.drop("q", False)
        q.push(of(A, 2))
        assert payloads(q.claim(1, select=EVERY)) == [2]
        with pytest.raises(UnknownQueue):
            ops.channels.delay("none", form(A), None, 1)

    def test_an_outcome_delays_the_channel(self, q: Queue, clock: FakeClock) -> None:
        """Both happen in one transaction. A released item counts no attempt."""
        q.push(of(A, 1), of(A, 2))
        item = q.claim_one(select=EVERY)
        settled = q.settle(item, "release", channel_delay_ms=5000)
        assert (settled.state, settled.due) == ("pending", clock.now + 5000)
        assert q.claim(9, select=EVERY) == []
        assert q.item(item.id).attempts == 0
        clock.advance(5)
        one, two = q.claim(9, select=EVERY)
        assert payloads([one, two]) == [1, 2]
        q.settle(one, "complete", channel_delay_until=clock.now + 1000)
        q.push(of(A, 3))
        assert q.claim(9, select=EVERY) == []
        assert q.settle(two, "complete").state == "completed"
        clock.advance(1)
        assert payloads(q.claim(9)) == [3]

    def test_a_lost_outcome_delays_nothing(self, q: Queue, clock: FakeClock) -> None:
        """Nothing of a lost outcome is written."""
        q.push(of(A, 1))
        item = q.claim_one(lease_ms=1000)
        clock.advance(1)
        again = q.claim_one()
        assert q.settle(item, "release", channel_delay_ms=5000).state == "lost"
        assert q.ops.channels.delayed_until("q", form(A)) is None
        q.settle(again, "release")
        assert payloads(q.claim(1)) == [1]

    def test_an_item_in_no_channel_is_delayed_alone(self, q: Queue, clock: FakeClock) -> None:
        """It returns to its old place."""
        q.push(doc(1), doc(2), doc(3))
        item = q.claim_one()
        settled = q.settle(item, "release", channel_delay_ms=5000)
        assert (settled.state, settled.due) == ("planned", clock.now + 5000)
        assert (q.item(item.id).state, q.item(item.id).attempts) == (State.PLANNED, 0)
        assert payloads(q.claim(1)) == [2]
        clock.advance(5)
        assert payloads(q.claim(9)) == [1, 3]


class ChannelDelayClientContract(Contract):
    """Channel delays through the public client."""

    needed_parts = frozenset({"channels"})

    def test_a_channel_is_delayed(self, hr: Any, clock: FakeClock) -> None:
        """A delay can be inspected and ended."""
        q = hr.queue("calls")
        q.push_many([1, 2], channel=A)
        until = q.channels.delay(A, delay="1m")
        assert until == moment_of(clock.now + 60_000)
        assert q.channels.delay(A, at=moment_of(clock.now + 1000)) == until
        assert q.channels.get(A) == ChannelInfo(
            key_values=KeyValues.of(A), waiting=2, delayed_until=until
        )
        assert q.claim(9, select=Query()) == []
        q.channels.end_delay(A)
        assert len(q.claim(9)) == 2
        q.channels.delay(B, delay=5)
        assert q.channels.get(B).delayed_until == moment_of(clock.now + 5000)

    def test_why_names_the_end_of_a_delay(self, hr: Any, clock: FakeClock) -> None:
        q = hr.queue("calls")
        [id] = q.push_many([1], channel=A).ids
        q.channels.delay(A, delay=90)
        why = q.why(id)
        assert why.channel_delayed_for == 90.0
        until = moment_of(clock.now + 90_000).isoformat()
        assert f"its channel is delayed for 90 s, until {until}" in str(why)
        clock.advance(90)
        assert q.why(id).channel_delayed_for is None

    def test_a_claimed_item_delays_its_channel(self, hr: Any, clock: FakeClock) -> None:
        """For example, as the answer of an API asks for."""
        q = hr.queue("calls")
        q.push_many([1, 2], channel=A)
        [item] = q.claim()
        assert item.delay_channel(delay=30) == moment_of(clock.now + 30_000)
        assert q.claim(9) == []
        clock.advance(30)
        one, two = q.claim(9)
        assert (one.payload, one.attempts) == (1, 1)
        [settled] = q.settle([two.outcome("delay_channel", delay=1)])
        assert (settled.state, q.claim(9)) == ("pending", [])

    def test_a_waiting_claim_wakes_at_the_end_of_a_delay(self, hr: Any, clock: FakeClock) -> None:
        """It needs no notification for it."""
        q = hr.queue("calls")
        q.push(1, channel=A)
        q.channels.delay(A, delay=30)
        with soon(lambda: clock.advance(30)):
            [item] = q.claim(select=Query(), wait=20)
        assert item.payload == 1

    @pytest.mark.parametrize(
        "options", [{}, {"at": 1, "delay": 1}, {"delay": -1}, {"delay": "soon"}, {"at": "now"}]
    )
    def test_a_wrong_time_is_refused(self, hr: Any, options: Any) -> None:
        """Nothing is delayed."""
        q = hr.queue("calls")
        q.push(1, channel=A)
        with pytest.raises(InvalidOption):
            q.channels.delay(A, **options)
        [item] = q.claim()
        with pytest.raises(InvalidOption):
            item.delay_channel(**options)
        with pytest.raises(InvalidKeyValues) as caught:
            q.channels.delay({"_name": 1}, delay=1)
        assert caught.value.path == "channel[_name]"
        assert q.channels.get(A).delayed_until is None
