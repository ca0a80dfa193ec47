"""Claims ahead of handlers: only where handlers would wait for claims otherwise."""

import threading
from typing import Any

import pytest
from served import Claims, Clock
from workshop import PATIENCE, Gate, Shop, Signal, until

from headrace import Query
from headrace.worker import RetryAfter

CHUNK = 2
# Which claim is made while handlers are slow, and at which item.
AHEAD = 6
SLOW = 8 * CHUNK


def handler_of(clock: Clock, gate: Gate, seconds: float, *, is_async: bool) -> Any:
    """Takes its time for the first chunk, and is held up in the second."""

    def handle(item: Any) -> None:
        clock.now += seconds
        if item.payload >= CHUNK:
            gate(item.payload)

    async def ahandle(item: Any) -> None:
        handle(item)

    return ahandle if is_async else handle


def at_rest(worker: Any) -> None:
    """Wait until nobody claims, nor will before a handler ends."""
    intake = worker._engine.intake
    until(lambda: not intake.may_run_ahead and not intake._leading.locked(), "the end of claims")


@pytest.mark.parametrize("is_async", [False, True])
def test_quick_handlers_find_the_next_chunk_claimed(
    shop: Shop, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """Handlers were done with the first chunk before the second could be claimed: so the third
    is claimed while the second is in their hands, and no fourth as long as it is."""
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    at_rest(worker)
    assert claims.answered == 3
    until(lambda: shop.counts.active == 2 * CHUNK, "the end of the first chunk")
    gate.open()


@pytest.mark.parametrize("is_async", [False, True])
def test_handlers_that_are_quicker_still_get_more_at_once(
    shop: Shop, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """They wait although the next chunk is claimed while they work. When they do not any more, one
    is enough again."""
    seen = Signal()

    def handle(item: Any) -> None:
        seen(item.payload)
        if item.payload == SLOW:
            until(lambda: claims.answered > AHEAD, "what was claimed ahead")

    async def ahandle(item: Any) -> None:
        handle(item)

    def await_idle() -> None:
        """Until all that was claimed before is done."""
        before, lanes = sum(claims.sizes[:-1]), worker._engine.lanes
        until(lambda: len(seen.seen) == before and not lanes.busy, "handlers that wait")

    for number in range(2, AHEAD):
        claims.before[number] = await_idle
    shop.push(*range(20 * CHUNK))
    gate = shop.valve.hold("claim_items")
    worker = shop.work(ahandle if is_async else handle, chunk=CHUNK)
    gate.open()
    assert seen.wait(20 * CHUNK) == list(range(20 * CHUNK))
    chunks = [size // CHUNK for size in claims.sizes]
    assert chunks[: AHEAD + 2] == [1, 1, 1, 2, 3, 3, 3, 1]


@pytest.mark.parametrize("is_async", [False, True])
def test_slow_handlers_hold_no_more_than_a_chunk(
    shop: Shop, clock: Clock, claims: Claims, is_async: bool
) -> None:
    """A chunk takes them longer than a claim: whatever they have not begun is better off with
    other workers."""
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 1.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    at_rest(worker)
    assert claims.answered == 2
    until(lambda: shop.counts.active == CHUNK, "the end of the first chunk")
    gate.open()


def test_a_chunk_of_one_holds_nothing_back(shop: Shop, clock: Clock, claims: Claims) -> None:
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=1)
    gate.arrived.wait()
    at_rest(worker)
    assert claims.answered == CHUNK + 1
    gate.open()


def test_who_is_busy_is_not_run_ahead_of(shop: Shop, clock: Clock, claims: Claims) -> None:
    """All of the last chunk was begun, but not all is done: that may take long."""
    gate, is_last = Gate(), threading.Event()

    def handle(item: Any) -> None:
        if item.payload == 2 * CHUNK - 1:
            is_last.set()
            gate(item.payload)

    # The answer to the claim ahead comes when there is nothing left to begin.
    claims.before[2] = lambda: is_last.wait(PATIENCE)
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handle, chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    at_rest(worker)
    assert claims.answered == 3
    gate.open()


def test_what_is_claimed_ahead_is_handled_in_order(
    shop: Shop, clock: Clock, claims: Claims
) -> None:
    seen = Signal()
    shop.push(*range(100))
    shop.work(lambda item: seen(item.payload), chunk=3)
    assert seen.wait(100) == list(range(100))
    assert any(name.endswith("-ahead") for name in claims.by)


def test_nothing_is_claimed_ahead_when_there_was_less_than_a_chunk(
    shop: Shop, clock: Clock, claims: Claims
) -> None:
    """There is no more, or no room for more: handlers wait for it to come, not for the claim."""
    gate = Gate()
    shop.push(*range(CHUNK + 1))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    shop.push(*range(CHUNK))
    at_rest(worker)
    assert claims.answered == 2
    gate.open()


def test_a_pause_hands_back_what_was_claimed_ahead(
    shop: Shop, clock: Clock, claims: Claims
) -> None:
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: claims.answered == 3, "a chunk that was claimed ahead")
    worker.pause()
    until(lambda: shop.counts.active == 1, "only what runs")
    gate.open()


def test_what_comes_of_a_channel_that_must_not_run_is_handed_back(
    shop: Shop, clock: Clock, claims: Claims
) -> None:
    """A handler says so while a claim is under way that brings more of it."""
    seen, said = Signal(), threading.Event()

    def handle(item: Any) -> object:
        seen(item.payload)
        if item.payload != CHUNK:
            return None
        said.set()
        return RetryAfter(delay=3600)

    settle = shop.valve.hold("settle")
    claims.before[2] = lambda: said.wait(PATIENCE)
    shop.push(*range(5 * CHUNK), channel={"site": "shop"})
    shop.work(handle, chunk=CHUNK, select=Query())
    seen.wait_for(lambda all: CHUNK in all)
    until(lambda: claims.answered >= 3, "a chunk that was claimed ahead")
    settle.open()
    until(lambda: shop.counts.active == 0, "all that was handed back")
    assert seen.seen == list(range(CHUNK + 1))


def test_a_claim_ahead_that_fails_is_tried_again(shop: Shop, clock: Clock, claims: Claims) -> None:
    """Nobody waits for it yet; whoever comes to, claims by himself."""
    seen, trouble = Signal(), Signal()

    def fail() -> None:
        if claims.by[2].endswith("-ahead"):
            raise OSError("not now")

    claims.before[2] = fail
    shop.create(lock_duration=0.2)
    gate = shop.valve.hold("claim_items")
    shop.push(*range(3 * CHUNK))
    worker = shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    worker.on("error", trouble)
    gate.open()
    # Those of the claim that failed come back when it is over.
    assert set(seen.wait(3 * CHUNK)) == set(range(3 * CHUNK))
    assert trouble.wait()


def test_who_claims_ahead_may_stop_the_worker(shop: Shop, clock: Clock, claims: Claims) -> None:
    """A listener is called there: it is inside of the worker, and does not wait for its own end."""
    seen, stopped = Signal(), Signal()

    def fail() -> None:
        raise OSError("not now")

    def stop(_: object) -> None:
        worker.stop()
        stopped(threading.current_thread().name)

    claims.before[2] = fail
    gate = shop.valve.hold("claim_items")
    shop.push(*range(5 * CHUNK))
    worker = shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    worker.on("error", stop)
    gate.open()
    [name] = stopped.wait()
    assert name.endswith("-ahead")
    assert worker.join(PATIENCE)
    lanes: Any = worker._engine.lanes
    lanes._scout.join(PATIENCE)
    assert not lanes._scout.is_alive()
    assert worker._engine.intake._waiter is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_whose_scout_has_ended_gets_another(
    shop: Shop, clock: Clock, claims: Claims
) -> None:
    """Whatever has ended it: nobody else would claim."""
    seen = Signal()

    def end() -> None:
        raise SystemExit

    claims.before[2] = end
    shop.create(lock_duration=0.2)
    shop.push(*range(3 * CHUNK))
    shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    assert set(seen.wait(3 * CHUNK)) == set(range(3 * CHUNK))
