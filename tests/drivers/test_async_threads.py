"""Async calls depend neither on asyncio's own threads nor on each other's."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

import pytest

import headrace
from headrace.errors import StoreBusy

SECONDS = 60


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, SECONDS))


def test_two_hundred_transactions_of_one_client_at_the_same_time(store_url: str) -> None:
    """Each commits. Where they exclude each other, they run in the order of their start."""

    async def one(hr: headrace.AsyncHeadrace, n: int) -> None:
        async with hr.transaction() as tx:
            await tx.commit("t", {"n": n})
            await asyncio.sleep(0)
            await tx.push("q", n)

    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            await asyncio.gather(*(one(hr, n) for n in range(200)))
            records = await hr.range("t")
            assert sorted(record.body["n"] for record in records) == list(range(200))
            assert (await hr.queue("q").stats()).pending == 200

    run(scenario())


def test_transactions_beside_other_calls_and_the_programs_own_threads(store_url: str) -> None:
    """Reads, pushes, claims and ``asyncio.to_thread`` inside and beside open transactions."""

    async def transact(hr: headrace.AsyncHeadrace, n: int) -> None:
        async with hr.transaction() as tx:
            await tx.push("q", n)
            await asyncio.to_thread(len, "a function of the program's own")
            await tx.commit("t", {"n": n})

    async def mix(hr: headrace.AsyncHeadrace, n: int) -> None:
        q = hr.queue("q")
        await hr.push("q", n)
        await asyncio.to_thread(len, "another one")
        await hr.commit("u", {"n": n})
        assert await hr.topic("u").length() > 0
        [item] = await q.claim()
        await item.complete()

    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            await hr.queues.create("q")
            work = [transact(hr, n) for n in range(50)] + [mix(hr, n) for n in range(50)]
            await asyncio.gather(*work)
            assert await hr.topic("t").length() == await hr.topic("u").length() == 50
            assert (await hr.queue("q").stats()).pending == 50

    run(scenario())


def test_the_programs_functions_may_fill_the_threads_of_asyncio(store_url: str) -> None:
    """They wait for calls of ours, which need none of those threads."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()

        async def use() -> None:
            async with await headrace.aconnect(store_url) as hr:
                await hr.commit("t", {})
                async with hr.transaction() as tx:
                    await tx.push("q", 1)
                worker = await hr.start_worker("q", lambda item: None)
                await worker.stop()
                assert await worker.join()

        def wait() -> None:
            asyncio.run_coroutine_threadsafe(use(), loop).result(SECONDS)

        # More than there are threads.
        await asyncio.gather(*(asyncio.to_thread(wait) for _ in range(40)))

    run(scenario())


def test_a_call_inside_a_transaction_is_refused_while_others_wait(sqlite_url: str) -> None:
    """It would wait for its own transaction. It is refused before it waits for a thread."""

    async def scenario() -> None:
        async with await headrace.aconnect(sqlite_url) as hr:
            waiting: list[asyncio.Task[Any]] = []
            outside = copy_context()
            async with hr.transaction() as tx:
                for n in range(20):
                    # In a context that holds no transaction.
                    pushing = hr.push_many(f"q{n}", [1])
                    waiting.append(asyncio.create_task(pushing, context=outside))
                    waiting.append(asyncio.create_task(hr.queues.create(f"c{n}"), context=outside))
                await asyncio.sleep(0)
                await tx.push("q", 1)
                for _ in range(5):
                    try:
                        await asyncio.wait_for(hr.commit("t", {}), 10)
                    except StoreBusy:
                        continue
                    raise AssertionError("it was not refused")
            await asyncio.gather(*waiting)

    run(scenario())


def test_joining_a_worker_can_be_cancelled(memory_url: str) -> None:
    """Forty joins block nothing else, and end when they are cancelled."""

    async def scenario() -> None:
        async with await headrace.aconnect(memory_url) as hr:
            worker = await hr.start_worker("q", lambda item: None)
            joins = [asyncio.create_task(worker.join()) for _ in range(40)]
            await asyncio.sleep(0)
            assert await asyncio.to_thread(threading.get_ident)
            for join in joins:
                join.cancel()
            results = await asyncio.gather(*joins, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            assert not await worker.join(0.01)

    run(scenario())


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, KeyError, GeneratorExit])
def test_a_transaction_ends_with_any_exception_of_its_block(
    store_url: str, error: type[BaseException]
) -> None:
    """Not every exception can be raised in a task from another thread."""

    async def fail(hr: headrace.AsyncHeadrace) -> None:
        async with hr.transaction() as tx:
            await tx.push("q", 1)
            raise error

    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            with pytest.raises((error, RuntimeError)):
                await fail(hr)
            await hr.push("q", 2)
            assert [item.payload for item in await hr.queue("q").items()] == [2]

    run(scenario())


def test_closed_loops_leave_nothing_behind(store_url: str) -> None:
    """Neither the loop nor its threads nor connections, even if transactions waited in it."""
    loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
    kept: list[headrace.AsyncHeadrace] = []

    async def one(hr: headrace.AsyncHeadrace, n: int) -> None:
        async with hr.transaction() as tx:
            await tx.push("q", n)
            await asyncio.sleep(0)

    async def scenario() -> None:
        loops.add(asyncio.get_running_loop())
        if not kept:
            kept.append(await headrace.aconnect(store_url))
        # More than there are places for, so that some wait.
        await asyncio.gather(*(one(kept[0], n) for n in range(12)))

    run(scenario())
    gc.collect()
    before = threading.active_count()
    for _ in range(5):
        run(scenario())
    gc.collect()
    assert len(loops) <= 1
    until(lambda: threading.active_count() <= before, "the threads of closed loops to end")
    if store_url.startswith("postgresql"):
        store: Any = kept[0]._store
        with store.connections.connect(time.monotonic() + SECONDS) as look:
            count = (
                "select count(*) as n from pg_stat_activity "
                "where datname = current_database() and state = 'idle' and pid <> pg_backend_pid()"
            )
            until(
                lambda: look.execute(count).fetchone()["n"] <= 12,
                "the connections of closed loops to end",
            )

    async def end() -> None:
        await kept[0].close()

    run(end())


def until(is_so: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < give_up, f"waited in vain for {what}"
        time.sleep(0.01)
