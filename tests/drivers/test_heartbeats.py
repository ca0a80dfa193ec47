"""Heartbeats of plain claims while the store or the event loop is blocked."""

import asyncio
import threading
import time
from typing import Any

import pytest

import headrace
from headrace.client import claim_heartbeats
from headrace.errors import StoreUnavailable
from headrace.testing.contract.queue_heartbeats import started_since

PATIENCE = 20.0


class Watched:
    """Records the operations of a store, and stops or fails some."""

    def __init__(self, hr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._run = hr._store.run
        self.extended = threading.Semaphore(0)
        self.before: Any = lambda name: None
        self.after: Any = lambda name: None
        monkeypatch.setattr(hr._store, "run", self.run)

    def run(self, op: Any) -> Any:
        name = op.name
        try:
            self.before(name)
        except Exception:
            op.accept()
            raise
        answer = self._run(op)
        self.after(name)
        if name == "queues.extend":
            self.extended.release()
        return answer


def test_a_blocked_loop_does_not_lose_its_items(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            watched = Watched(hr, monkeypatch)
            await hr.push("q", 1)
            [item] = await hr.queue("q").claim(lease=0.3, heartbeat=True)
            for _ in range(4):
                assert watched.extended.acquire(timeout=PATIENCE)  # on the loop
            assert not item.lost
            await item.complete()

    asyncio.run(scenario())


def test_an_async_on_lost_may_be_a_coroutine(memory_url: str) -> None:
    async def scenario() -> int:
        async with await headrace.aconnect(memory_url) as hr:
            await hr.push("q", 1)
            lost: asyncio.Queue[int] = asyncio.Queue()

            async def on_lost(item: Any) -> None:
                await lost.put(item.id)

            [item] = await hr.queue("q").claim(lease=0.1, heartbeat=True, on_lost=on_lost)
            await hr.queue("q").drop()
            async with asyncio.timeout(PATIENCE):
                found = await lost.get()
            assert item.lost
            return found

    assert asyncio.run(scenario()) > 0


def test_an_unreachable_store_is_a_loss_when_the_lease_ends(
    memory_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from before the last request that succeeded, on the clock of this process."""
    clock = [1000.0]
    monkeypatch.setattr(claim_heartbeats, "monotonic", lambda: clock[0])
    monkeypatch.setattr("headrace.client._sync.queue.monotonic", lambda: clock[0])
    with headrace.connect(memory_url) as hr:
        watched = Watched(hr, monkeypatch)
        begin = threading.Event()

        def wait(name: str) -> None:
            if name == "queues.extend":
                assert begin.wait(PATIENCE)

        def away(name: str) -> None:
            if name == "queues.extend":
                raise StoreUnavailable("away")

        def slowly(name: str) -> None:
            if name in ("queues.claim", "queues.extend"):
                clock[0] += 0.2
            if name == "queues.extend":
                watched.before = away

        watched.before, watched.after = wait, slowly
        hr.push("q", 1)
        [item] = hr.queues.create("q", exist_ok=True).claim(lease=0.9, heartbeat=True)
        clock[0] = 1000.89
        assert not item.lost
        clock[0] = 1000.9
        assert item.lost
        clock[0] = 1000.5
        begin.set()
        assert watched.extended.acquire(timeout=PATIENCE)
        clock[0] = 1001.39
        assert not item.lost
        clock[0] = 1001.4
        assert item.lost
        watched.before = wait
        assert watched.extended.acquire(timeout=PATIENCE)
        assert not item.lost
        item.complete()


def test_an_item_that_is_settled_during_a_heartbeat_is_not_lost(
    memory_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The heartbeat reaches the store between the settle and its answer."""
    lost: list[Any] = []
    with headrace.connect(memory_url) as hr:
        watched = Watched(hr, monkeypatch)
        beaten = threading.Event()

        def wait_for_a_beat(name: str) -> None:
            if name == "queues.settle":
                beaten.clear()
                assert beaten.wait(PATIENCE)
                beaten.clear()
                assert beaten.wait(PATIENCE)
            elif name == "queues.extend":
                beaten.set()

        watched.after = wait_for_a_beat
        hr.push("q", 1)
        [item] = hr.queues.create("q", exist_ok=True).claim(
            lease=0.1, heartbeat=True, on_lost=lost.append
        )
        item.complete()
        assert not item.lost
    assert lost == []
    assert "lost" not in caplog.text


def test_an_item_whose_settle_failed_is_still_kept(
    memory_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(threading.enumerate())
    with headrace.connect(memory_url) as hr:
        watched = Watched(hr, monkeypatch)

        def away(name: str) -> None:
            if name == "queues.settle":
                raise StoreUnavailable("away")

        watched.before = away
        hr.push("q", 1)
        [item] = hr.queues.create("q", exist_ok=True).claim(lease=0.1, heartbeat=True)
        with pytest.raises(StoreUnavailable):
            item.complete()
        for _ in range(3):
            assert watched.extended.acquire(timeout=PATIENCE)
        watched.before = lambda name: None
        item.complete()
        give_up = time.monotonic() + PATIENCE
        while "headrace-leases" in started_since(before):
            assert time.monotonic() < give_up, "it still beats"
            time.sleep(0.002)
