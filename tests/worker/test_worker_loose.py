"""Claims that are answered before they are on the disk: nothing of them is begun with before."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from served import Claims, Clock
from workshop import Gate, Shop, Signal, heard, until

from headrace import Query
from headrace.contract.items import Outcome
from headrace.model.items import State
from headrace.worker import RetryAfter
from headrace.worker.claiming import MOST_CHUNKS

CHUNK = 2
FIRST = list(range(CHUNK))
"""What the first claim brings, which is never loose: nobody knows whether there is more."""


@pytest.fixture
def claims(claims: Claims) -> Claims:
    claims.are_loose = True
    return claims


def lanes_of(worker: Any) -> list[threading.Thread]:
    return list(worker._engine.lanes._threads.values())


def release(shop: Shop, *items: int) -> None:
    """Take claims away from whoever has them."""
    said = [Outcome(item=id, token=shop.item(id).token, kind="release") for id in items]
    shop.run("settle", shop.name, said)


@pytest.mark.usefixtures("claims")
def test_handlers_wait_for_the_disk(shop: Shop) -> None:
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    shop.push(*range(3 * CHUNK))
    shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    assert seen.seen == FIRST
    gate.open()
    assert seen.wait(3 * CHUNK) == list(range(3 * CHUNK))


def held_batches(shop: Shop, claims: Claims, seen: Signal) -> tuple[Any, Gate]:
    """A worker whose next batches are [2, 3] and [5, 6], when the first of those waits for the
    disk."""
    gate = shop.valve.hold("secure_claim")
    claims.before[2] = gate.arrived.wait
    shop.push(*range(4 * CHUNK))
    worker = shop.work(
        lambda items: seen([item.payload for item in items]), chunk=CHUNK, batch=True
    )
    until(lambda: claims.answered >= 4, "chunks that were claimed ahead")
    buffer = worker._engine.intake.buffer
    until(lambda: len(buffer) == 2 * CHUNK, "both of them")
    # Gone as the items of a channel go that is put off.
    buffer.popleft()
    return worker, gate


def test_batches_wait_for_the_disk(shop: Shop, claims: Claims) -> None:
    """For all claims that they have items of."""
    seen = Signal()
    _, gate = held_batches(shop, claims, seen)
    for expected in ([FIRST], [FIRST, [2, 3]], [FIRST, [2, 3]]):
        gate.arrived.wait()
        assert seen.seen == expected
        gate, before = shop.valve.hold("secure_claim"), gate
        before.open()
    assert seen.wait(3)[2] == [5, 6]
    gate.open()


def test_a_pause_meanwhile_hands_all_of_a_batch_back(shop: Shop, claims: Claims) -> None:
    """Also those whose claim is on the disk already."""
    seen = Signal()
    worker, gate = held_batches(shop, claims, seen)
    for _ in range(2):
        gate.arrived.wait()
        gate, before = shop.valve.hold("secure_claim"), gate
        before.open()
    # Of the second batch one claim is on the disk, and the other is on its way.
    gate.arrived.wait()
    worker.pause()
    gate.open()
    # The one that the test has taken out of the buffer stays.
    until(lambda: shop.counts.active == 1, "all that was handed back")
    assert seen.seen == [FIRST, [2, 3]]


def test_a_claim_is_brought_there_once(shop: Shop, claims: Claims) -> None:
    """However many lanes begin with items of it."""
    seen = Signal()
    shop.push(*range(24))
    shop.work(lambda item: seen(item.payload), chunk=6, concurrency=3)
    assert sorted(seen.wait(24)) == list(range(24))
    assert claims.loosely[:4] == [False, True, True, True]
    assert len(shop.valve.ran["secure_claim"].seen) == 3


def test_a_claim_that_is_there_by_now_is_not_brought_there(shop: Shop, claims: Claims) -> None:
    """Something else was, behind it."""
    seen, store = Signal(), shop.hr._store
    store.is_secured = lambda token: True  # type: ignore[method-assign]
    shop.push(*range(3 * CHUNK))
    shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    assert seen.wait(3 * CHUNK) == list(range(3 * CHUNK))
    assert claims.loosely[:3] == [False, True, True]
    assert "secure_claim" not in shop.valve.ran


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.usefixtures("claims")
def test_what_cannot_be_brought_there_is_handed_back(shop: Shop, batch: bool) -> None:
    """As if it had not been claimed; and it is told of."""
    seen = Signal()

    def handle(given: Any) -> None:
        for item in given if batch else [given]:
            seen((item.payload, item.attempts))

    gate = shop.valve.hold("claim_items")
    shop.valve.break_next("secure_claim", OSError("not now"))
    shop.push(*range(3 * CHUNK))
    trouble = heard(shop.work(handle, chunk=CHUNK, batch=batch), "error")
    gate.open()
    assert sorted(seen.wait(3 * CHUNK)) == [(n, 1) for n in range(3 * CHUNK)]
    [failure] = trouble.wait()
    assert "not now" in str(failure)


@pytest.mark.usefixtures("claims")
def test_a_claim_that_does_not_stand_any_more_is_lost(shop: Shop) -> None:
    """The server went away, and has forgotten it."""
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    ids = shop.push(*range(3 * CHUNK))
    lost = heard(shop.work(lambda item: seen(item.payload), chunk=CHUNK), "lost")
    gate.arrived.wait()
    release(shop, *ids[CHUNK : 2 * CHUNK])
    gate.open()
    assert sorted(event.item.payload for event in lost.wait(CHUNK)) == [2, 3]
    assert sorted(seen.wait(3 * CHUNK)) == list(range(3 * CHUNK))


def test_what_was_taken_away_does_not_take_the_rest_with_it(shop: Shop, claims: Claims) -> None:
    """One item of a claim is gone; the others are handled, in their order."""
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    ids = shop.push(*range(4 * CHUNK))
    shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    [taken] = shop.run("items", shop.name, State.ACTIVE, ids[CHUNK] - 1, 1)
    said = Outcome(item=taken.id, token=taken.token, kind="drop")
    shop.run("settle", shop.name, [said])
    gate.open()
    left = [n for n in range(4 * CHUNK) if n != CHUNK]
    assert seen.wait(len(left)) == left


@pytest.mark.usefixtures("claims")
def test_nothing_is_begun_with_after_a_stop(shop: Shop) -> None:
    """It does not wait for the disk, and whatever comes from there is too late."""
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    shop.push(*range(3 * CHUNK))
    worker = shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    worker.stop(0)
    until(lambda: shop.counts.active == 0, "all that was handed back")
    gate.open()
    until(lambda: not any(thread.is_alive() for thread in lanes_of(worker)), "the end of lanes")
    assert seen.seen == FIRST


@pytest.mark.usefixtures("claims")
def test_after_a_failure_the_next_claim_waits_for_the_disk(shop: Shop, claims: Claims) -> None:
    """Else it would fail again and again, as fast as it can."""
    seen = Signal()
    shop.valve.break_next("secure_claim", OSError("not now"))
    shop.push(*range(3 * CHUNK))
    shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    seen.wait(3 * CHUNK)
    failed = claims.loosely.index(True)
    assert False in claims.loosely[failed:]


@pytest.mark.usefixtures("claims")
def test_a_pause_meanwhile_hands_it_back(shop: Shop) -> None:
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    shop.push(*range(3 * CHUNK))
    worker = shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    gate.arrived.wait()
    worker.pause()
    gate.open()
    until(lambda: shop.counts.active == 0, "all that was handed back")
    assert seen.seen == FIRST


@pytest.mark.usefixtures("claims")
def test_a_channel_that_is_put_off_meanwhile_is_handed_back(shop: Shop) -> None:
    """One lane is about to begin with an item of it when the other says so; and the store is told
    before the disk is ready."""
    gate, seen = shop.valve.hold("secure_claim"), Signal()

    def handle(item: Any) -> object:
        seen(item.payload)
        if item.payload != FIRST[-1]:
            return None
        gate.arrived.wait()
        return RetryAfter(delay=3600)

    shop.push(*range(3 * CHUNK), channel={"site": "shop"})
    shop.work(handle, chunk=CHUNK, concurrency=2, select=Query())
    gate.arrived.wait()
    until(lambda: shop.counts.active == 1, "the end of all that is handed back")
    gate.open()
    until(lambda: shop.counts.active == 0, "all that was handed back")
    assert seen.seen == FIRST


def test_the_next_chunks_are_claimed_meanwhile(shop: Shop, claims: Claims) -> None:
    """Some and no more, before handlers have begun with the one that waits for the disk."""
    gate, seen = shop.valve.hold("secure_claim"), Signal()
    claims.before[2] = gate.arrived.wait
    shop.push(*range(20 * CHUNK))
    worker = shop.work(lambda item: seen(item.payload), chunk=CHUNK)
    # The first one was begun with, of the second an item is out of the buffer.
    most = 2 + MOST_CHUNKS
    until(lambda: claims.answered == most, "chunks that were claimed ahead")
    intake = worker._engine.intake
    until(lambda: intake._leading.locked() and not intake.may_run_ahead, "who waits to claim")
    assert (len(claims.by), seen.seen) == (most, FIRST)
    gate.open()
    assert seen.wait(20 * CHUNK) == list(range(20 * CHUNK))


@pytest.mark.parametrize(("on_disk", "is_outrun"), [(5.0, True), (0.0, False)])
def test_time_on_the_disk_is_not_that_of_handlers(
    shop: Shop, clock: Clock, claims: Claims, on_disk: float, is_outrun: bool
) -> None:
    """Between two claims of a second each lie five and a half: half of one is theirs, or all."""
    intake: Any = shop.work(lambda item: None, chunk=CHUNK)._engine.intake
    until(lambda: claims.answered == 1, "a claim that brought nothing")
    intake._taken_at, intake._securing.seconds = clock.now, on_disk
    since = clock.now + 5.5
    clock.now = since + 1.0
    intake._compare(since, is_full=True)
    assert intake._is_outrun is is_outrun


async def handle_async(item: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options"),
    [(lambda item: None, {"chunk": 1}), (handle_async, {"chunk": CHUNK})],
    ids=["one by one", "async"],
)
def test_claims_of_others_are_not_loose(
    shop: Shop, claims: Claims, handler: Callable[..., Any], options: dict[str, Any]
) -> None:
    """Of those who hold nothing back, and of those whose handlers run on an event loop."""
    shop.push(*range(3 * CHUNK))
    shop.work(handler, **options)
    until(lambda: sum(shop.valve.settles) == 3 * CHUNK, "all items")
    assert not any(claims.loosely)


def test_what_comes_alone_does_not_wait_twice(shop: Shop, claims: Claims) -> None:
    """After a claim that brought less than a chunk there is none under way that could gain."""
    done = Signal()
    shop.push(*range(CHUNK + 1))
    shop.work(lambda item: done(item.payload), chunk=CHUNK)
    done.wait(CHUNK + 1)
    until(lambda: claims.answered == 3, "a claim that brought nothing")
    shop.push(9)
    done.wait(CHUNK + 2)
    assert claims.loosely[:4] == [False, True, False, False]
