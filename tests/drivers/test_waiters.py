"""Many waiters for the same thing: the next one is woken, and not all of them."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from headrace.telemetry import Event

SITE = {"site": "shop"}
POLLS = 5


@pytest.fixture
def operations() -> Iterator[Counter[str]]:
    """How often each operation ran."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()

    def count(event: Event) -> None:
        with lock:
            counts[event.operation] += 1

    unsubscribe = headrace.telemetry.subscribe(count)
    yield counts
    unsubscribe()


def polls(operations: Counter[str], *names: str) -> int:
    return sum(operations[name] for name in names)


def lock_polls(operations: Counter[str]) -> int:
    return polls(operations, "locks.acquire", "locks.turn", "locks.renew_places")


async def auntil(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


def run(url: str, scenario: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            async with await headrace.aconnect(url) as hr:
                await scenario(hr)

    asyncio.run(main())


@pytest.mark.parametrize("count", [25, 300])
def test_tasks_that_wait_for_one_lock(store_url: str, count: int, operations: Counter[str]) -> None:
    """They get it one after another, each with a few polls, however many there are."""

    async def scenario(hr: headrace.AsyncHeadrace) -> None:
        tokens: list[int] = []

        async def hold() -> None:
            async with hr.lock(SITE, wait=None) as lock:
                tokens.append(lock.token)

        async def all_wait() -> bool:
            [info] = await hr.locks.list()
            return info.waiting == count

        async with hr.lock(SITE):
            tasks = [asyncio.create_task(hold()) for _ in range(count)]
            await auntil(all_wait)
        await asyncio.gather(*tasks)
        assert tokens == sorted(set(tokens))
        assert len(tokens) == count

    assert lock_polls(operations) <= POLLS * count

    run(store_url, scenario)


@pytest.mark.parametrize("count", [25, 300])
def test_threads_that_wait_for_one_lock(
    durable_url: str, count: int, operations: Counter[str]
) -> None:
    """The same for threads of one client."""
    tokens: list[int] = []

    with headrace.connect(durable_url) as hr, ThreadPoolExecutor(count) as pool:

        def hold() -> None:
            with hr.lock(SITE, wait=None) as lock:
                tokens.append(lock.token)

        with hr.lock(SITE):
            futures = [pool.submit(hold) for _ in range(count)]
            give_up = time.monotonic() + 60
            while hr.locks.list()[0].waiting < count:
                assert time.monotonic() < give_up
                time.sleep(0.05)
        for future in futures:
            future.result(60)
    assert tokens == sorted(set(tokens))
    assert len(tokens) == count
    assert lock_polls(operations) <= POLLS * count


def test_clients_that_wait_for_one_lock(postgres_url: str, operations: Counter[str]) -> None:
    """A notification names the next waiter: other clients, as in other processes, do not poll."""
    count = 25
    ready, tokens = threading.Barrier(count + 1), []
    with headrace.connect(postgres_url) as hr, ThreadPoolExecutor(count) as pool:

        def hold() -> None:
            with headrace.connect(postgres_url) as mine:
                ready.wait(60)
                with mine.lock(SITE, wait=None) as lock:
                    tokens.append(lock.token)

        with hr.lock(SITE):
            futures = [pool.submit(hold) for _ in range(count)]
            ready.wait(60)
            give_up = time.monotonic() + 60
            while hr.locks.list()[0].waiting < count:
                assert time.monotonic() < give_up
                time.sleep(0.01)
            operations.clear()
        for future in futures:
            future.result(60)
    assert tokens == sorted(set(tokens))
    # Two to find that it is their turn and to acquire it. The others are timed polls.
    assert lock_polls(operations) <= POLLS * count


def test_waiting_claims(store_url: str, operations: Counter[str]) -> None:
    """An item wakes one of them, and not all."""
    count = 100

    async def scenario(hr: headrace.AsyncHeadrace) -> None:
        q = hr.queue("q")

        async def claim() -> Any:
            [item] = await q.claim(wait=60)
            await item.complete()
            return item.payload

        tasks = [asyncio.create_task(claim()) for _ in range(count)]
        async with asyncio.timeout(60):
            while len(hr._waits._waiters) < count:
                await asyncio.sleep(0.01)
        for n in range(count // 2):
            await q.push(n)
        await q.push_many(range(count // 2, count))
        assert sorted(await asyncio.gather(*tasks)) == list(range(count))
        assert polls(operations, "queues.claim") <= POLLS * count

    run(store_url, scenario)


def test_waiting_pushes(store_url: str, operations: Counter[str]) -> None:
    """When one of them succeeds, the next one tries."""
    count = 100

    async def scenario(hr: headrace.AsyncHeadrace) -> None:
        q = await hr.queues.create("q", max_items=1, exist_ok=True)
        await q.push(-1)
        tasks = [asyncio.create_task(q.push(n, wait=60)) for n in range(count)]
        async with asyncio.timeout(60):
            while len(hr._waits._waiters) < count:
                await asyncio.sleep(0.01)
        found = set()
        while len(found) < count + 1:
            for item in await q.claim(wait=60):
                found.add(item.payload)
                await item.complete()
        await asyncio.gather(*tasks)
        assert found == set(range(-1, count))
        assert polls(operations, "push") <= POLLS * count

    run(store_url, scenario)


def test_waiting_requests_for_slots(store_url: str, operations: Counter[str]) -> None:
    """When a slot is released, the next request is made."""
    count = 100

    async def scenario(hr: headrace.AsyncHeadrace) -> None:
        await hr.limits.set({"api": "maps"}, 1, name="rule")
        running = most = 0

        async def hold() -> None:
            nonlocal running, most
            async with hr.slots({"api": "maps"}, wait=60):
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

        async with hr.slots({"api": "maps"}):
            tasks = [asyncio.create_task(hold()) for _ in range(count)]
            async with asyncio.timeout(60):
                while len(hr._waits._waiters) < count:
                    await asyncio.sleep(0.01)
        await asyncio.gather(*tasks)
        assert most == 1
        assert polls(operations, "counters.acquire") <= POLLS * count

    run(store_url, scenario)
