"""Workers of async clients."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from worker_fixtures import PATIENCE, Gate, Signal, WorkerEnv, until

import headrace
from headrace.errors import InvalidOption, WorkerExists
from headrace.worker import (
    AsyncWorker,
    Item,
    Worker,
    aclose_workers,
    close_workers,
    start_worker,
)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[headrace.AsyncHeadrace]:
    async with await headrace.aconnect(url) as hr:
        try:
            yield hr
        finally:
            await aclose_workers(hr, 0)


def run(url: str, story: Callable[[headrace.AsyncHeadrace], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), connected(url) as hr:
            await story(hr)

    asyncio.run(main())


async def has_done(worker: AsyncWorker, count: int) -> None:
    """Wait for the worker to know. The store knows earlier."""
    async with asyncio.timeout(PATIENCE):
        while worker.done < count:
            await asyncio.sleep(0.001)
    assert worker.done == count


def test_coroutines_run_on_the_loop_and_functions_in_threads(env: WorkerEnv, url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        here, threads = asyncio.get_running_loop(), []
        both: asyncio.Queue[Any] = asyncio.Queue()

        async def handle(item: Item) -> None:
            await both.put(asyncio.get_running_loop() is here)

        def plain(item: Item) -> None:
            threads.append(threading.current_thread())
            here.call_soon_threadsafe(both.put_nowait, "thread")

        first = start_worker(hr, "q", handle)
        second = start_worker(hr, "other", plain)
        env.push(1)
        assert await both.get() is True
        env.name = "other"
        env.push(1)
        assert await both.get() == "thread"
        assert threads[0] is not threading.current_thread()
        await first.stop()
        await second.stop()
        assert (first.done, second.done) == (1, 1)

    run(url, story)


def test_concurrency_is_respected(env: WorkerEnv, url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        barrier = asyncio.Barrier(5)

        async def handle(item: Item) -> None:
            await barrier.wait()

        worker = start_worker(hr, "q", handle, concurrency=5)
        env.push(*range(10))
        while worker.done < 10:
            await asyncio.sleep(0.001)
        await worker.stop()
        assert worker.busy == 0

    run(url, story)


def test_events_come_on_the_loop(env: WorkerEnv, url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        here = threading.current_thread()
        heard: asyncio.Queue[Any] = asyncio.Queue()

        async def on_data(done: Any) -> None:
            await heard.put(("data", threading.current_thread() is here))

        def on_state(change: Any) -> None:
            heard.put_nowait((change.after, threading.current_thread() is here))

        async def handle(item: Item) -> None: ...

        async with start_worker(hr, "q", handle) as worker:
            worker.on("data", on_data)
            worker.on("state", on_state)
            env.push(1)
            assert await heard.get() == ("data", True)
            await worker.pause()
            assert await heard.get() == ("paused", True)
            await worker.resume()
            assert await heard.get() == ("running", True)
        assert await worker.join(1)

    run(url, story)


def test_a_blocked_loop_loses_no_claim(env: WorkerEnv, url: str) -> None:
    """Nor does it delay the outcomes of other handlers."""

    async def story(hr: headrace.AsyncHeadrace) -> None:
        settled = Signal()

        async def handle(item: Item) -> None:
            if item.payload == "first":
                return
            until(lambda: env.counts.active == 1, "the first item to be settled")
            gate.arrived.wait(3)

        gate = Gate()
        store: Any = hr._store
        extend = store.queues.extend

        def extending(*args: Any) -> Any:
            gate.arrived()
            return extend(*args)

        store.queues.extend = extending
        worker = start_worker(hr, "q", handle, chunk=2, lease=0.15)
        worker.on("data", settled)
        env.push("first", "stuck")
        while len(settled.seen) < 2:
            await asyncio.sleep(0.001)
        await worker.stop()
        assert (worker.done, worker.lost) == (2, 0)

    run(url, story)


def test_grace_is_over_for_a_coroutine(env: WorkerEnv, url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def handle(item: Item) -> None:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        worker = start_worker(hr, "q", handle)
        env.push(1)
        await begun.wait()
        await worker.stop(0.01)
        await cancelled.wait()
        item = env.item(1)
        assert (item.state, item.attempts) == (1, 0)

    run(url, story)


def test_kill_does_not_end_coroutines(env: WorkerEnv, url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def handle(item: Item) -> None:
            begun.set()
            await go.wait()

        worker = start_worker(hr, "q", handle, chunk=2)
        env.push(1, 2)
        await begun.wait()
        await worker.kill()
        assert (worker.status, env.counts.active, env.counts.pending) == ("stopped", 1, 1)
        go.set()
        await has_done(worker, 1)
        assert env.counts.active == 0

    run(url, story)


def test_a_worker_ends_with_its_loop(env: WorkerEnv, url: str) -> None:
    """Handlers that were cancelled with it did not fail: their items are released."""
    workers: list[AsyncWorker] = []
    clients: list[headrace.AsyncHeadrace] = []

    async def main() -> None:
        hr = await headrace.aconnect(url)
        clients.append(hr)
        begun = asyncio.Event()

        async def handle(item: Item) -> None:
            begun.set()
            await asyncio.sleep(PATIENCE)

        workers.append(start_worker(hr, "q", handle, chunk=1))
        env.push(1)
        await begun.wait()

    asyncio.run(main())
    [worker] = workers
    until(lambda: worker.status == "stopped", "the worker to notice")
    until(lambda: not env.counts.active, "everything to be handed back")
    assert env.item(1).attempts == 0
    assert worker.failed == 0
    close_workers(clients[0])
    clients[0]._store.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_coroutine_can_stop_its_own_worker(env: WorkerEnv, url: str, how: str) -> None:
    """It does not wait for itself."""

    async def story(hr: headrace.AsyncHeadrace) -> None:
        async def handle(item: Item) -> None:
            await getattr(worker, how)()

        worker = start_worker(hr, "q", handle)
        env.push(1)
        assert await worker.join(PATIENCE)
        await has_done(worker, 1)
        assert env.counts.active == 0

    run(url, story)


def test_an_async_worker_needs_a_loop(url: str) -> None:
    hr = asyncio.run(headrace.aconnect(url))
    with pytest.raises(InvalidOption, match="in a coroutine"):
        start_worker(hr, "q", print)
    asyncio.run(hr.close())


def test_one_registration_here_too(url: str) -> None:
    async def story(hr: headrace.AsyncHeadrace) -> None:
        start_worker(hr, "q", print)
        with pytest.raises(WorkerExists):
            start_worker(hr, "q", print)

    run(url, story)


def test_both_kinds_have_the_same_methods() -> None:
    """Only ``await`` differs."""

    def public(cls: type) -> dict[str, Any]:
        found = inspect.getmembers(cls, inspect.isfunction)
        return {name: member for name, member in found if not name.startswith("_")}

    ours, theirs = public(Worker), public(AsyncWorker)
    assert sorted(ours) == sorted(theirs)
    for name in ours:
        assert list(inspect.signature(ours[name]).parameters.values()) == list(
            inspect.signature(theirs[name]).parameters.values()
        )
        assert ours[name].__doc__ == theirs[name].__doc__ is not None
    awaited = {name for name in theirs if inspect.iscoroutinefunction(theirs[name])}
    assert awaited == {"pause", "resume", "stop", "kill", "join"}
