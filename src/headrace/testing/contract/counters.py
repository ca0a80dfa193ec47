"""The guarantees of counters that user code acquires."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.counters import (
    FREE_SLOTS,
    CounterAddition,
    CounterAnswer,
    CounterCall,
    CounterRow,
)
from headrace.contract.limits import Holder
from headrace.core.counters import CounterInfo
from headrace.core.where import where
from headrace.errors import (
    InvalidKeyValues,
    InvalidOption,
    LimitReached,
    SlotsLost,
)
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.limit_rules import override, rule
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    payloads,
    slow_answers,
)
from headrace.testing.contract.queue_clients import soon

LEASE = 10_000


def form(**pairs: Any) -> str:
    return KeyValues.of(pairs).form


MAC = form(os="mac")


def ask(ops: StoreOps, session: str, count: int = 1, name: str = MAC, **more: Any) -> CounterAnswer:
    call = CounterCall(
        key_values=name,
        session=session,
        count=count,
        lease_ms=LEASE,
        holder=f"me {session}",
        **more,
    )
    answer: CounterAnswer = ops.counters.acquire(call)
    return answer


def states(*answers: CounterAnswer) -> list[str]:
    return [answer.state for answer in answers]


class CounterContract(QueueContract):
    """Slots that user code acquires, under the same rules as items."""

    needed_parts = frozenset({"counters", "limits"})

    def test_acquiring_grants_all_slots_or_none(self, ops: StoreOps, clock: FakeClock) -> None:
        """Released slots are free again."""
        ops.limits.create([rule("three", 3, os=ANY)])
        granted = ask(ops, "a", 2)
        assert (granted.state, granted.until) == ("granted", clock.now + LEASE)
        full = ask(ops, "b", 2)
        assert full.state == "full"
        assert full.refusal is not None
        assert (full.refusal.rule, full.refusal.limit, full.refusal.used) == ("three", 3, 2)
        assert full.next_at == clock.now + LEASE
        assert states(ask(ops, "c"), ask(ops, "d"), ask(ops, "e", 3, form(os="linux"))) == [
            "granted",
            "full",
            "granted",
        ]
        assert [ops.counters.release("a"), ops.counters.release("a")] == [True, False]
        assert ask(ops, "b", 2).state == "granted"

    def test_without_rules_every_request_is_granted(self, ops: StoreOps) -> None:
        """A rule that is created later counts the slots that are already held."""
        assert ask(ops, "a", 5).state == "granted"
        ops.limits.create([rule("six", 6, os=ANY)])
        assert states(ask(ops, "b", 2), ask(ops, "c")) == ["full", "granted"]

    def test_overrides_and_rules_of_a_queue(self, ops: StoreOps) -> None:
        """An override replaces its rule. A rule of one queue does not apply to counters."""
        ops.limits.create(
            [
                replace(rule("none", 0, os=ANY), overrides=(override("mac", -1, os="mac"),)),
                replace(rule("queue", 0, os=ANY), queue="q"),
            ]
        )
        assert states(ask(ops, "a", 9), ask(ops, "b", 1, form(os="bsd"))) == ["granted", "full"]

    def test_a_repeated_request_gets_the_same_answer(self, ops: StoreOps, clock: FakeClock) -> None:
        """A session whose answer was lost may repeat the call."""
        ops.limits.create([rule("one", 1, os=ANY)])
        first = ask(ops, "a")
        clock.advance(1)
        assert ask(ops, "a").until == first.until
        ops.counters.release("a")
        assert ask(ops, "b").state == "granted"

    def test_a_rate(self, ops: StoreOps, clock: FakeClock) -> None:
        """Acquired slots count for the whole period, even after they were released."""
        ops.limits.create([replace(rule("rate", 2, os=ANY), period_ms=60_000)])
        assert states(ask(ops, "a"), ask(ops, "b"), ask(ops, "c")) == [
            "granted",
            "granted",
            "full",
        ]
        ops.counters.release("a")
        full = ask(ops, "c")
        assert full.state == "full"
        assert full.refusal is not None
        assert full.refusal.free_at is not None
        clock.advance((full.refusal.free_at - clock.now) / 1000)
        assert ask(ops, "c").state == "granted"

    def test_a_rate_with_too_few_free_slots(self, ops: StoreOps, clock: FakeClock) -> None:
        """The refusal says when all requested slots will be free, not just one of them."""
        ops.limits.create([replace(rule("rate", 3, os=ANY), period_ms=60_000)])
        ask(ops, "a")
        clock.advance(30)
        ask(ops, "b")
        for count, seconds in ((2, 30), (3, 60)):
            full = ask(ops, "c", count=count)
            assert full.state == "full"
            assert full.refusal is not None
            assert full.refusal.free_at is not None
            assert 0 <= full.refusal.free_at - clock.now - 1000 * seconds <= 601
        clock.advance(60.601)
        assert ask(ops, "c", count=3).state == "granted"

    def test_items_and_counters_share_a_limit(self, q: Queue, ops: StoreOps) -> None:
        """Items and counters use the same slots, and a release of either wakes waiters for the
        other."""
        ops.limits.create([rule("one", 1, os=ANY)])
        q.push(doc(1, key_values=MAC))
        ask(ops, "a")
        assert q.claim(1) == []
        waiter = ops.store.waiter("queue/q")
        slots = ops.store.waiter(FREE_SLOTS)
        try:
            ops.counters.release("a")
            assert ops.is_woken(waiter)
            [item] = q.claim(1)
            assert ask(ops, "b", waits=True).state == "full"
            q.settle(item, "complete")
            assert ops.is_woken(slots)
        finally:
            waiter.close()
            slots.close()
        assert ask(ops, "b").state == "granted"

    def test_an_expired_lease_counts_until_it_is_ended(
        self, ops: StoreOps, q: Queue, clock: FakeClock
    ) -> None:
        """Maintenance ends it, or a claim that needs its slots."""
        ops.limits.create([rule("one", 1, os=ANY)])
        ask(ops, "a")
        clock.advance(LEASE / 1000)
        full = ask(ops, "b")
        assert (full.state, full.next_at) == ("full", clock.now)
        assert ops.counters.extend("a", 1000) == clock.now + 1000
        assert ops.counters.end(10) == 0
        clock.advance(1)
        assert [ops.counters.end(10), ops.counters.end(10)] == [1, 0]
        with pytest.raises(SlotsLost):
            ops.counters.extend("a", 1000)
        assert ops.counters.release("a") is False
        assert ask(ops, "b").state == "granted"
        q.push(doc(1, key_values=MAC))
        assert q.claim(1) == []
        clock.advance(LEASE / 1000)
        assert payloads(q.claim(1)) == [1]

    def test_a_counter_can_be_set(self, ops: StoreOps, clock: FakeClock) -> None:
        """No rule limits the number, and it has no lease. Acquired slots are added to it."""
        ops.limits.create([rule("three", 3, os=ANY)])
        ask(ops, "a")
        assert ops.counters.set(MAC, 5) == 0
        assert ask(ops, "b").state == "full"
        assert ops.counters.set(MAC, 1) == 5
        clock.advance(3600)
        assert ops.counters.end(10) == 1
        assert states(ask(ops, "b", 2), ask(ops, "c")) == ["granted", "full"]
        assert [ops.counters.set(MAC, 0), ops.counters.set(MAC, 0)] == [1, 0]
        assert ask(ops, "c").state == "granted"

    def test_a_counter_is_added_to_if_it_fits(self, ops: StoreOps, q: Queue) -> None:
        """All of it or nothing. What is added counts like acquired slots, and has no lease."""
        assert ops.counters.add(MAC, 2) == CounterAddition(count=2)
        ops.limits.create([rule("five", 5, os=ANY)])
        ask(ops, "a")
        refused = ops.counters.add(MAC, 3)
        assert refused.count == 2
        assert (refused.refusal.rule, refused.refusal.used) == ("five", 3)
        assert ops.counters.add(MAC, 2) == CounterAddition(count=4)
        assert ask(ops, "b").state == "full"
        assert ops.counters.list(None, "", 9) == [CounterRow(key_values=MAC, count=5, holders=1)]
        assert ops.counters.add(form(os="mac", n=1), 1).refusal is not None
        assert ops.counters.add(form(os="bsd"), 5).refusal is None
        assert ops.counters.end(10) == 0
        q.push(doc(1, key_values=MAC))
        assert q.claim(1) == []
        assert ops.counters.set(MAC, 0) == 4
        assert payloads(q.claim(1)) == [1]
        mine = CounterRow(key_values=MAC, count=1, holders=1)
        assert ops.counters.list(where(os="mac").form, "", 9) == [mine]

    def test_subtracting_ends_at_zero(self, ops: StoreOps, q: Queue) -> None:
        """No limit refuses it. It wakes those who wait, and leaves what others acquired."""
        ops.limits.create([rule("two", 2, os=ANY)])
        assert ops.counters.add(MAC, -1) == CounterAddition(count=0)
        ops.counters.add(MAC, 2)
        q.push(doc(1, key_values=MAC))
        assert q.claim(1) == []
        waiter = ops.store.waiter("queue/q")
        try:
            assert ops.counters.add(MAC, -1) == CounterAddition(count=1)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()
        ask(ops, "a")
        ops.limits.change("two", None, 0)
        assert ops.counters.add(MAC, -9) == CounterAddition(count=0)
        assert ops.counters.list(None, "", 9) == [CounterRow(key_values=MAC, count=1, holders=1)]
        ops.limits.change("two", None, 2)
        assert states(ask(ops, "b"), ask(ops, "c")) == ["granted", "full"]

    def test_an_addition_counts_in_a_rate(self, ops: StoreOps, clock: FakeClock) -> None:
        """For the whole period, even if it was subtracted again."""
        ops.limits.create([replace(rule("rate", 2, os=ANY), period_ms=60_000)])
        assert ops.counters.add(MAC, 2).refusal is None
        ops.counters.add(MAC, -2)
        refused = ops.counters.add(MAC, 1).refusal
        assert refused.free_at is not None
        clock.advance((refused.free_at - clock.now) / 1000)
        assert ops.counters.add(MAC, 1) == CounterAddition(count=1)

    def test_a_changed_rule_counts_exactly(self, ops: StoreOps) -> None:
        """It counts the slots that are held at that moment. Later releases are subtracted
        correctly."""
        ask(ops, "a", 2)
        ops.counters.set(MAC, 1)
        ops.limits.create([rule("four", 4, os=ANY)])
        assert ask(ops, "b", 2).state == "full"
        ops.limits.change("four", None, 5)
        assert ask(ops, "b", 2).state == "granted"
        ops.limits.delete("four")
        ops.counters.release("a")
        ops.limits.create([rule("three", 3, os=ANY)])
        assert ask(ops, "c").state == "full"
        [usage] = ops.limits.usage("three", 5)
        assert usage.used == 3
        assert [holder.worker for holder in usage.holders] == [None, "me b"]
        assert {type(holder) for holder in usage.holders} == {Holder}

    def test_counters_are_listed(self, ops: StoreOps) -> None:
        """Counters are listed by key-values. A number that was set has no holder."""
        ask(ops, "a", 2)
        ask(ops, "b", 1)
        ops.counters.set(MAC, 4)
        ops.counters.set(form(n=1), 1)
        rows = ops.counters.list(None, "", 9)
        assert rows == [
            CounterRow(key_values=form(n=1), count=1, holders=0),
            CounterRow(key_values=MAC, count=7, holders=2),
        ]
        assert ops.counters.list(where(os="mac").form, "", 9) == rows[1:]
        assert ops.counters.list(None, form(n=1), 1) == rows[1:]


class CounterClientContract(Contract):
    """Slots through the public client."""

    needed_parts = frozenset({"counters", "limits"})

    @pytest.fixture(autouse=True)
    def limit(self, hr: Any) -> None:
        hr.limits.create({"api": ANY}, 2, name="two")

    def test_slots_in_a_block(self, hr: Any, connect: Connect) -> None:
        """A with block holds its slots and releases them at its end."""
        other = connect()
        with hr.slots({"api": "maps"}, 2) as slots:
            assert (slots.held, slots.lost, slots.n) == (True, False, 2)
            with pytest.raises(LimitReached) as caught:
                other.slots({"api": "maps"}).acquire()
            assert caught.value.retryable
            assert (caught.value.usage.rule, caught.value.usage.used) == ("two", 2)
            assert "the limit 'two' allows 2 of api=maps" in str(caught.value)
            maps = CounterInfo(key_values=KeyValues.of({"api": "maps"}), count=2, holders=1)
            assert other.counters.list() == [maps]
        assert not slots.held
        assert hr.counters.list() == []

    @needs("admin")
    def test_slots_by_hand(self, hr: Any, clock: FakeClock) -> None:
        """Slots can be extended and released. Slots with an expired lease go to the next
        request."""
        slots = hr.slots({"api": "maps"}, lease="10s", heartbeat=False).acquire()
        clock.advance(9)
        slots.extend()
        clock.advance(9)
        with pytest.raises(LimitReached):
            hr.slots({"api": "maps"}, 2, heartbeat=False).acquire()
        slots.extend("1s")
        clock.advance(1)
        again = hr.slots({"api": "maps"}, 2, heartbeat=False).acquire()
        for act in (slots.extend, slots.release):
            with pytest.raises(SlotsLost):
                act()
        assert slots.lost
        slots.release()
        again.release()
        again.release()
        assert hr.admin.maintain(force=True).ended_counters == 0

    def test_a_lease_is_counted_from_before_the_request(
        self, hr: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A slow answer must not make a lease seem longer than the one the store granted."""
        clock = slow_answers(hr, monkeypatch, "slots_view", "_sync.counters", "_async.counters")
        slots = hr.slots({"api": "maps"}, lease="10s", heartbeat=False).acquire()
        assert clock[0] > 100
        clock[0] = 109.9
        assert not slots.lost
        clock[0] = 110.0
        assert slots.lost
        clock[0] = 105.0
        slots.extend()
        clock[0] = 114.9
        assert slots.held
        clock[0] = 115.0
        assert slots.lost

    def test_waiting_for_free_slots(self, hr: Any, connect: Connect, clock: FakeClock) -> None:
        """A waiting request succeeds when slots are released, when a lease ends or when the limit
        is raised."""
        other = connect()
        held = other.slots({"api": "maps"}, 2, heartbeat=False).acquire()
        with soon(held.release):
            mine = hr.slots({"api": "maps"}, 2, lease=5, wait=20, heartbeat=False).acquire()
        assert mine.held
        with soon(lambda: clock.advance(5)):
            assert other.slots({"api": "maps"}, 2, wait=20, heartbeat=False).acquire().held
        with soon(lambda: connect().limits.update("two", 3)):
            assert hr.slots({"api": "maps"}, wait=20, heartbeat=False).acquire().held
        with pytest.raises(LimitReached):
            hr.slots({"api": "maps"}, wait=0.01).acquire()

    def test_a_client_sets_a_counter(self, hr: Any) -> None:
        assert hr.counters.set({"api": "maps"}, 2) == 0
        with pytest.raises(LimitReached):
            hr.slots({"api": "maps"}).acquire()
        assert hr.counters.set({"api": "maps"}, 0) == 2
        hr.slots({"api": "maps"}).acquire().release()

    def test_a_client_adds_to_a_counter(self, hr: Any) -> None:
        assert [hr.counters.add({"api": "maps"}, 1), hr.counters.add({"api": "maps"}, 1)] == [1, 2]
        with pytest.raises(LimitReached) as caught:
            hr.counters.add({"api": "maps"}, 1)
        assert (caught.value.usage.rule, caught.value.usage.used) == ("two", 2)
        assert "1 more of api=maps" in str(caught.value)
        assert [hr.counters.add({"api": "maps"}, -1), hr.counters.add({"api": "maps"}, -5)] == [
            1,
            0,
        ]
        assert hr.counters.list() == []

    @pytest.mark.parametrize(
        "options", [{"n": 0}, {"n": 1.5}, {"lease": 0}, {"wait": -1}, {"wait": "1"}]
    )
    def test_wrong_options_are_refused(self, hr: Any, options: Any) -> None:
        """Nothing is counted."""
        with pytest.raises(InvalidOption) as caught:
            hr.slots({"api": "maps"}, **options).acquire()
        assert caught.value.option in options
        with pytest.raises(InvalidOption):
            hr.counters.set({"api": "maps"}, -1)
        for count in (1.5, True, 2**31):
            with pytest.raises(InvalidOption):
                hr.counters.add({"api": "maps"}, count)
        assert hr.counters.list() == []

    @pytest.mark.parametrize("given", [{}, {"_api": 1}, {"api": None}, {"api": ANY}, "maps"])
    def test_wrong_key_values_are_refused(self, hr: Any, given: Any) -> None:
        """The error's path names the field."""
        for act in (lambda: hr.slots(given).acquire(), lambda: hr.counters.set(given, 1)):
            with pytest.raises(InvalidKeyValues) as caught:
                act()
            assert caught.value.path.startswith("key_values")
