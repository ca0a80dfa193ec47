"""Waiting claims and how they end. Producers that share a transaction."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import headrace
from headrace.client.group_commit import MAX_BYTES, share
from headrace.compat import gopq
from headrace.contract.items import PushCall
from headrace.drivers import notifier
from headrace.errors import (
    InvalidOption,
    ItemLost,
    KeyReused,
    NotConnected,
    PushTimeout,
    UnknownQueue,
)
from headrace.model.queues.items import Document


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.001)


async def auntil(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.001)


def waiting(hr: headrace.Headrace | headrace.AsyncHeadrace, count: int = 1) -> Callable[[], bool]:
    return lambda: len(hr._waits._waiters) == count


def test_stop_waiting_ends_all_claims_of_a_queue(store_url: str) -> None:
    """Claims on other queues continue."""
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(4) as pool:
        q, other = hr.queue("q"), hr.queue("other")
        mine = [pool.submit(q.claim, wait=None) for _ in range(2)]
        theirs = pool.submit(other.claim, wait=None)
        until(waiting(hr, 3))
        q.stop_waiting()
        assert [future.result(10) for future in mine] == [[], []]
        assert not theirs.done()
        other.push(1)
        assert len(theirs.result(10)) == 1
        assert q.push(1).pushed == 1
        assert len(q.claim(wait=None)) == 1


def test_notifications_of_other_queues_do_not_end_a_wait(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL all processes receive every notification. A waiter ignores those for other
    queues."""
    for wait in ("POLL", "SURE_POLL"):
        monkeypatch.setattr(notifier, wait, 60.0)
    monkeypatch.setattr(notifier.Notifier, "notify", lambda self, topics: None)

    async def hint(waiter: notifier.NotifierWaiter) -> bool:
        return await waiter.await_hint(0.05)

    with headrace.connect(postgres_url) as hr:
        waiters = [hr._store.waiter(f"queue/{name}") for name in "abb"]
        try:
            hr.push("a", 1)
            assert waiters[0].wait(60)
            assert not waiters[1].wait(0.05)
            assert not asyncio.run(hint(waiters[2]))
            hr.push("b", 1)
            assert waiters[1].wait(60)
            assert asyncio.run(waiters[2].await_hint(60))
        finally:
            for waiter in waiters:
                waiter.close()


def test_close_ends_all_claims(store_url: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        hr = headrace.connect(store_url)
        future: Future = pool.submit(hr.queue("q").claim, wait=None)
        until(waiting(hr))
        hr.close()
        with pytest.raises(NotConnected):
            future.result(10)
        assert waiting(hr, 0)()


def test_drop_ends_all_claims(store_url: str) -> None:
    """A waiting claim learns of it at its next poll."""
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(1) as pool:
        future: Future = pool.submit(hr.queue("q").claim, wait=None)
        until(waiting(hr))
        hr.queue("q").drop()
        with pytest.raises(UnknownQueue):
            future.result(10)


def test_a_waiting_claim_gets_a_planned_item_when_it_is_due(store_url: str) -> None:
    with headrace.connect(store_url) as hr:
        q = hr.queue("q")
        start = time.monotonic()
        q.push(1, delay=0.3)
        [item] = q.claim(wait=60)
        assert 0.29 <= time.monotonic() - start < 30
        item.complete()


def test_one_item_goes_to_one_of_many_waiters(store_url: str) -> None:
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(8) as pool:
        q = hr.queue("q")
        futures = [pool.submit(q.claim, wait=20) for _ in range(8)]
        until(waiting(hr, 8))
        q.push_many(range(8))
        found = [item.payload for future in futures for item in future.result(20)]
        assert sorted(found) == list(range(8))


def test_a_cancelled_claim_ends_immediately_and_keeps_nothing(store_url: str) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            q = hr.queue("q")
            task = asyncio.ensure_future(q.claim(wait=None))
            await auntil(waiting(hr))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not hr._waits._waiters
            await q.push(1)
            # Cancelled in the middle of the claim: its items are released, without an attempt.
            task = asyncio.ensure_future(q.claim())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            [item] = await q.claim()
            assert item.attempts == 1
            await item.complete()

    asyncio.run(scenario())


def test_tasks_wait_and_stop(store_url: str) -> None:
    async def scenario() -> None:
        hr = await headrace.aconnect(store_url)
        q = hr.queue("q")
        task = asyncio.ensure_future(q.claim(wait=None))
        await auntil(waiting(hr))
        await q.stop_waiting()
        assert await asyncio.wait_for(task, 10) == []
        task = asyncio.ensure_future(q.claim(wait=None))
        await auntil(waiting(hr))
        await hr.close()
        with pytest.raises(NotConnected):
            await asyncio.wait_for(task, 10)

    asyncio.run(scenario())


def test_async_callbacks_are_awaited(store_url: str) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            q = hr.queue("q")
            heard = []

            async def hear(result: headrace.types.PushResult) -> None:
                await asyncio.sleep(0)
                heard.append(result.id)

            async def fail(result: headrace.types.PushResult) -> None:
                raise ValueError

            await q.on("pushed", fail)
            await q.on("pushed", hear)
            result = await hr.push("q", 1)
            assert heard == [result.id]

    asyncio.run(scenario())


def test_a_blocking_client_cannot_await_callbacks(store_url: str) -> None:
    async def hear(result: headrace.types.PushResult) -> None: ...

    with headrace.connect(store_url) as hr:
        q = hr.queue("q")
        with pytest.raises(InvalidOption):
            q.on("pushed", hear)


def test_producers_share_a_transaction_and_get_their_own_results(store_url: str) -> None:
    """For any queues. A refused push affects no other."""

    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            await hr.push("q", {"n": 0}, key="k")
            results = await asyncio.gather(
                *(hr.push(f"q{n % 3}", {"n": n}, subject=str(n)) for n in range(90)),
                hr.push("q", {"n": 99}, key="k"),
                hr.push("q0", "twice", subject="0"),
                return_exceptions=True,
            )
            assert isinstance(results[90], KeyReused)
            assert results[91].skipped == 1
            for n in range(90):
                item = await hr.queue(f"q{n % 3}").item(results[n].id)
                assert item.payload == {"n": n}

    asyncio.run(scenario())


def test_threads_push_together(store_url: str) -> None:
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(16) as pool:
        ids = [r.id for r in pool.map(lambda n: hr.push("q", n), range(300))]
        assert len(set(ids)) == 300
        payloads = {item.id: item.payload for item in hr.queue("q").items(limit=1000)}
        assert payloads == dict(zip(ids, range(300), strict=True))


def test_close_answers_every_producer(store_url: str) -> None:
    async def scenario() -> None:
        hr = await headrace.aconnect(store_url)
        keeper = headrace.connect(store_url)
        tasks = [asyncio.ensure_future(hr.push("q", n)) for n in range(20)]
        await asyncio.sleep(0)
        await hr.close()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert all(isinstance(result, headrace.types.PushResult) for result in results)
        assert keeper.queues.stats("q")[0].pending == 20
        keeper.close()

    asyncio.run(scenario())


def test_a_flush_of_pushes_is_bounded() -> None:
    def call(size: int) -> PushCall:
        return PushCall(queue="q", documents=(Document(payload="x" * size),) * 2)

    assert share([call(1)] * 5) == 5
    assert share([call(MAX_BYTES // 2)] * 3) == 1
    assert share([call(MAX_BYTES // 4)] * 3) == 2


def test_a_token_settles_once_among_many_threads(store_url: str) -> None:
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(8) as pool:
        q = hr.queue("q")
        q.push(1)
        [item] = q.claim()
        start = threading.Barrier(8)

        def complete(_: int) -> bool:
            start.wait()
            try:
                item.complete()
            except ItemLost:
                return False
            return True

        assert sum(pool.map(complete, range(8))) == 1


def test_patience_outlasts_a_locked_database(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller without patience gets an error, and nothing is written."""
    monkeypatch.setattr("headrace.drivers.sqlite.connections.BUSY_MS", 50)
    with gopq.ack_queue(sqlite_url, patience=0.05) as q, ThreadPoolExecutor(4) as pool:
        q.enqueue(b"x")
        message = q.dequeue()
        path = sqlite_url.removeprefix("sqlite:///")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        for attempt in (lambda: q.try_enqueue(b"y"), lambda: q.try_ack(message.id)):
            with pytest.raises(gopq.ErrDBLocked):
                attempt()
        with pytest.raises(gopq.ErrDBLocked):
            q.enqueue(b"y", timeout=0.1)
        futures = [
            pool.submit(q.enqueue, b"y"),
            pool.submit(q.nack, message.id),
            pool.submit(q.dequeue),
        ]
        time.sleep(0.2)
        assert not any(future.done() for future in futures)
        other.execute("rollback")
        other.close()
        assert [futures[n].result(10) for n in range(2)] == [None, None]
        assert futures[2].result(10).item in (b"x", b"y")
        assert q.len() + q.queue.stats().active == 2


def test_a_waiting_push_can_be_stopped(store_url: str) -> None:
    """Explicitly, or by closing the client. Nothing is pushed."""
    with headrace.connect(store_url) as hr, ThreadPoolExecutor(2) as pool:
        q = hr.queues.create("q", max_items=0, exist_ok=True)
        stopped = pool.submit(q.push, 1, wait=None)
        until(waiting(hr))
        q.stop_waiting()
        assert isinstance(stopped.exception(10), PushTimeout)
        closed = pool.submit(q.push, 1, wait=None)
        until(waiting(hr))
        hr.close()
        assert isinstance(closed.exception(10), NotConnected)


def test_a_waiting_push_can_be_cancelled(store_url: str) -> None:
    """Its task ends, and nothing is pushed when there is capacity."""

    async def main() -> None:
        async with await headrace.aconnect(store_url) as hr:
            q = await hr.queues.create("q", max_items=0, exist_ok=True)
            task = asyncio.create_task(q.push(1, wait=None))
            await auntil(waiting(hr))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await hr.queues.create("q", max_items=1, exist_ok=True)
            assert (await q.push(2)).pushed == 1

    asyncio.run(main())
