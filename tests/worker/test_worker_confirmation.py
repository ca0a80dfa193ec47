"""Claims that have to be confirmed: no handler begins with an item of them before."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from served_store import Claims, Clock
from worker_fixtures import Gate, Signal, WorkerEnv, events_of, until

from headrace.contract.items import Outcome
from headrace.model.queues.items import State
from headrace.types import Query
from headrace.worker import RetryAfter
from headrace.worker.claim_ahead import MAX_CHUNKS

CHUNK = 2
FIRST = list(range(CHUNK))
"""The items of the first claim, which the store confirms: there may be no second one."""


@pytest.fixture
def claims(claims: Claims) -> Claims:
    claims.are_unconfirmed = True
    return claims


def threads_of(worker: Any) -> list[threading.Thread]:
    return list(worker._engine.executor._threads.values())


def release(env: WorkerEnv, *items: int) -> None:
    """Release items, whichever client has claimed them."""
    said = [Outcome(item=id, token=env.item(id).token, kind="release") for id in items]
    env.run("queues.settle", env.name, said)


@pytest.mark.usefixtures("claims")
def test_handlers_wait_for_the_confirmation(env: WorkerEnv) -> None:
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    env.push(*range(3 * CHUNK))
    env.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    assert seen.seen == FIRST
    gate.open()
    assert seen.wait(3 * CHUNK) == list(range(3 * CHUNK))


def held_batches(env: WorkerEnv, claims: Claims, seen: Signal) -> tuple[Any, Gate]:
    """A worker whose next batches are [2, 3] and [5, 6], while the first is being confirmed."""
    gate = env.interceptor.stop_next("queues.confirm")
    claims.before[2] = gate.arrived.wait
    env.push(*range(4 * CHUNK))
    worker = env.work(lambda items: seen([item.payload for item in items]), chunk=CHUNK, batch=True)
    until(lambda: claims.answered >= 4, "chunks that were claimed ahead")
    buffer = worker._engine.prefetcher.buffer
    until(lambda: len(buffer) == 2 * CHUNK, "both of them")
    # Gone as the items of a channel go that is put off.
    buffer.popleft()
    return worker, gate


def test_batches_wait_for_the_confirmation(env: WorkerEnv, claims: Claims) -> None:
    """For all claims that they have items of."""
    seen = Signal()
    _, gate = held_batches(env, claims, seen)
    for expected in ([FIRST], [FIRST, [2, 3]], [FIRST, [2, 3]]):
        gate.arrived.wait()
        assert seen.seen == expected
        gate, before = env.interceptor.stop_next("queues.confirm"), gate
        before.open()
    assert seen.wait(3)[2] == [5, 6]
    gate.open()


def test_a_pause_meanwhile_hands_all_of_a_batch_back(env: WorkerEnv, claims: Claims) -> None:
    """Also those whose claim is confirmed already."""
    seen = Signal()
    worker, gate = held_batches(env, claims, seen)
    for _ in range(2):
        gate.arrived.wait()
        gate, before = env.interceptor.stop_next("queues.confirm"), gate
        before.open()
    # One claim of the second batch is confirmed, and the other is being confirmed.
    gate.arrived.wait()
    worker.pause()
    gate.open()
    # The item that the test has removed from the buffer stays.
    until(lambda: env.counts.active == 1, "all that was released")
    assert seen.seen == [FIRST, [2, 3]]


def test_a_claim_is_confirmed_once(env: WorkerEnv, claims: Claims) -> None:
    """However many threads begin with items of it."""
    seen = Signal()
    env.push(*range(24))
    env.work(lambda item: seen(item.payload), chunk=6, concurrency=3)
    assert sorted(seen.wait(24)) == list(range(24))
    assert claims.may_confirm[:4] == [False, True, True, True]
    assert len(env.interceptor.ran["queues.confirm"].seen) == 3


def test_a_claim_that_was_confirmed_meanwhile_is_not_confirmed_again(
    env: WorkerEnv, claims: Claims
) -> None:
    """The driver may know it from another operation."""
    seen = Signal()
    claims.is_confirmed_meanwhile = True
    env.push(*range(3 * CHUNK))
    env.work(lambda item: seen(item.payload), chunk=CHUNK)
    assert seen.wait(3 * CHUNK) == list(range(3 * CHUNK))
    assert claims.may_confirm[:3] == [False, True, True]
    assert "queues.confirm" not in env.interceptor.ran


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.usefixtures("claims")
def test_a_claim_that_cannot_be_confirmed_is_released(env: WorkerEnv, batch: bool) -> None:
    """As if it had not been claimed. The worker emits the error."""
    seen = Signal()

    def handle(given: Any) -> None:
        for item in given if batch else [given]:
            seen((item.payload, item.attempts))

    gate = env.interceptor.stop_next("queues.claim")
    env.interceptor.fail_next("queues.confirm", OSError("not now"))
    env.push(*range(3 * CHUNK))
    trouble = events_of(env.work(handle, chunk=CHUNK, batch=batch), "error")
    gate.open()
    assert sorted(seen.wait(3 * CHUNK)) == [(n, 1) for n in range(3 * CHUNK)]
    [failure] = trouble.wait()
    assert "not now" in str(failure)


@pytest.mark.usefixtures("claims")
def test_an_invalid_claim_is_lost(env: WorkerEnv) -> None:
    """A server that crashed has lost it."""
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    ids = env.push(*range(3 * CHUNK))
    lost = events_of(env.work(lambda item: seen(item.payload), chunk=CHUNK), "lost")
    gate.arrived.wait()
    release(env, *ids[CHUNK : 2 * CHUNK])
    gate.open()
    assert sorted(event.item.payload for event in lost.wait(CHUNK)) == [2, 3]
    assert sorted(seen.wait(3 * CHUNK)) == list(range(3 * CHUNK))


def test_an_item_that_was_lost_does_not_affect_the_rest(env: WorkerEnv, claims: Claims) -> None:
    """One item of a claim is gone; the others are handled, in their order."""
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    ids = env.push(*range(4 * CHUNK))
    env.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    [lost] = env.run("queues.items", env.name, State.ACTIVE, ids[CHUNK] - 1, 1)
    said = Outcome(item=lost.id, token=lost.token, kind="drop")
    env.run("queues.settle", env.name, [said])
    gate.open()
    left = [n for n in range(4 * CHUNK) if n != CHUNK]
    assert seen.wait(len(left)) == left


@pytest.mark.usefixtures("claims")
def test_nothing_is_begun_with_after_a_stop(env: WorkerEnv) -> None:
    """A stop does not wait for the confirmation, which comes too late."""
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    env.push(*range(3 * CHUNK))
    worker = env.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    worker.stop(0)
    until(lambda: env.counts.active == 0, "all that was released")
    gate.open()
    until(lambda: not any(thread.is_alive() for thread in threads_of(worker)), "the end of threads")
    assert seen.seen == FIRST


@pytest.mark.usefixtures("claims")
def test_after_a_failure_the_store_confirms_the_next_claim(env: WorkerEnv, claims: Claims) -> None:
    """Otherwise it would fail repeatedly without a delay."""
    seen = Signal()
    env.interceptor.fail_next("queues.confirm", OSError("not now"))
    env.push(*range(3 * CHUNK))
    env.work(lambda item: seen(item.payload), chunk=CHUNK)
    seen.wait(3 * CHUNK)
    failed = claims.may_confirm.index(True)
    assert False in claims.may_confirm[failed:]


@pytest.mark.usefixtures("claims")
def test_a_pause_meanwhile_hands_it_back(env: WorkerEnv) -> None:
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    env.push(*range(3 * CHUNK))
    worker = env.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    worker.pause()
    gate.open()
    until(lambda: env.counts.active == 0, "all that was released")
    assert seen.seen == FIRST


@pytest.mark.usefixtures("claims")
def test_items_of_a_channel_delayed_meanwhile_are_released(env: WorkerEnv) -> None:
    """While one thread confirms a claim of the channel, the handler of another delays it, and the
    store knows that before the confirmation."""
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()

    def handle(item: Any) -> object:
        seen(item.payload)
        if item.payload != FIRST[-1]:
            return None
        gate.arrived.wait()
        return RetryAfter(delay=3600)

    env.push(*range(3 * CHUNK), channel={"site": "shop"})
    env.work(handle, chunk=CHUNK, concurrency=2, select=Query())
    gate.arrived.wait()
    until(lambda: env.counts.active == 1, "the end of all that is released")
    gate.open()
    until(lambda: env.counts.active == 0, "all that was released")
    assert seen.seen == FIRST


def test_the_next_chunks_are_claimed_meanwhile(env: WorkerEnv, claims: Claims) -> None:
    """A few of them, before handlers begin with the chunk that is being confirmed."""
    gate, seen = env.interceptor.stop_next("queues.confirm"), Signal()
    claims.before[2] = gate.arrived.wait
    env.push(*range(20 * CHUNK))
    worker = env.work(lambda item: seen(item.payload), chunk=CHUNK)
    # Handlers have begun with the first, and an item of the second was popped from the buffer.
    most = 2 + MAX_CHUNKS
    until(lambda: claims.answered == most, "chunks that were claimed ahead")
    prefetcher = worker._engine.prefetcher
    until(
        lambda: prefetcher._claiming.locked() and not prefetcher.may_run_ahead,
        "a thread that waits to claim",
    )
    assert (len(claims.by), seen.seen) == (most, FIRST)
    gate.open()
    assert seen.wait(20 * CHUNK) == list(range(20 * CHUNK))


@pytest.mark.parametrize(("confirming", "is_outrun"), [(5.0, True), (0.0, False)])
def test_time_of_confirmations_is_not_that_of_handlers(
    env: WorkerEnv, clock: Clock, claims: Claims, confirming: float, is_outrun: bool
) -> None:
    """Two claims of a second each are 5.5 seconds apart, of which handlers need 0.5 or all."""
    worker = env.work(lambda item: None, chunk=CHUNK)
    prefetcher: Any = worker._engine.prefetcher
    until(lambda: claims.answered, "a claim that brought nothing")
    worker.pause()
    until(lambda: worker.status == "paused", "the end of its claims")
    ahead, prefetcher._confirmer.seconds = prefetcher._ahead, confirming
    ahead._claimed_at = clock.now
    since = clock.now + 5.5
    clock.now = since + 1.0
    ahead.compare(since, CHUNK, lambda: True, is_full=True)
    assert ahead.is_wanted is is_outrun


async def handle_async(item: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options"),
    [(lambda item: None, {"chunk": 1}), (handle_async, {"chunk": CHUNK})],
    ids=["one by one", "async"],
)
def test_other_workers_do_not_confirm_claims(
    env: WorkerEnv, claims: Claims, handler: Callable[..., Any], options: dict[str, Any]
) -> None:
    """Those with a chunk of one, and those whose handlers run on an event loop."""
    env.push(*range(3 * CHUNK))
    env.work(handler, **options)
    until(lambda: sum(env.interceptor.settles) == 3 * CHUNK, "all items")
    assert not any(claims.may_confirm)


def test_a_single_item_does_not_wait_twice(env: WorkerEnv, claims: Claims) -> None:
    """After a claim of less than a chunk the worker does not claim ahead, so it gains nothing."""
    done = Signal()
    env.push(*range(CHUNK + 1))
    env.work(lambda item: done(item.payload), chunk=CHUNK)
    done.wait(CHUNK + 1)
    until(lambda: claims.answered >= 3, "a claim that brought nothing")
    env.push(9)
    done.wait(CHUNK + 2)
    assert claims.may_confirm[:4] == [False, True, False, False]
