"""Notifications to waiters in other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.contract.counters import FREE_SLOTS, CounterCall
from headrace.contract.items import ItemFilter
from headrace.drivers import notifier
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY
from headrace.model.queues.settings import PRESENCE_WORD, capacity_word
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import needs
from headrace.testing.contract.limit_rules import rule
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc
from headrace.testing.contract.queue_workers import client, worker

MAC = KeyValues.of({"os": "mac"}).form
A_MINUTE = 60.0
ITEMS, SPACE = "queue/q", capacity_word("q")


class NotificationContract(QueueContract):
    """Waiters need not poll: every change that may let them continue is notified.

    ``queue/<name>`` wakes waiters for an item, ``capacity/<name>`` waiters for capacity to push,
    ``FREE_SLOTS`` waiters for a free slot of a counter. A store that several processes can open also
    notifies the waiters of other processes. Here all waiters count as such.
    """

    @pytest.fixture(autouse=True)
    def far_away(self, hr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Switch off polling, and notifications within the process."""
        for wait in ("POLL", "SURE_POLL"):
            monkeypatch.setattr(notifier, wait, A_MINUTE)
        if hr.capabilities.survives_restart:
            monkeypatch.setattr(notifier.Notifier, "notify", lambda self, topics: None)

    def test_watchers_of_workers_are_notified(
        self, ops: StoreOps, notifies: Callable[..., bool]
    ) -> None:
        """When workers join, leave or change their status. A mere heartbeat notifies nobody."""
        assert notifies(lambda: ops.queues.heartbeat(client(), [worker()]), PRESENCE_WORD)
        assert not notifies(lambda: ops.queues.heartbeat(client(), [worker(done=5)]), PRESENCE_WORD)
        assert notifies(
            lambda: ops.queues.heartbeat(client(), [worker(current="stopped")]), PRESENCE_WORD
        )
        assert notifies(lambda: ops.queues.heartbeat(client(), []), PRESENCE_WORD)
        assert notifies(lambda: ops.queues.unregister("c1"), PRESENCE_WORD)

    @pytest.fixture
    def notifies(self, ops: StoreOps) -> Callable[..., bool]:
        """Whether an action notifies the waiters for all given topics."""

        def notifies(act: Callable[[], object], *topics: str) -> bool:
            waiters = [ops.store.waiter(topic) for topic in topics]
            try:
                act()
                return all(ops.is_woken(waiter) for waiter in waiters)
            finally:
                for waiter in waiters:
                    waiter.close()

        return notifies

    @needs("counters", "limits")
    def test_free_slots_are_notified(self, ops: StoreOps, q: Queue, notifies: Any) -> None:
        """Freed by an outcome, by user code, or by a rule that is changed or deleted."""
        ops.limits.create([rule("one", 1, os=ANY)])
        q.push(doc(1, key_values=MAC), doc(2, key_values=MAC), doc(3, key_values=MAC))
        slots = CounterCall(key_values=MAC, session="s", count=1, lease_ms=9000, waits=True)

        def all_wait() -> None:
            assert q.claim() == []
            assert ops.counters.acquire(replace(slots, session="t")).state == "full"

        item = q.claim_one()
        all_wait()
        assert notifies(lambda: q.settle(item, "complete"), ITEMS, FREE_SLOTS)
        assert ops.counters.acquire(slots).state == "granted"
        all_wait()
        assert notifies(lambda: ops.counters.release("s"), ITEMS, FREE_SLOTS)
        q.claim_one()
        all_wait()
        assert notifies(lambda: ops.limits.change("one", None, 2), ITEMS, FREE_SLOTS)
        q.claim_one()
        all_wait()
        assert notifies(lambda: ops.limits.delete("one"), ITEMS, FREE_SLOTS)

    @needs("channels")
    def test_claimable_items_are_notified(
        self, ops: StoreOps, q: Queue, clock: FakeClock, notifies: Any
    ) -> None:
        """After an outcome, an ended lease, a redrive, or the end of a delay or a pause."""
        q.create(max_attempts=3)
        q.push(doc(1, key_values=MAC))
        item = q.claim_one()
        assert notifies(lambda: q.settle(item, "release"), ITEMS)
        item = q.claim_one()
        assert notifies(lambda: q.settle(item, "reschedule", delay_ms=0), ITEMS)
        item = q.claim_one()
        assert notifies(lambda: q.settle(item, "reject", delay_ms=0), ITEMS)
        q.claim_one(lease_ms=1000)
        clock.advance(1)
        assert notifies(lambda: ops.queues.expire_leases("q", 9), ITEMS)
        q.end("kill")
        assert notifies(lambda: ops.queues.redrive("q", ItemFilter(), None, 9), ITEMS)
        ops.channels.delay("q", MAC, None, 9000)
        assert q.claim() == []
        assert notifies(lambda: ops.channels.delay("q", MAC, None, None), ITEMS)
        ops.queues.pause("q", None)
        assert notifies(lambda: ops.queues.resume("q"), ITEMS)
        assert notifies(lambda: q.upsert(doc(2, subject="s")), ITEMS)

    def test_the_end_of_a_queue_is_notified(self, q: Queue, notifies: Any) -> None:
        """A client that waits for its items learns that there are none to wait for."""
        for keep_data in (True, False):
            q.create()
            assert notifies(lambda keep=keep_data: q.ops.queues.drop("q", keep), ITEMS)

    def test_free_capacity_is_notified(self, ops: StoreOps, q: Queue, notifies: Any) -> None:
        """After an item has ended, or the capacity was raised."""
        q.create(max_items=1)
        q.push(1)
        item = q.claim_one()
        assert notifies(lambda: q.settle(item, "complete"), SPACE)
        assert notifies(lambda: q.update(max_items=2), SPACE)

    @needs("transactions")
    def test_a_transaction_notifies_when_it_commits(
        self, hr: Any, ops: StoreOps, q: Queue, notifies: Any
    ) -> None:
        q.push(1)
        [item] = hr.queue("q").claim()

        def hand_back() -> None:
            with hr.transaction() as tx:
                tx.settle("q", [item.outcome("release")])

        assert notifies(hand_back, ITEMS)
