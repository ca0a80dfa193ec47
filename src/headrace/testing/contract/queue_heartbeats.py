"""Heartbeats of items that user code claims."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.contract.items import Outcome
from headrace.core.documents import Doc
from headrace.errors import InvalidOption, ItemLost
from headrace.model.times import moment_of
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_base import StoreOps

PATIENCE = 20.0
LEASE = 0.15


class HeartbeatContract(Contract):
    """``claim(heartbeat=True)``. The lease follows the clock of the store. Heartbeats follow the
    clock of the process, one per third of the lease."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("q", keep="all", exist_ok=True)

    @pytest.fixture
    def until(self, hr: Any) -> Callable[..., None]:
        """Wait for a condition while the loop of an async client continues."""

        def wait(condition: Callable[[], object]) -> None:
            give_up = time.monotonic() + PATIENCE
            pump = getattr(hr, "pump", lambda: time.sleep(0.002))
            while not condition():
                assert time.monotonic() < give_up, "it did not come"
                pump()

        return wait

    def _is_kept(self, q: Any, item: Any, clock: FakeClock, until: Any) -> None:
        """Let the lease expire and wait for the heartbeat that renews it."""
        clock.advance(1)
        until(lambda: q.item(item.id).deadline > moment_of(clock.now))

    def test_heartbeats_keep_items(
        self, q: Any, connect: Connect, clock: FakeClock, until: Any
    ) -> None:
        """All items of a claim are kept beyond their lease, until each is settled."""
        q.push_many([Doc(1), Doc(2, lease=0.4), Doc(3)])
        items = q.claim(3, lease=LEASE, heartbeat=True)
        for _ in range(2):
            for item in items:
                self._is_kept(q, item, clock, until)
        assert connect().queue("q").claim(3) == []
        assert [item.lost for item in items] == [False] * 3
        items[0].complete()
        q.settle([items[1].outcome("complete")])
        self._is_kept(q, items[2], clock, until)
        q.complete(items[2:])
        assert q.stats().completed == 3
        assert [item.lost for item in items] == [False] * 3

    def test_without_heartbeat_a_lease_ends(
        self, q: Any, connect: Connect, clock: FakeClock
    ) -> None:
        q.push(1)
        [item] = q.claim(lease=LEASE)
        clock.advance(1)
        assert len(connect().queue("q").claim()) == 1
        assert not item.lost
        with pytest.raises(ItemLost):
            item.complete()

    def test_a_lost_item_is_reported(
        self, hr: Any, q: Any, until: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Once, for that item. The other items of the claim are kept, and can be settled."""
        q.push_many([1, 2])
        lost: list[Any] = []
        stolen, other = q.claim(2, lease=LEASE, heartbeat=True, on_lost=lost.append)
        steal(hr, stolen)
        until(lambda: lost)
        assert [item.id for item in lost] == [stolen.id]
        assert (stolen.lost, other.lost) == (True, False)
        assert f"item {stolen.id} of queue 'q' was lost" in caplog.text
        with pytest.raises(ItemLost):
            stolen.complete()
        other.complete()

    @needs("transactions")
    def test_heartbeats_respect_items_settled_in_a_transaction(
        self, hr: Any, q: Any, clock: FakeClock, until: Any
    ) -> None:
        """They neither wait for the transaction nor report a loss. They continue if it is rolled
        back."""
        q.push_many([1, 2, 3])
        lost: list[Any] = []
        first, second, other = q.claim(3, lease=LEASE, heartbeat=True, on_lost=lost.append)
        with hr.transaction() as tx:
            tx.settle("q", [first.outcome("complete")])
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            tx.settle("q", [second.outcome("complete")])
            raise ZeroDivisionError
        hr.settle("q", [other.outcome("complete")])
        self._is_kept(q, second, clock, until)
        assert lost == []
        assert [item.lost for item in (first, second, other)] == [False] * 3
        second.complete()
        assert q.stats().completed == 3

    def test_a_callback_that_raises_does_not_stop_heartbeats(
        self, hr: Any, q: Any, clock: FakeClock, until: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        q.push_many([1, 2])

        def on_lost(item: Any) -> None:
            raise SystemExit(3)

        stolen, other = q.claim(2, lease=LEASE, heartbeat=True, on_lost=on_lost)
        steal(hr, stolen)
        until(lambda: "on_lost raised SystemExit: 3" in caplog.text)
        self._is_kept(q, other, clock, until)

    def test_an_item_without_references_is_not_kept(
        self, q: Any, connect: Connect, clock: FakeClock, until: Any
    ) -> None:
        """It returns when its lease ends, as if its process had died."""
        before = set(threading.enumerate())
        q.push(1)
        q.claim(lease=LEASE, heartbeat=True)
        gc.collect()
        until(lambda: "headrace-leases" not in started_since(before))
        clock.advance(1)
        assert len(connect().queue("q").claim()) == 1

    def test_heartbeats_end_with_the_client(self, connect: Connect, clock: FakeClock) -> None:
        mine, other = connect(), connect()
        before = set(threading.enumerate())
        mine.queue("q").push(1)
        items = mine.queue("q").claim(lease=LEASE, heartbeat=True)
        mine.close()
        assert "headrace-leases" not in started_since(before)
        clock.advance(1)
        assert len(other.queue("q").claim()) == 1
        assert items

    def test_heartbeats_keep_items_of_a_waiting_claim(
        self, q: Any, connect: Connect, clock: FakeClock, until: Any
    ) -> None:
        q.push(1, delay=5)
        clock.advance(5)
        [item] = q.claim(lease=LEASE, wait=10, heartbeat=True)
        self._is_kept(q, item, clock, until)
        item.release()
        assert len(connect().queue("q").claim()) == 1

    @pytest.mark.parametrize(
        "wrong", [{"heartbeat": 1}, {"heartbeat": True, "on_lost": 5}, {"on_lost": print}], ids=repr
    )
    def test_bad_input(self, q: Any, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidOption):
            q.claim(**wrong)


def started_since(before: set[threading.Thread]) -> set[str]:
    """The names of the threads that were started since. Earlier tests may have left some."""
    return {each.name for each in threading.enumerate() if each not in before}


def steal(hr: Any, item: Any) -> None:
    """Settle an item without its claimant knowing."""
    StoreOps(hr).queues.settle(
        item.queue, [Outcome(item=item.id, token=item.token, kind="release")]
    )
