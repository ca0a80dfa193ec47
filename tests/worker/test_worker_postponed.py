"""Outcomes on their way to the store: a bounded number per call, and refused ones wait
separately."""

import time
from typing import Any

import pytest
from worker_fixtures import WorkerEnv, events_of, until

from headrace.model.queues.items import State
from headrace.worker import Complete, Item, Push, completer


@pytest.fixture(autouse=True)
def queues(env: WorkerEnv) -> None:
    env.create(chunk=10, max_attempts=1)
    env.outside.queues.create("full", max_items=1)
    env.outside.push("full", "first")


def outcome(item: Item) -> Any:
    if item.payload == "good":
        return None
    return Complete(then=[Push("full", item.payload)])


async def async_outcome(item: Item) -> Any:
    return outcome(item)


def empty_full_queue(env: WorkerEnv) -> list[Any]:
    """Claim and complete the items of the full queue. Return their payloads."""
    items = env.outside.queues.create("full", exist_ok=True).claim(10, wait=10)
    for item in items:
        item.complete()
    return [item.payload for item in items]


@pytest.mark.parametrize("handler", [outcome, async_outcome])
def test_other_outcomes_do_not_wait_for_capacity(env: WorkerEnv, handler: Any) -> None:
    worker = env.work(handler)
    data, errors = events_of(worker, "data"), events_of(worker, "error")
    env.push("good", "stuck", "good", "good")
    assert [done.item.payload for done in data.wait(3)] == ["good"] * 3
    env.push("good")
    data.wait(4)
    assert env.counts.active == 1
    assert {(trouble.doing, trouble.error.code) for trouble in errors.wait(2)} == {
        ("settle", "queue_full")
    }
    assert empty_full_queue(env) == ["first"]
    assert data.wait(5)[4].item.payload == "stuck"
    assert empty_full_queue(env) == ["stuck"]
    assert (worker.done, worker.failed, env.counts.total) == (5, 0, 0)


def test_several_outcomes_wait_independently(env: WorkerEnv) -> None:
    """One settle applies them all, together with its last one and with others that found a full
    queue."""
    env.outside.queues.create("other", max_items=1)
    env.outside.push("other", "first")

    def handle(item: Item) -> Any:
        return Complete(then=[Push(item.payload, 1)]) if item.payload != "good" else None

    settle = env.interceptor.stop_next("queues.settle")
    worker = env.work(handle)
    data = events_of(worker, "data")
    env.push("good", "full", "good", "other", "full", "good")
    settle.arrived.wait()
    settle.open()
    data.wait(3)
    until(lambda: env.counts.active == 3, "three to wait")
    empty_full_queue(env)
    assert data.wait(4)[3].item.payload == "full"
    for item in env.outside.queues.create("other", exist_ok=True).claim(wait=10):
        item.complete()
    assert data.wait(5)[4].item.payload == "other"
    empty_full_queue(env)
    assert data.wait(6)[5].item.payload == "full"


def test_a_stop_releases_a_waiting_outcome(env: WorkerEnv) -> None:
    """Without an attempt, when the grace is over, and without waiting for the store's patience."""
    worker = env.work(outcome)
    errors = events_of(worker, "error")
    [item] = env.push("stuck")
    errors.wait()
    since = time.monotonic()
    worker.stop(0.1)
    assert time.monotonic() - since < completer.MAX_WAIT_SECONDS + 2
    state = env.item(item)
    assert (state.state, state.attempts) == (State.PENDING, 0)


def test_a_worker_that_cannot_store_anything_claims_no_more(
    env: WorkerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "MAX_POSTPONED", 5)
    worker = env.work(outcome, chunk=1)
    errors = events_of(worker, "error")
    env.push(*["stuck"] * 30)
    errors.wait(20)
    assert env.counts.active < 20
    worker.stop(0)
    assert env.counts.pending == 30


def test_a_settle_is_bounded(env: WorkerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many outcomes have come during the one before."""
    monkeypatch.setattr(completer, "MAX_OUTCOMES", 7)
    settle = env.interceptor.stop_next("queues.settle")
    worker = env.work(lambda item: None, chunk=50)
    data = events_of(worker, "data")
    env.push("good")
    settle.arrived.wait()
    env.push(*["good"] * 50)
    until(lambda: len(worker._engine.completer._outcomes) == 50, "outcomes behind the first one")
    settle.open()
    data.wait(51)
    assert env.interceptor.settles == [1, *[7] * 7, 1]
