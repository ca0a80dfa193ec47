"""Concurrent callers share a flush."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from headrace.client.async_group_commit import AsyncGroupCommit
from headrace.client.group_commit import MAX_BYTES, MAX_CALLS, GroupCommit, share
from headrace.contract.values import CommitCall, CommitOutcome, CommitPart, Committed
from headrace.errors import InvalidBody, KeyReused, NotConnected, StoreUnavailable


def call(n: int, size: int = 0) -> CommitCall:
    return CommitCall(parts=(CommitPart("t", 1, "x" * size or f'{{"n":{n}}}'),))


def outcomes(calls: list[CommitCall]) -> list[CommitOutcome]:
    return [Committed(int(c.parts[0].body[5:-1]), ()) for c in calls]


class Gated:
    """A flush that waits for permission, and records what it was given."""

    def __init__(self, flush: Callable[[list[CommitCall]], list[CommitOutcome]] = outcomes) -> None:
        self.started = threading.Semaphore(0)
        self.permission = threading.Semaphore(0)
        self.flushes: list[int] = []
        self.flush = flush

    def __call__(self, calls: list[CommitCall], since: float | None = None) -> list[CommitOutcome]:
        self.started.release()
        assert self.permission.acquire(timeout=10)
        self.flushes.append(len(calls))
        return self.flush(calls)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as threads:
        yield threads


def crowd(pool: ThreadPoolExecutor, coalescer: GroupCommit, gate: Gated, size: int) -> list[Any]:
    """One call in progress, and ``size`` calls queued behind it."""
    futures = [pool.submit(coalescer.send, call(0))]
    assert gate.started.acquire(timeout=10)
    futures += [pool.submit(coalescer.send, call(n)) for n in range(1, size + 1)]
    while len(coalescer._waiting) < size:
        threading.Event().wait(0.001)
    return futures


def test_a_lone_caller_is_immediate_and_others_share_a_flush(pool: ThreadPoolExecutor) -> None:
    gate = Gated()
    coalescer = GroupCommit(gate)
    futures = crowd(pool, coalescer, gate, 20)
    gate.permission.release(10)
    assert [future.result(10).ts for future in futures] == list(range(21))
    assert gate.flushes == [1, 20]


def test_each_caller_gets_the_error_of_a_failing_store(pool: ThreadPoolExecutor) -> None:
    """Each gets an error of its own, and the next caller starts afresh."""

    def fail(calls: list[CommitCall]) -> list[CommitOutcome]:
        raise StoreUnavailable("gone")

    gate = Gated(fail)
    coalescer = GroupCommit(gate)
    futures = crowd(pool, coalescer, gate, 5)
    gate.permission.release(10)
    errors = [future.exception(10) for future in futures]
    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 6
    # All callers have the one error of the store as their cause.
    causes = {id(error.__cause__) for error in errors[1:]}
    assert len(causes) == 1
    assert isinstance(errors[1].__cause__, StoreUnavailable)
    assert errors[1].__cause__.__traceback__ is not None
    gate.flush = outcomes
    assert coalescer.send(call(7)) == Committed(7, ())


def test_one_bad_call_does_not_fail_the_others(pool: ThreadPoolExecutor) -> None:
    """A flush that fails because of one call is repeated call by call."""

    def pick(calls: list[CommitCall]) -> list[CommitOutcome]:
        if any(c.parts[0].body == '{"n":3}' for c in calls):
            raise InvalidBody("three")
        return outcomes(calls)

    gate = Gated(pick)
    coalescer = GroupCommit(gate)
    futures = crowd(pool, coalescer, gate, 5)
    gate.permission.release(20)
    assert isinstance(futures[3].exception(10), InvalidBody)
    del futures[3]
    assert [future.result(10).ts for future in futures] == [0, 1, 2, 4, 5]


def test_draining_waits_for_every_answer(pool: ThreadPoolExecutor) -> None:
    gate = Gated()
    coalescer = GroupCommit(gate)
    futures = crowd(pool, coalescer, gate, 3)
    drained = pool.submit(coalescer.drain)
    assert not drained.done()
    gate.permission.release(10)
    drained.result(10)
    assert all(future.done() or future.result(10) for future in futures)


def test_a_flush_is_bounded() -> None:
    assert share([call(0)]) == 1
    assert share([call(0)] * (MAX_CALLS + 5)) == MAX_CALLS
    assert share([call(0, MAX_BYTES + 1)] * 3) == 1
    assert share([call(0, MAX_BYTES // 2)] * 3) == 2


def test_threads_get_their_own_ids(store_url: str, pool: ThreadPoolExecutor) -> None:
    """Every caller gets the id of its own record. Numbers are dense, and there are fewer flushes
    than calls."""
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
    """Many tasks need two flushes: that of the first caller, and one for all others."""

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


def test_a_refused_key_fails_only_its_own_call(durable_url: str) -> None:
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
            assert await hr.topic("t").length() == 6

    asyncio.run(scenario())


def test_a_cancelled_caller_does_not_affect_the_others(durable_url: str) -> None:
    """Whichever caller leads. Records of cancelled callers may be stored, those of the others
    are."""

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
    """Calls in progress are committed, later ones are refused, and none hangs."""

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
            assert await again.topic("t").length() == 20

    asyncio.run(scenario())


def test_a_cancelled_caller_learns_of_it_when_its_call_has_an_outcome() -> None:
    """If its call was not sent yet, it ends immediately: the call never will be."""

    async def scenario() -> None:
        sent: list[int] = []
        is_let_through = [asyncio.Event(), asyncio.Event()]

        async def flush(calls: list[CommitCall], since: float | None = None) -> list[str]:
            sent.append(len(calls))
            await is_let_through[len(sent) - 1].wait()
            return ["done"] * len(calls)

        crowd = AsyncGroupCommit[CommitCall, str](flush)
        leader, other, cancelled, leaving = (
            asyncio.ensure_future(crowd.send(CommitCall(parts=()))) for _ in range(4)
        )
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(leaving, 10)
        is_let_through[0].set()
        assert await leader == "done"
        while len(sent) < 2:
            await asyncio.sleep(0)
        for _ in range(2):
            cancelled.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not cancelled.done()
        is_let_through[1].set()
        assert await other == "done"
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(cancelled, 10)
        assert sent == [1, 2]

    asyncio.run(scenario())


def test_each_task_gets_the_error_of_a_failing_store() -> None:
    """Each gets an error of its own, whose cause is that of the store."""

    async def scenario() -> list[Any]:
        permission = asyncio.Event()

        async def fail(calls: list[CommitCall], since: float | None = None) -> list[CommitOutcome]:
            await permission.wait()
            raise StoreUnavailable("gone")

        coalescer = AsyncGroupCommit(fail)
        tasks = [asyncio.ensure_future(coalescer.send(call(n))) for n in range(6)]
        await asyncio.sleep(0)
        permission.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    errors = asyncio.run(scenario())
    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 6
    causes = [error.__cause__ for error in errors if error.__cause__ is not None]
    assert len(causes) >= 5
    assert all(isinstance(cause, StoreUnavailable) for cause in causes)


def test_calls_of_a_cancelled_flush_are_not_sent_again() -> None:
    """An event loop that ends cancels the flush under way. What it sent may be stored."""

    async def scenario() -> None:
        sent: list[int] = []

        async def flush(calls: list[CommitCall], since: float | None = None) -> list[str]:
            sent.append(len(calls))
            while len(sent) == 1 and len(crowd._waiting) < 2:
                await asyncio.sleep(0)
            if len(calls) > 1:
                await asyncio.Event().wait()
            return ["done"]

        crowd = AsyncGroupCommit[CommitCall, str](flush)
        tasks = [asyncio.ensure_future(crowd.send(call(n))) for n in range(3)]
        while len(sent) < 2:
            await asyncio.sleep(0)
        assert crowd._task is not None
        crowd._task.cancel()
        await asyncio.wait_for(crowd.drain(), 10)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[0] == "done"
        assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[1:])
        assert sent == [1, 2]

    asyncio.run(scenario())
