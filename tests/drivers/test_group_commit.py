"""Concurrent callers share a flush."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from headrace.client.coalescing import MOST_BYTES, MOST_CALLS, AsyncCoalescer, Coalescer, share
from headrace.contract.values import CommitCall, CommitOutcome, Committed, Part
from headrace.errors import KeyReused, NotConnected, StoreUnavailable


def call(n: int, size: int = 0) -> CommitCall:
    return CommitCall(parts=(Part("t", 1, "x" * size or f'{{"n":{n}}}'),))


def outcomes(calls: list[CommitCall]) -> list[CommitOutcome]:
    return [Committed(int(c.parts[0].body[5:-1]), ()) for c in calls]


class Gated:
    """A flush that waits for permission, and remembers what it was given."""

    def __init__(self, flush: Callable[[list[CommitCall]], list[CommitOutcome]] = outcomes) -> None:
        self.started = threading.Semaphore(0)
        self.permission = threading.Semaphore(0)
        self.flushes: list[int] = []
        self.flush = flush

    def __call__(self, calls: list[CommitCall]) -> list[CommitOutcome]:
        self.started.release()
        assert self.permission.acquire(timeout=10)
        self.flushes.append(len(calls))
        return self.flush(calls)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as threads:
        yield threads


def crowd(pool: ThreadPoolExecutor, coalescer: Coalescer, gate: Gated, size: int) -> list[Any]:
    """One call under way and ``size`` queued behind it."""
    futures = [pool.submit(coalescer.send, call(0))]
    assert gate.started.acquire(timeout=10)
    futures += [pool.submit(coalescer.send, call(n)) for n in range(1, size + 1)]
    while len(coalescer._waiting) < size:
        threading.Event().wait(0.001)
    return futures


def test_a_lone_caller_goes_at_once_and_a_crowd_goes_together(pool: ThreadPoolExecutor) -> None:
    gate = Gated()
    coalescer = Coalescer(gate)
    futures = crowd(pool, coalescer, gate, 20)
    gate.permission.release(10)
    assert [future.result(10).ts for future in futures] == list(range(21))
    assert gate.flushes == [1, 20]


def test_a_failing_store_is_told_to_each_caller(pool: ThreadPoolExecutor) -> None:
    """With an error of its own, and the next caller starts afresh."""

    def fail(calls: list[CommitCall]) -> list[CommitOutcome]:
        raise StoreUnavailable("gone")

    gate = Gated(fail)
    coalescer = Coalescer(gate)
    futures = crowd(pool, coalescer, gate, 5)
    gate.permission.release(10)
    errors = [future.exception(10) for future in futures]
    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 6
    gate.flush = outcomes
    assert coalescer.send(call(7)) == Committed(7, ())


def test_one_bad_call_does_not_fail_its_neighbours(pool: ThreadPoolExecutor) -> None:
    """A flush that fails because of a call is done call by call."""

    def pick(calls: list[CommitCall]) -> list[CommitOutcome]:
        if any(c.parts[0].body == '{"n":3}' for c in calls):
            raise ValueError("three")
        return outcomes(calls)

    gate = Gated(pick)
    coalescer = Coalescer(gate)
    futures = crowd(pool, coalescer, gate, 5)
    gate.permission.release(20)
    assert isinstance(futures[3].exception(10), ValueError)
    del futures[3]
    assert [future.result(10).ts for future in futures] == [0, 1, 2, 4, 5]


def test_draining_waits_for_every_answer(pool: ThreadPoolExecutor) -> None:
    gate = Gated()
    coalescer = Coalescer(gate)
    futures = crowd(pool, coalescer, gate, 3)
    drained = pool.submit(coalescer.drain)
    assert not drained.done()
    gate.permission.release(10)
    drained.result(10)
    assert all(future.done() or future.result(10) for future in futures)


def test_a_flush_is_bounded() -> None:
    assert share([call(0)]) == 1
    assert share([call(0)] * (MOST_CALLS + 5)) == MOST_CALLS
    assert share([call(0, MOST_BYTES + 1)] * 3) == 1
    assert share([call(0, MOST_BYTES // 2)] * 3) == 2


def test_threads_get_their_own_ids(store_url: str, pool: ThreadPoolExecutor) -> None:
    """Every caller the id of its own record, dense numbers, and fewer flushes than calls."""
    with headrace.connect(store_url) as hr:
        hr.commit("t", {"n": -1})
        flushes: list[str] = []
        unsubscribe = headrace.telemetry.subscribe(lambda event: flushes.append(event.operation))
        ids = dict(
            zip(range(300), pool.map(lambda n: hr.commit("t", {"n": n}), range(300)), strict=True)
        )
        unsubscribe()
        records = hr.range("t")[1:]
        assert {record.body["n"]: record.id for record in records} == ids
        assert [record.seq for record in records] == list(range(1, 301))
        assert len(flushes) <= 300


def test_tasks_get_their_own_ids(store_url: str) -> None:
    """And a crowd of tasks takes two flushes: the first caller's, and everybody else's."""

    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            await hr.commit("t", {"n": -1})
            flushes: list[str] = []
            unsubscribe = headrace.telemetry.subscribe(
                lambda event: flushes.append(event.operation)
            )
            ids = await asyncio.gather(*(hr.commit("t", {"n": n}) for n in range(200)))
            unsubscribe()
            records = (await hr.range("t"))[1:]
            assert {record.body["n"]: record.id for record in records} == dict(enumerate(ids))
            assert [record.seq for record in records] == list(range(1, 201))
            assert len(flushes) == 2 or hr._store.name == "memory"

    asyncio.run(scenario())


def test_a_refused_key_in_a_crowd_is_refused_alone(durable_url: str) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(durable_url) as hr:
            await hr.commit("t", {"n": 0}, key="k")
            results = await asyncio.gather(
                *(hr.commit("t", {"n": n}) for n in range(5)),
                hr.commit("t", {"n": 99}, key="k"),
                hr.commit("t", {"n": 0}, key="k"),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [str] * 5 + [KeyReused, str]
            assert await hr.length("t") == 6

    asyncio.run(scenario())


def test_a_cancelled_caller_does_not_take_the_others_along(durable_url: str) -> None:
    """Whoever leads; the cancelled ones' records are there or not, the others' are."""

    async def scenario() -> None:
        async with await headrace.aconnect(durable_url) as hr:
            tasks = [asyncio.ensure_future(hr.commit("t", {"n": n})) for n in range(20)]
            await asyncio.sleep(0)
            for task in tasks[:10]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, str) for result in results[10:])
            found = {record.body["n"] for record in await hr.range("t")}
            assert set(range(10, 20)) <= found

    asyncio.run(scenario())


def test_close_answers_every_call(durable_url: str) -> None:
    """Those under way are committed, those that come later are refused; none hangs."""

    async def scenario() -> None:
        hr = await headrace.aconnect(durable_url)
        tasks = [asyncio.ensure_future(hr.commit("t", {"n": n})) for n in range(20)]
        await asyncio.sleep(0)
        await hr.close()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert all(isinstance(result, str) for result in results)
        with pytest.raises(NotConnected):
            await hr.commit("t", {})
        async with await headrace.aconnect(durable_url) as again:
            assert await again.length("t") == 20

    asyncio.run(scenario())


def test_a_cancelled_caller_learns_of_it_when_its_call_has_an_outcome() -> None:
    """Also one that only waits behind others: what it sent may be written all the same."""

    async def scenario() -> None:
        is_let_through = asyncio.Event()

        async def flush(calls: list[CommitCall]) -> list[str]:
            await is_let_through.wait()
            return ["done"] * len(calls)

        crowd = AsyncCoalescer[CommitCall, str](flush)
        leader, other, cancelled = (
            asyncio.ensure_future(crowd.send(CommitCall(parts=()))) for _ in range(3)
        )
        await asyncio.sleep(0)
        for _ in range(2):
            cancelled.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not cancelled.done()
        is_let_through.set()
        assert await asyncio.gather(leader, other) == ["done", "done"]
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(cancelled, 10)

    asyncio.run(scenario())
