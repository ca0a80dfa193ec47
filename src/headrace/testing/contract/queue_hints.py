"""What those are told who wait in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.counters import ROOM, CounterCall
from headrace.contract.items import Filter
from headrace.model.keyvalues import KeyValues
from headrace.model.queues import room_word
from headrace.model.typed import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.limit_rules import rule
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc
from headrace.waking import bell

MAC = KeyValues.of({"os": "mac"}).form
A_MINUTE = 60.0
ITEMS, SPACE = "queue/q", room_word("q")


class HintContract(QueueContract):
    """Nobody has to look from time to time: all that may let somebody go on is announced.

    ``queue/<name>`` to those who wait for an item, ``room/<name>`` to those who wait for room to
    push, ``ROOM`` to those who wait for room in a total. A store that other processes can open
    tells them, too. Here all waiters are treated as if they were in another process.
    """

    @pytest.fixture(autouse=True)
    def far_away(self, hr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who waits does not look by itself, nor hears what this process says to itself."""
        for wait in ("POLL", "SURE_POLL"):
            monkeypatch.setattr(bell, wait, A_MINUTE)
        if hr.capabilities.survives_restart:
            monkeypatch.setattr(bell.Bell, "ring", lambda self, topics: None)

    @pytest.fixture
    def told(self, desk: Desk) -> Callable[..., bool]:
        """Whether all who wait for some words are told when something is done."""

        def told(act: Callable[[], object], *words: str) -> bool:
            waiters = [desk.store.waiter(word) for word in words]
            try:
                act()
                return all(desk.is_woken(waiter) for waiter in waiters)
            finally:
                for waiter in waiters:
                    waiter.close()

        return told

    def test_room_in_a_total(self, desk: Desk, q: Queue, told: Any) -> None:
        """By an outcome, by user code, by a rule that is changed or removed."""
        desk.create_limits([rule("one", 1, os=ANY)])
        q.push(doc(1, key_values=MAC), doc(2, key_values=MAC), doc(3, key_values=MAC))
        slots = CounterCall(key_values=MAC, session="s", count=1, lease_ms=9000, waits=True)

        def all_wait() -> None:
            assert q.claim() == []
            assert desk.acquire_counter(replace(slots, session="t")).state == "full"

        item = q.claim_one()
        all_wait()
        assert told(lambda: q.settle(item, "complete"), ITEMS, ROOM)
        assert desk.acquire_counter(slots).state == "granted"
        all_wait()
        assert told(lambda: desk.give_back("s"), ITEMS, ROOM)
        q.claim_one()
        all_wait()
        assert told(lambda: desk.change_limit("one", None, 2), ITEMS, ROOM)
        q.claim_one()
        all_wait()
        assert told(lambda: desk.delete_limit("one"), ITEMS, ROOM)

    def test_items_that_come_again(self, desk: Desk, q: Queue, clock: FakeClock, told: Any) -> None:
        """By an outcome, a lease that ended, by hand, by the end of a hold or a pause."""
        q.create(dead_threshold=3)
        q.push(doc(1, key_values=MAC))
        item = q.claim_one()
        assert told(lambda: q.settle(item, "release"), ITEMS)
        item = q.claim_one()
        assert told(lambda: q.settle(item, "reschedule", delay_ms=0), ITEMS)
        item = q.claim_one()
        assert told(lambda: q.settle(item, "reject", delay_ms=0), ITEMS)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        assert told(lambda: desk.expire_leases("q", 9), ITEMS)
        q.end("kill")
        assert told(lambda: desk.redrive("q", Filter(), None, 9), ITEMS)
        desk.hold_channel("q", MAC, None, 9000)
        assert q.claim() == []
        assert told(lambda: desk.hold_channel("q", MAC, None, None), ITEMS)
        desk.pause_queue("q", None)
        assert told(lambda: desk.resume_queue("q"), ITEMS)
        assert told(lambda: q.upsert(doc(2, subject="s")), ITEMS)

    def test_room_to_push(self, desk: Desk, q: Queue, told: Any) -> None:
        """By an item that ends, by a larger number."""
        q.create(max_items=1)
        q.push(1)
        item = q.claim_one()
        assert told(lambda: q.settle(item, "complete"), SPACE)
        assert told(lambda: q.update(max_items=2), SPACE)

    def test_in_a_transaction(self, hr: Any, desk: Desk, q: Queue, told: Any) -> None:
        """When it is committed."""
        q.push(1)
        [item] = hr.queue("q").claim()

        def hand_back() -> None:
            with hr.transaction() as tx:
                tx.settle("q", [item.outcome("release")])

        assert told(hand_back, ITEMS)
