"""Prefetch: claims ahead of handlers, only if handlers would otherwise wait for claims."""

import threading
from typing import Any

import pytest
from served_store import Claims, Clock
from worker_fixtures import PATIENCE, Gate, Signal, WorkerEnv, until

from headrace.types import Query
from headrace.worker import RetryAfter

CHUNK = 2
# Which claim is made while handlers are slow, and at which item.
AHEAD = 6
SLOW = 8 * CHUNK


def handler_of(clock: Clock, gate: Gate, seconds: float, *, is_async: bool) -> Any:
    """Takes its time for the first chunk, and is stopped in the second."""

    def handle(item: Any) -> None:
        clock.now += seconds
        if item.payload >= CHUNK:
            gate(item.payload)

    async def ahandle(item: Any) -> None:
        handle(item)

    return ahandle if is_async else handle


def at_rest(worker: Any) -> None:
    """Wait until nothing is claimed, nor will be before a handler ends."""
    prefetcher = worker._engine.prefetcher
    until(
        lambda: not prefetcher.may_run_ahead and not prefetcher._claiming.locked(),
        "the end of claims",
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_quick_handlers_find_the_next_chunk_claimed(
    env: WorkerEnv, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """Handlers finished the first chunk before the second could be claimed. So the third is claimed
    while they work on the second, and no fourth during that time."""
    gate = Gate()
    env.push(*range(5 * CHUNK))
    worker = env.work(handler_of(clock, gate, 0.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    at_rest(worker)
    assert claims.answered == 3
    until(lambda: env.counts.active == 2 * CHUNK, "the end of the first chunk")
    gate.open()


@pytest.mark.parametrize("is_async", [False, True])
def test_even_quicker_handlers_get_more_chunks_ahead(
    env: WorkerEnv, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """They wait although the next chunk is claimed while they work. When they no longer wait, one
    chunk is enough again."""
    seen = Signal()

    def handle(item: Any) -> None:
        seen(item.payload)
        if item.payload == SLOW:
            until(lambda: claims.answered > AHEAD, "what was claimed ahead")

    async def ahandle(item: Any) -> None:
        handle(item)

    def await_idle() -> None:
        """Wait until everything that was claimed before is done."""
        before, executor = sum(claims.sizes[:-1]), worker._engine.executor
        until(lambda: len(seen.seen) == before and not executor.busy, "handlers that wait")

    for number in range(2, AHEAD):
        claims.before[number] = await_idle
    env.push(*range(20 * CHUNK))
    gate = env.interceptor.stop_next("queues.claim")
    worker = env.work(ahandle if is_async else handle, chunk=CHUNK)
    gate.open()
    assert seen.wait(20 * CHUNK) == list(range(20 * CHUNK))
    chunks = [size // CHUNK for size in claims.sizes]
    assert chunks[: AHEAD + 2] == [1, 1, 1, 2, 3, 3, 3, 1]


@pytest.mark.parametrize("is_async", [False, True])
def test_slow_handlers_hold_no_more_than_a_chunk(
    env: WorkerEnv, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """A chunk takes them longer than a claim: other workers can use items that they have not
    begun."""
    gate = Gate()
    env.push(*range(5 * CHUNK))
    worker = env.work(handler_of(clock, gate, 1.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    at_rest(worker)
    assert claims.answered == 2
    until(lambda: env.counts.active == CHUNK, "the end of the first chunk")
    gate.open()


def test_a_chunk_of_one_holds_nothing_back(env: WorkerEnv, clock: Clock, claims: Claims) -> None:
    gate = Gate()
    env.push(*range(5 * CHUNK))
    worker = env.work(handler_of(clock, gate, 0.0, is_async=False), chunk=1)
    gate.arrived.wait()
    at_rest(worker)
    assert claims.answered == CHUNK + 1
    gate.open()


def test_busy_handlers_get_no_prefetch(env: WorkerEnv, clock: Clock, claims: Claims) -> None:
    """All of the last chunk was begun, but not all is done, which may take long."""
    gate, is_last = Gate(), threading.Event()

    def handle(item: Any) -> None:
        if item.payload == 2 * CHUNK - 1:
            is_last.set()
            gate(item.payload)

    # The answer to the prefetch comes when there is nothing left to begin.
    claims.before[2] = lambda: is_last.wait(PATIENCE)
    env.push(*range(5 * CHUNK))
    worker = env.work(handle, chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    at_rest(worker)
    assert claims.answered == 3
    gate.open()


def test_prefetched_items_are_handled_in_order(
    env: WorkerEnv, clock: Clock, claims: Claims
) -> None:
    seen = Signal()
    env.push(*range(100))
    env.work(lambda item: seen(item.payload), chunk=3)
    assert seen.wait(100) == list(range(100))
    assert any(name.endswith("-ahead") for name in claims.by)


def test_nothing_is_claimed_ahead_when_there_was_less_than_a_chunk(
    env: WorkerEnv, clock: Clock, claims: Claims
) -> None:
    """The queue has no more items, or no free slots. Handlers wait for items, not for the claim."""
    gate = Gate()
    env.push(*range(CHUNK + 1))
    worker = env.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    env.push(*range(CHUNK))
    at_rest(worker)
    assert claims.answered == 2
    gate.open()


def test_a_pause_releases_prefetched_items(env: WorkerEnv, clock: Clock, claims: Claims) -> None:
    gate = Gate()
    env.push(*range(5 * CHUNK))
    worker = env.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    worker.pause()
    until(lambda: env.counts.active == 1, "only what runs")
    gate.open()


def test_prefetched_items_of_a_delayed_channel_are_released(
    env: WorkerEnv, clock: Clock, claims: Claims
) -> None:
    """A handler delays its channel while a claim in progress returns more of it."""
    seen, said = Signal(), threading.Event()

    def handle(item: Any) -> object:
        seen(item.payload)
        if item.payload != CHUNK:
            return None
        said.set()
        return RetryAfter(delay=3600)

    settle = env.interceptor.stop_next("queues.settle")
    claims.before[2] = lambda: said.wait(PATIENCE)
    env.push(*range(5 * CHUNK), channel={"site": "shop"})
    env.work(handle, chunk=CHUNK, select=Query())
    seen.wait_for(lambda all: CHUNK in all)
    until(lambda: claims.answered >= 3, "a chunk that was claimed ahead")
    settle.open()
    until(lambda: env.counts.active == 0, "all that was handed back")
    assert seen.seen == list(range(CHUNK + 1))


def test_a_failed_prefetch_is_retried(env: WorkerEnv, clock: Clock, claims: Claims) -> None:
    """No handler waits for it yet. A handler that runs out of items claims directly."""
    seen, trouble = Signal(), Signal()

    def fail() -> None:
        if claims.by[2].endswith("-ahead"):
            raise OSError("not now")

    claims.before[2] = fail
    env.create(lease=0.2)
    gate = env.interceptor.stop_next("queues.claim")
    env.push(*range(3 * CHUNK))
    worker = env.work(lambda item: seen(item.payload), chunk=CHUNK)
    worker.on("error", trouble)
    gate.open()
    # Items of the failed claim return when its lease ends.
    assert set(seen.wait(3 * CHUNK)) == set(range(3 * CHUNK))
    assert trouble.wait()


def test_a_listener_in_the_prefetch_may_stop_the_worker(
    env: WorkerEnv, clock: Clock, claims: Claims
) -> None:
    """It runs inside the worker, and does not wait for its own end."""
    seen, stopped = Signal(), Signal()

    def fail() -> None:
        raise OSError("not now")

    def stop(_: object) -> None:
        worker.stop()
        stopped(threading.current_thread().name)

    claims.before[2] = fail
    gate = env.interceptor.stop_next("queues.claim")
    env.push(*range(5 * CHUNK))
    worker = env.work(lambda item: seen(item.payload), chunk=CHUNK)
    worker.on("error", stop)
    gate.open()
    [name] = stopped.wait()
    assert name.endswith("-ahead")
    assert worker.join(PATIENCE)
    executor: Any = worker._engine.executor
    executor._ahead_thread.join(PATIENCE)
    assert not executor._ahead_thread.is_alive()
    assert worker._engine.prefetcher._waiter is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_thread_ahead_has_ended_gets_another(
    env: WorkerEnv, clock: Clock, claims: Claims
) -> None:
    """Whatever has ended it: nobody else would claim."""
    seen = Signal()

    def end() -> None:
        raise SystemExit

    claims.before[2] = end
    env.create(lease=0.2)
    env.push(*range(3 * CHUNK))
    env.work(lambda item: seen(item.payload), chunk=CHUNK)
    assert set(seen.wait(3 * CHUNK)) == set(range(3 * CHUNK))
