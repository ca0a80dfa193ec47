"""Channels that may not run before a time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channels import ChannelInfo
from headrace.core.times import moment_of
from headrace.core.where import where
from headrace.errors import InvalidKeyValues, InvalidOption, UnknownQueue
from headrace.model.items import State
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Contract
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads
from headrace.testing.contract.queue_channels import EVERY, A, B, form, of
from headrace.testing.contract.queue_clients import soon

CLAIMS = [
    {"select": EVERY},
    {"select": EVERY, "quantum": 1},
    {"select": where(name__in=["a", "b"]).form},
    {"select": EVERY, "order": "line"},
    {},
]


class ChannelHoldContract(QueueContract):
    """Holds: whole channels wait until a time."""

    @pytest.mark.parametrize("options", CLAIMS, ids=str)
    @pytest.mark.parametrize("serial", [False, True])
    def test_nothing_of_a_held_channel_is_handed_out(
        self, q: Queue, clock: FakeClock, options: Any, serial: bool
    ) -> None:
        """Before its time, and all of it then; others are not held up."""
        q.create(serial=serial)
        q.push(of(A, 1), of(A, 2), of(B, 3))
        assert q.desk.hold_channel("q", form(A), None, 5000) == clock.now + 5000
        taking = q.take(9, lease_ms=60_000, **options)
        assert payloads(taking.items) == [3]
        assert taking.next_due == clock.now + 5000
        q.push(of(A, 4))
        clock.advance(4.999)
        taking = q.take(9, lease_ms=60_000, **options)
        assert (taking.state, taking.next_due) == ("empty", clock.now + 1)
        clock.advance(0.001)
        assert payloads(q.claim(9, **options)) == ([1] if serial else [1, 2, 4])

    def test_a_held_channel_keeps_its_turn(self, q: Queue, clock: FakeClock) -> None:
        """It is the first when its time has come."""
        q.push(of(A, 1), of(B, 2), of(B, 3))
        q.desk.hold_channel("q", form(A), None, 1000)
        assert payloads(q.claim(1, select=EVERY, quantum=1)) == [2]
        clock.advance(1)
        assert payloads(q.claim(2, select=EVERY, quantum=1)) == [1, 3]

    def test_of_two_holds_the_later_one_counts(self, q: Queue, clock: FakeClock) -> None:
        """Until somebody ends it."""
        q.push(of(A, 1))
        now = clock.now
        assert q.desk.hold_channel("q", form(A), now + 2000, None) == now + 2000
        assert q.desk.hold_channel("q", form(A), now + 1000, None) == now + 2000
        assert q.desk.channel_hold("q", form(A)) == now + 2000
        waiter = q.desk.store.waiter("queue/q")
        try:
            assert q.desk.hold_channel("q", form(A), None, None) is None
            assert q.desk.is_woken(waiter)
        finally:
            waiter.close()
        assert q.desk.channel_hold("q", form(A)) is None
        assert payloads(q.claim(1)) == [1]

    def test_a_hold_is_about_the_key_values(self, q: Queue, clock: FakeClock) -> None:
        """Whether there is anything in the channel or not, and if it is deleted meanwhile."""
        q.create()
        q.desk.hold_channel("q", form(A), None, 5000)
        assert q.desk.channels("q", None, "", 9) == []
        q.push(of(A, 1))
        [row] = q.desk.channels("q", None, "", 9)
        assert row.held_until == clock.now + 5000
        q.desk.delete_channels("q", None, 9)
        q.push(of(A, 2))
        assert q.claim(9, select=EVERY) == []
        clock.advance(5)
        [row] = q.desk.channels("q", None, "", 9)
        assert row.held_until is None
        q.desk.tend_queue("q", 100)
        assert payloads(q.claim(9, select=EVERY)) == [2]

    def test_a_hold_is_the_queues_own(self, q: Queue, desk: Desk) -> None:
        """And goes with it."""
        other = Queue(desk, "other")
        for queue in (q, other):
            queue.push(of(A, 1))
        desk.hold_channel("q", form(A), None, 5000)
        assert payloads(other.claim(1, select=EVERY)) == [1]
        desk.drop_queue("q", False)
        q.push(of(A, 2))
        assert payloads(q.claim(1, select=EVERY)) == [2]
        with pytest.raises(UnknownQueue):
            desk.hold_channel("none", form(A), None, 1)

    def test_an_outcome_holds_the_channel(self, q: Queue, clock: FakeClock) -> None:
        """In the same transaction; released, no attempt is counted."""
        q.push(of(A, 1), of(A, 2))
        item = q.claim_one(select=EVERY)
        settled = q.settle(item, "release", hold_ms=5000)
        assert (settled.state, settled.due) == ("pending", clock.now + 5000)
        assert q.claim(9, select=EVERY) == []
        assert q.item(item.id).attempts == 0
        clock.advance(5)
        one, two = q.claim(9, select=EVERY)
        assert payloads([one, two]) == [1, 2]
        q.settle(one, "complete", hold_until=clock.now + 1000)
        q.push(of(A, 3))
        assert q.claim(9, select=EVERY) == []
        assert q.settle(two, "complete").state == "completed"
        clock.advance(1)
        assert payloads(q.claim(9)) == [3]

    def test_an_outcome_that_is_lost_holds_nothing(self, q: Queue, clock: FakeClock) -> None:
        """Nothing of it is written."""
        q.push(of(A, 1))
        item = q.claim_one(lease_ms=1000)
        clock.advance(1)
        again = q.claim_one()
        assert q.settle(item, "release", hold_ms=5000).state == "lost"
        assert q.desk.channel_hold("q", form(A)) is None
        q.settle(again, "release")
        assert payloads(q.claim(1)) == [1]

    def test_an_item_in_no_channel_waits_alone(self, q: Queue, clock: FakeClock) -> None:
        """And returns to its place."""
        q.push(doc(1), doc(2), doc(3))
        item = q.claim_one()
        settled = q.settle(item, "release", hold_ms=5000)
        assert (settled.state, settled.due) == ("planned", clock.now + 5000)
        assert (q.item(item.id).state, q.item(item.id).attempts) == (State.PLANNED, 0)
        assert payloads(q.claim(1)) == [2]
        clock.advance(5)
        assert payloads(q.claim(9)) == [1, 3]


class ChannelHoldClientContract(Contract):
    """Holds through a client."""

    def test_a_channel_is_held(self, hr: Any, clock: FakeClock) -> None:
        """Until a time; it can be seen, and ended."""
        q = hr.queue("calls")
        q.push_many([1, 2], channel=A)
        until = q.hold_channel(A, delay="1m")
        assert until == moment_of(clock.now + 60_000)
        assert q.hold_channel(A, at=moment_of(clock.now + 1000)) == until
        assert q.channel(A) == ChannelInfo(key_values=KeyValues.of(A), waiting=2, held_until=until)
        assert q.claim(9, select=Query()) == []
        q.end_channel_hold(A)
        assert len(q.claim(9)) == 2
        q.hold_channel(B, delay=5)
        assert q.channel(B).held_until == moment_of(clock.now + 5000)

    def test_why_an_item_of_it_waits(self, hr: Any, clock: FakeClock) -> None:
        """It says until when."""
        q = hr.queue("calls")
        [id] = q.push_many([1], channel=A).ids
        q.hold_channel(A, delay=90)
        why = q.why(id)
        assert why.channel_held_for == 90.0
        until = moment_of(clock.now + 90_000).isoformat()
        assert f"its channel is held for 90 s, until {until}" in str(why)
        clock.advance(90)
        assert q.why(id).channel_held_for is None

    def test_a_claimed_item_holds_its_channel(self, hr: Any, clock: FakeClock) -> None:
        """As an API's answer asks."""
        q = hr.queue("calls")
        q.push_many([1, 2], channel=A)
        [item] = q.claim()
        assert item.hold(delay=30) == moment_of(clock.now + 30_000)
        assert q.claim(9) == []
        clock.advance(30)
        one, two = q.claim(9)
        assert (one.payload, one.attempts) == (1, 1)
        [settled] = q.settle([two.outcome("hold", delay=1)])
        assert (settled.state, q.claim(9)) == ("pending", [])

    def test_a_claim_that_waits_gets_it_at_that_time(self, hr: Any, clock: FakeClock) -> None:
        """Nobody has to wake it."""
        q = hr.queue("calls")
        q.push(1, channel=A)
        q.hold_channel(A, delay=30)
        with soon(lambda: clock.advance(30)):
            [item] = q.claim(select=Query(), wait=20)
        assert item.payload == 1

    @pytest.mark.parametrize(
        "options", [{}, {"at": 1, "delay": 1}, {"delay": -1}, {"delay": "soon"}, {"at": "now"}]
    )
    def test_a_wrong_time_is_refused(self, hr: Any, options: Any) -> None:
        """And nothing is held."""
        q = hr.queue("calls")
        q.push(1, channel=A)
        with pytest.raises(InvalidOption):
            q.hold_channel(A, **options)
        [item] = q.claim()
        with pytest.raises(InvalidOption):
            item.hold(**options)
        with pytest.raises(InvalidKeyValues) as caught:
            q.hold_channel({"_name": 1}, delay=1)
        assert caught.value.path == "channel[_name]"
        assert q.channel(A).held_until is None
