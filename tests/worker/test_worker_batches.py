"""Handlers of several items per call."""

import asyncio
from typing import Any

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, events_of

from headrace.worker import Context, Drop, Item, Kill, Reject, Reschedule

KINDS = ["sync", "async"]


def handler_of(kind: str, function: Any) -> Any:
    if kind == "sync":
        return function

    async def handle(items: list[Item]) -> Any:
        await asyncio.sleep(0)
        return function(items)

    return handle


def states(env: WorkerEnv, kind: str, function: Any, count: int = 4) -> list[str]:
    """The states of some items that are handled together, in their order."""
    env.create(reject_delay=60)
    worker = env.work(handler_of(kind, function), batch=True, chunk=count)
    data = events_of(worker, "data")
    env.push(*range(count))
    found = {done.item.payload: done.settled.state for done in data.wait(count)}
    return [found[payload] for payload in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_at_most_a_chunk(env: WorkerEnv, kind: str) -> None:
    seen = Signal()
    worker = env.work(
        handler_of(kind, lambda items: seen([i.payload for i in items])), batch=True, chunk=3
    )
    env.push(*range(7))
    seen.wait_for(lambda seen: sum(map(len, seen)) == 7)
    worker.stop()
    assert [payload for batch in seen.seen for payload in batch] == list(range(7))
    assert max(map(len, seen.seen)) == 3
    assert worker.done == 7


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [None, True, [], {}, "words"], ids=repr)
def test_items_without_an_outcome_are_complete(env: WorkerEnv, kind: str, result: Any) -> None:
    assert states(env, kind, lambda items: result) == ["completed"] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_outcomes(env: WorkerEnv, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        return [None, Kill("x"), ValueError("as a value"), Drop]

    assert states(env, kind, handle) == ["completed", "dead", "planned", "dropped"]


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_by_id(env: WorkerEnv, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        return {items[1].id: Reschedule(delay=60), items[3].id: Reject("no")}

    assert states(env, kind, handle) == ["completed", "planned", "completed", "planned"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_outcome_for_all(env: WorkerEnv, kind: str) -> None:
    assert states(env, kind, lambda items: Drop()) == ["dropped"] * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [[None] * 5, {99: None}, [Drop, False]], ids=repr)
def test_an_answer_that_does_not_fit_rejects_all(env: WorkerEnv, kind: str, result: Any) -> None:
    assert states(env, kind, lambda items: result) == ["planned"] * 4
    assert len(env.errors()) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_raising_rejects_all(env: WorkerEnv, kind: str) -> None:
    def handle(items: list[Item]) -> Any:
        raise LookupError("all of them")

    assert states(env, kind, handle) == ["planned"] * 4
    assert {error.failure.type for error in env.errors()} == {"LookupError"}


@pytest.mark.parametrize("kind", KINDS)
def test_concurrent_batches(env: WorkerEnv, kind: str) -> None:
    """Busy is counted in items."""
    gate = Gate()

    async def ahandle(items: list[Item]) -> None:
        await asyncio.to_thread(gate, items)

    worker = env.work(gate if kind == "sync" else ahandle, batch=True, chunk=2, concurrency=2)
    env.push(*range(4))
    gate.arrived.wait(2)
    assert worker.busy == 4
    gate.open()


def test_a_batch_has_one_context(env: WorkerEnv) -> None:
    seen = Signal()
    env.work(lambda items, context: seen(context), batch=True, chunk=3)
    env.push(1)
    [context] = seen.wait()
    assert isinstance(context, Context)
    assert context.lost == frozenset()
