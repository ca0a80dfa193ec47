"""Claims ahead of handlers: only where handlers would wait for claims otherwise."""

from typing import Any

import pytest
from msgspec.structs import replace
from workshop import PATIENCE, Gate, Shop, Signal, until

from headrace.worker import claiming

CHUNK = 2


class Clock:
    """Stands still but for claims, and for handlers that say how long they take."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A store that does its work elsewhere, and takes a second for each claim."""
    clock = Clock()
    store: Any = shop.hr._store
    run = store.run

    def run_slowly(op: Any) -> Any:
        answer = run(op)
        if op.name == "claim_items":
            clock.now += 1.0
        return answer

    monkeypatch.setattr(store, "run", run_slowly)
    monkeypatch.setattr(claiming, "monotonic", clock)
    store.capabilities = replace(store.capabilities, is_served=True)
    return clock


def handler_of(clock: Clock, gate: Gate, seconds: float, *, is_async: bool) -> Any:
    """Takes its time for the first chunk, and is held up in the second."""

    def handle(item: Any) -> None:
        clock.now += seconds
        if item.payload >= CHUNK:
            gate(item.payload)

    async def ahandle(item: Any) -> None:
        handle(item)

    return ahandle if is_async else handle


@pytest.mark.parametrize("is_async", [False, True])
def test_quick_handlers_find_the_next_chunk_claimed(
    shop: Shop, clock: Clock, is_async: bool
) -> None:
    """Handlers were done with the first chunk before the second could be claimed: so the third
    is claimed while the second is in their hands, and no fourth as long as it is."""
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    shop.work(handler_of(clock, gate, 0.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: shop.counts.active == 2 * CHUNK, "a chunk that was claimed ahead")
    assert len(shop.claim(5 * CHUNK)) == 2 * CHUNK
    gate.open()


@pytest.mark.parametrize("is_async", [False, True])
def test_slow_handlers_hold_no_more_than_a_chunk(shop: Shop, clock: Clock, is_async: bool) -> None:
    """A chunk takes them longer than a claim: whatever they have not begun is better off with
    other workers."""
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    shop.work(handler_of(clock, gate, 1.0, is_async=is_async), chunk=CHUNK)
    gate.arrived.wait()
    assert len(shop.claim(5 * CHUNK)) == 3 * CHUNK
    gate.open()


def test_a_chunk_of_one_holds_nothing_back(shop: Shop, clock: Clock) -> None:
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=1)
    gate.arrived.wait()
    assert len(shop.claim(5 * CHUNK)) == 5 * CHUNK - CHUNK - 1
    gate.open()


def test_what_is_claimed_ahead_is_handled_in_order(shop: Shop, clock: Clock) -> None:
    seen = Signal()
    shop.push(*range(100))
    shop.work(lambda item: seen(item.payload), chunk=3)
    assert seen.wait(100) == list(range(100))


def test_nothing_is_claimed_ahead_when_there_was_less_than_a_chunk(
    shop: Shop, clock: Clock
) -> None:
    """There is no more, or no room for more: handlers wait for it to come, not for the claim."""
    gate = Gate()
    shop.push(*range(CHUNK + 1))
    shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    shop.push(*range(CHUNK))
    assert len(shop.claim(CHUNK)) == CHUNK
    gate.open()


def test_a_pause_hands_back_what_was_claimed_ahead(shop: Shop, clock: Clock) -> None:
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: shop.counts.active == 2 * CHUNK, "a chunk that was claimed ahead")
    worker.pause()
    until(lambda: shop.counts.active == 1, "only what runs")
    gate.open()


def test_a_claim_ahead_that_fails_is_tried_again(shop: Shop, clock: Clock) -> None:
    """Nobody waits for it yet; whoever comes to, claims by himself."""
    gate, seen = Gate(), Signal()
    shop.push(*range(3 * CHUNK))

    def handle(item: Any) -> None:
        if item.payload == CHUNK - 1:
            # The next one is claimed by the lane, and the one behind that ahead of it.
            gate(item.payload)
        seen(item.payload)

    worker = shop.work(handle, chunk=CHUNK)
    trouble = Signal()
    worker.on("error", trouble)
    gate.arrived.wait()
    claims = len(shop.valve.ran["claim_items"].seen)
    run = shop.valve.run
    failed = Signal()

    def fail_once(op: Any) -> Any:
        is_ahead = len(shop.valve.ran["claim_items"].seen) == claims + 1 and not failed.seen
        if op.name == "claim_items" and is_ahead:
            failed(op.name)
            op.accept()
            raise OSError("not now")
        return run(op)

    store: Any = shop.hr._store
    store.run = fail_once
    gate.open()
    assert seen.wait(3 * CHUNK) == list(range(3 * CHUNK))
    assert failed.wait()
    assert trouble.wait()


def test_a_listener_of_the_one_who_claims_ahead_may_stop_the_worker(
    shop: Shop, clock: Clock
) -> None:
    """It is inside of the worker, and does not wait for its own end."""
    gate = Gate()
    shop.push(*range(5 * CHUNK))
    worker = shop.work(handler_of(clock, gate, 0.0, is_async=False), chunk=CHUNK)
    gate.arrived.wait()
    until(lambda: shop.counts.active == 2 * CHUNK, "a chunk that was claimed ahead")
    lanes: Any = worker._engine.lanes
    assert lanes.owns(lanes._scout)
    gate.open()
    worker.stop()
    lanes._scout.join(PATIENCE)
    assert not lanes._scout.is_alive()
