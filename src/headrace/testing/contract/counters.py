"""What counters of user code promise."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.counters import ROOM, CounterAnswer, CounterCall, CounterRow
from headrace.contract.limits import Holder
from headrace.core.counters import CounterInfo
from headrace.core.where import where
from headrace.errors import (
    InvalidKeyValues,
    InvalidOption,
    LimitReached,
    SlotsLost,
)
from headrace.model.keyvalues import KeyValues
from headrace.model.typed import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.limit_rules import override, rule
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads
from headrace.testing.contract.queue_clients import soon

LEASE = 10_000


def form(**pairs: Any) -> str:
    return KeyValues.of(pairs).form


MAC = form(os="mac")


def ask(desk: Desk, session: str, count: int = 1, name: str = MAC, **more: Any) -> CounterAnswer:
    call = CounterCall(
        key_values=name,
        session=session,
        count=count,
        lease_ms=LEASE,
        holder=f"me {session}",
        **more,
    )
    answer: CounterAnswer = desk.acquire_counter(call)
    return answer


def states(*answers: CounterAnswer) -> list[str]:
    return [answer.state for answer in answers]


class CounterContract(QueueContract):
    """Slots for what is no item, under the rules of items."""

    def test_no_more_than_fits(self, desk: Desk, clock: FakeClock) -> None:
        """All of it or nothing; what is given back has room again."""
        desk.create_limits([rule("three", 3, os=ANY)])
        granted = ask(desk, "a", 2)
        assert (granted.state, granted.until) == ("granted", clock.now + LEASE)
        full = ask(desk, "b", 2)
        assert full.state == "full"
        assert full.refusal is not None
        assert (full.refusal.rule, full.refusal.limit, full.refusal.used) == ("three", 3, 2)
        assert full.next_at == clock.now + LEASE
        assert states(ask(desk, "c"), ask(desk, "d"), ask(desk, "e", 3, form(os="linux"))) == [
            "granted",
            "full",
            "granted",
        ]
        assert [desk.give_back("a"), desk.give_back("a")] == [True, False]
        assert ask(desk, "b", 2).state == "granted"

    def test_without_rules_all_is_granted(self, desk: Desk) -> None:
        """And what is there counts when a rule comes."""
        assert ask(desk, "a", 5).state == "granted"
        desk.create_limits([rule("six", 6, os=ANY)])
        assert states(ask(desk, "b", 2), ask(desk, "c")) == ["full", "granted"]

    def test_overrides_and_rules_of_a_queue(self, desk: Desk) -> None:
        """Overrides stand in place of their rule; what is about one queue does not apply."""
        desk.create_limits(
            [
                replace(rule("none", 0, os=ANY), overrides=(override("mac", -1, os="mac"),)),
                replace(rule("queue", 0, os=ANY), queue="q"),
            ]
        )
        assert states(ask(desk, "a", 9), ask(desk, "b", 1, form(os="bsd"))) == ["granted", "full"]

    def test_asking_again_gets_the_same_answer(self, desk: Desk, clock: FakeClock) -> None:
        """A session that lost the answer may repeat its call."""
        desk.create_limits([rule("one", 1, os=ANY)])
        first = ask(desk, "a")
        clock.advance(1)
        assert ask(desk, "a").until == first.until
        desk.give_back("a")
        assert ask(desk, "b").state == "granted"

    def test_a_rate(self, desk: Desk, clock: FakeClock) -> None:
        """What was acquired counts for the period, given back or not."""
        desk.create_limits([replace(rule("rate", 2, os=ANY), period_ms=60_000)])
        assert states(ask(desk, "a"), ask(desk, "b"), ask(desk, "c")) == [
            "granted",
            "granted",
            "full",
        ]
        desk.give_back("a")
        full = ask(desk, "c")
        assert full.state == "full"
        assert full.refusal is not None
        assert full.refusal.room_at is not None
        clock.advance((full.refusal.room_at - clock.now) / 1000)
        assert ask(desk, "c").state == "granted"

    def test_a_rate_that_has_room_for_less(self, desk: Desk, clock: FakeClock) -> None:
        """It is said when there is room for all that is wanted, not for one."""
        desk.create_limits([replace(rule("rate", 3, os=ANY), period_ms=60_000)])
        ask(desk, "a")
        clock.advance(30)
        ask(desk, "b")
        for count, seconds in ((2, 30), (3, 60)):
            full = ask(desk, "c", count=count)
            assert full.state == "full"
            assert full.refusal is not None
            assert full.refusal.room_at is not None
            assert 0 <= full.refusal.room_at - clock.now - 1000 * seconds <= 601
        clock.advance(60.601)
        assert ask(desk, "c", count=3).state == "granted"

    def test_items_and_counters_share_the_room(self, q: Queue, desk: Desk) -> None:
        """Each counts for the other, and is woken by it."""
        desk.create_limits([rule("one", 1, os=ANY)])
        q.push(doc(1, key_values=MAC))
        ask(desk, "a")
        assert q.claim(1) == []
        waiter = desk.store.waiter("queue/q")
        room = desk.store.waiter(ROOM)
        try:
            desk.give_back("a")
            assert desk.is_woken(waiter)
            [item] = q.claim(1)
            assert ask(desk, "b", waits=True).state == "full"
            q.settle(item, "complete")
            assert desk.is_woken(room)
        finally:
            waiter.close()
            room.close()
        assert ask(desk, "b").state == "granted"

    def test_a_lease_that_ran_out(self, desk: Desk, q: Queue, clock: FakeClock) -> None:
        """It counts until somebody ends it: maintenance, or a claim that needs the room."""
        desk.create_limits([rule("one", 1, os=ANY)])
        ask(desk, "a")
        clock.advance(LEASE / 1000)
        full = ask(desk, "b")
        assert (full.state, full.next_at) == ("full", clock.now)
        assert desk.extend_counter("a", 1000) == clock.now + 1000
        assert desk.end_counters(10) == 0
        clock.advance(1)
        assert [desk.end_counters(10), desk.end_counters(10)] == [1, 0]
        with pytest.raises(SlotsLost):
            desk.extend_counter("a", 1000)
        assert desk.give_back("a") is False
        assert ask(desk, "b").state == "granted"
        q.push(doc(1, key_values=MAC))
        assert q.claim(1) == []
        clock.advance(LEASE / 1000)
        assert payloads(q.claim(1)) == [1]

    def test_a_number_that_is_set(self, desk: Desk, clock: FakeClock) -> None:
        """Whatever the rules say; it has no lease, and what is acquired counts besides."""
        desk.create_limits([rule("three", 3, os=ANY)])
        ask(desk, "a")
        assert desk.set_counter(MAC, 5) == 0
        assert ask(desk, "b").state == "full"
        assert desk.set_counter(MAC, 1) == 5
        clock.advance(3600)
        assert desk.end_counters(10) == 1
        assert states(ask(desk, "b", 2), ask(desk, "c")) == ["granted", "full"]
        assert [desk.set_counter(MAC, 0), desk.set_counter(MAC, 0)] == [1, 0]
        assert ask(desk, "c").state == "granted"

    def test_a_rule_that_changes(self, desk: Desk) -> None:
        """Counts what is there, exactly; what is given back later counts right."""
        ask(desk, "a", 2)
        desk.set_counter(MAC, 1)
        desk.create_limits([rule("four", 4, os=ANY)])
        assert ask(desk, "b", 2).state == "full"
        desk.change_limit("four", None, 5)
        assert ask(desk, "b", 2).state == "granted"
        desk.delete_limit("four")
        desk.give_back("a")
        desk.create_limits([rule("three", 3, os=ANY)])
        assert ask(desk, "c").state == "full"
        [usage] = desk.limit_usage("three", 5)
        assert usage.used == 3
        assert [holder.worker for holder in usage.holders] == [None, "me b"]
        assert {type(holder) for holder in usage.holders} == {Holder}

    def test_counters_are_listed(self, desk: Desk) -> None:
        """By key-values; who set a number holds nothing."""
        ask(desk, "a", 2)
        ask(desk, "b", 1)
        desk.set_counter(MAC, 4)
        desk.set_counter(form(n=1), 1)
        rows = desk.counters(None, "", 9)
        assert rows == [
            CounterRow(key_values=form(n=1), count=1, holders=0),
            CounterRow(key_values=MAC, count=7, holders=2),
        ]
        assert desk.counters(where(os="mac").form, "", 9) == rows[1:]
        assert desk.counters(None, form(n=1), 1) == rows[1:]


class CounterClientContract(Contract):
    """Slots as users meet them."""

    @pytest.fixture(autouse=True)
    def limit(self, hr: Any) -> None:
        hr.create_limit({"api": ANY}, 2, name="two")

    def test_slots_in_a_block(self, hr: Any, connect: Connect) -> None:
        """Held inside, given back after it."""
        other = connect()
        with hr.acquire({"api": "maps"}, 2) as slots:
            assert (slots.held, slots.lost, slots.n) == (True, False, 2)
            with pytest.raises(LimitReached) as caught:
                other.acquire({"api": "maps"})
            assert caught.value.retryable
            assert (caught.value.usage.rule, caught.value.usage.used) == ("two", 2)
            assert "the limit 'two' lets 2 of api=maps through" in str(caught.value)
            maps = CounterInfo(key_values=KeyValues.of({"api": "maps"}), count=2, holders=1)
            assert other.counters() == [maps]
        assert not slots.held
        assert hr.counters() == []

    def test_slots_by_hand(self, hr: Any, clock: FakeClock) -> None:
        """Extended and given back; the dead give theirs back to who needs them."""
        slots = hr.acquire({"api": "maps"}, lease="10s", heartbeat=False)
        clock.advance(9)
        slots.extend()
        clock.advance(9)
        with pytest.raises(LimitReached):
            hr.acquire({"api": "maps"}, 2, heartbeat=False)
        slots.extend("1s")
        clock.advance(1)
        again = hr.acquire({"api": "maps"}, 2, heartbeat=False)
        for act in (slots.extend, slots.give_back):
            with pytest.raises(SlotsLost):
                act()
        assert slots.lost
        slots.give_back()
        again.give_back()
        again.give_back()
        assert hr.maintain(force=True).ended_counters == 0

    def test_waiting_for_room(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """It comes when something is given back, or a lease ends, or the limit is raised."""
        other = connect()
        held = other.acquire({"api": "maps"}, 2, heartbeat=False)
        with soon(held.give_back):
            mine = hr.acquire({"api": "maps"}, 2, lease=5, wait=20, heartbeat=False)
        assert mine.held
        with soon(lambda: clock.advance(5)):
            assert other.acquire({"api": "maps"}, 2, wait=20, heartbeat=False).held
        with soon(lambda: connect().change_limit("two", 3)):
            assert hr.acquire({"api": "maps"}, wait=20, heartbeat=False).held
        with pytest.raises(LimitReached):
            hr.acquire({"api": "maps"}, wait=0.01)

    def test_a_number_is_set(self, hr: Any) -> None:
        assert hr.set_counter({"api": "maps"}, 2) == 0
        with pytest.raises(LimitReached):
            hr.acquire({"api": "maps"})
        assert hr.set_counter({"api": "maps"}, 0) == 2
        hr.acquire({"api": "maps"}).give_back()

    @pytest.mark.parametrize(
        "options", [{"n": 0}, {"n": 1.5}, {"lease": 0}, {"wait": -1}, {"wait": "1"}]
    )
    def test_wrong_options_are_refused(self, hr: Any, options: Any) -> None:
        """And nothing is counted."""
        with pytest.raises(InvalidOption) as caught:
            hr.acquire({"api": "maps"}, **options)
        assert caught.value.option in options
        with pytest.raises(InvalidOption):
            hr.set_counter({"api": "maps"}, -1)
        assert hr.counters() == []

    @pytest.mark.parametrize("given", [{}, {"_api": 1}, {"api": None}, {"api": ANY}, "maps"])
    def test_wrong_key_values_are_refused(self, hr: Any, given: Any) -> None:
        """The path names the field."""
        for act in (lambda: hr.acquire(given), lambda: hr.set_counter(given, 1)):
            with pytest.raises(InvalidKeyValues) as caught:
                act()
            assert caught.value.path.startswith("key_values")
