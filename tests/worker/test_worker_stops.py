"""How a worker pauses and ends."""

import asyncio
import random
import threading
import time
from typing import Any

import pytest
from workshop import PATIENCE, Gate, Shop, Signal, heard, until

from headrace.errors import InvalidOption, StoreUnavailable
from headrace.worker import Context, Item, Release, close_workers, crews, engine, register_worker


def in_thread(action: Any, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=action, args=args, daemon=True)
    thread.start()
    return thread


def test_stop_waits_for_what_runs_and_hands_back_the_rest(shop: Shop) -> None:
    gate = Gate()
    shop.push(1, 2, 3, 4)
    worker = shop.work(gate, chunk=3)
    states = heard(worker, "state")
    gate.arrived.wait()
    stopping = in_thread(worker.stop)
    until(lambda: shop.counts.pending == 3, "what has not begun to be handed back")
    assert (worker.status, shop.item(2).attempts, shop.counts.active) == ("stopping", 0, 1)
    assert stopping.is_alive()
    gate.open()
    stopping.join(PATIENCE)
    assert [state.after for state in states.seen] == ["stopping", "stopped"]
    assert (worker.done, len(gate.arrived.seen), shop.counts.pending) == (1, 1, 3)
    assert worker.join(0)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_is_not_done_in_time_is_handed_back_uncounted(shop: Shop, kind: str) -> None:
    """And what the handler says afterwards does not count."""
    gate, ended = Gate(), Signal()

    def handle(item: Item) -> None:
        gate(item)
        ended("late")

    async def ahandle(item: Item) -> None:
        gate.arrived(item)
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended("cancelled")

    worker = shop.work(handle if kind == "sync" else ahandle)
    data = heard(worker, "data")
    shop.push(1)
    gate.arrived.wait()
    worker.stop(0.05)
    assert worker.status == "stopped"
    item = shop.item(1)
    assert (item.state, item.attempts, item.crashes) == (1, 0, 0)
    [mine] = shop.claim()
    gate.open()
    assert ended.wait() == ["cancelled" if kind == "async" else "late"]
    assert shop.item(1).token == mine.token
    assert (worker.done, [type(done.outcome) for done in data.seen]) == (0, [Release])


def test_a_second_stop_shortens_the_grace(shop: Shop) -> None:
    gate = Gate()
    worker = shop.work(gate)
    shop.push(1)
    gate.arrived.wait()
    first = in_thread(worker.stop, 600)
    until(lambda: worker.status == "stopping", "the first stop")
    worker.stop(0)
    first.join(PATIENCE)
    assert not first.is_alive()
    assert shop.counts.pending == 1
    gate.open()


def test_stop_of_an_idle_worker_is_quick_and_can_be_repeated(shop: Shop) -> None:
    worker = shop.work(print)
    worker.stop()
    worker.stop()
    worker.kill()
    assert (worker.status, worker.join(0)) == ("stopped", True)


def test_stop_during_a_claim_gives_back_what_it_brings(shop: Shop) -> None:
    shop.push(1, 2)
    held = shop.valve.hold("claim_items")
    seen = Signal()
    worker = shop.work(seen, chunk=2)
    held.arrived.wait()
    stopping = in_thread(worker.stop)
    until(lambda: worker.status == "stopping", "the stop")
    held.open()
    stopping.join(PATIENCE)
    assert (seen.seen, shop.counts.pending, shop.counts.active) == ([], 2, 0)


@pytest.mark.parametrize("where", ["handler", "async handler", "listener"])
def test_a_worker_can_be_stopped_from_within(shop: Shop, where: str) -> None:
    """It does not wait for itself."""
    worker: Any = None

    def handle(item: Item) -> None:
        if where == "handler":
            worker.stop()

    async def ahandle(item: Item) -> None:
        worker.stop()

    worker = shop.work(ahandle if where == "async handler" else handle)
    if where == "listener":
        worker.on("data", lambda done: worker.stop())
    shop.push(1, 2)
    assert worker.join(PATIENCE)
    until(lambda: not shop.counts.active, "everything to be settled")
    assert worker.done >= 1


def test_stop_while_the_store_is_away_ends_in_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease decides then."""
    monkeypatch.setattr(engine, "HAND_BACK", 0.2)
    shop.valve.break_next("settle", *[StoreUnavailable("away")] * 1000)
    seen = Signal()
    worker = shop.work(seen)
    shop.push(1)
    seen.wait()
    worker.stop(0.1)
    assert (worker.status, worker.done, shop.counts.active) == ("stopped", 0, 1)


def test_the_first_word_on_an_item_counts(shop: Shop) -> None:
    """It was said in time, and waits behind a slow settle when the grace is over."""
    held, seen = shop.valve.hold("settle"), Signal()
    worker = shop.work(seen)
    shop.push(1)
    held.arrived.wait()
    shop.push(2)
    seen.wait(2)
    stopping = in_thread(worker.stop, 0)
    outbox = worker._engine.outbox
    until(lambda: len(outbox._outcomes) == 3, "both to be handed back as well")
    held.open()
    stopping.join(PATIENCE)
    assert (worker.done, worker.lost, shop.counts.total) == (2, 0, 0)


def test_kill_hands_back_what_has_not_begun_and_waits_for_nobody(shop: Shop) -> None:
    """What runs is left to itself; its claim is kept, and its outcome counts."""
    gate = Gate()
    shop.push(1, 2, 3)
    worker = shop.work(gate, chunk=3, lease=0.3)
    data = heard(worker, "data")
    gate.arrived.wait()
    worker.kill()
    assert (worker.status, worker.join(0)) == ("stopped", True)
    assert (shop.counts.active, shop.counts.pending) == (1, 2)
    shop.valve.ran["extend_items"].wait(2)
    gate.open()
    data.wait_for(lambda seen: [d.item.payload for d in seen if d.settled.state == "completed"])
    assert (len(gate.arrived.seen), shop.counts.active) == (1, 0)


def test_the_heart_of_a_killed_worker_rests(shop: Shop) -> None:
    """While its last handler runs there is nothing to do but to wait."""
    gate = Gate()
    worker = shop.work(gate)
    shop.push(1)
    gate.arrived.wait()
    worker.kill()
    shop.valve.ran["leave"].seen.clear()
    before = time.process_time()
    assert not threading.Event().wait(0.3)
    assert time.process_time() - before < 0.1
    gate.open()
    shop.valve.ran["leave"].wait()


def test_after_a_kill_another_worker_may_come(shop: Shop) -> None:
    gate, seen = Gate(), Signal()
    worker = shop.work(gate)
    shop.push(1)
    gate.arrived.wait()
    worker.kill()
    shop.push(2)
    shop.work(lambda item: seen(item.payload))
    assert seen.wait() == [2]
    gate.open()


def test_pause_hands_back_what_has_not_begun(shop: Shop) -> None:
    gate = Gate()
    shop.push(1, 2, 3)
    worker = shop.work(gate, chunk=3)
    gate.arrived.wait()
    worker.pause()
    assert worker.status == "paused"
    until(lambda: shop.counts.pending == 2, "the rest to be handed back")
    gate.open()
    until(lambda: not shop.counts.active, "the first to be settled")
    assert len(gate.arrived.seen) == 1
    worker.resume()
    gate.arrived.wait(3)


def test_a_paused_worker_can_be_stopped(shop: Shop) -> None:
    worker = shop.work(print)
    states = heard(worker, "state")
    worker.pause()
    worker.pause()
    worker.stop()
    worker.resume()
    assert [state.after for state in states.seen] == ["paused", "stopping", "stopped"]
    assert str(worker) == "<Worker on 'q', stopped>"


def test_the_block_ends_with_the_worker(shop: Shop) -> None:
    seen = Signal()
    with shop.work(seen) as worker:
        shop.push(1)
        seen.wait()
    assert (worker.status, worker.done) == ("stopped", 1)


def test_a_long_handler_can_see_that_it_should_end(shop: Shop) -> None:
    begun = Signal()

    def handle(item: Item, context: Context) -> Any:
        begun()
        until(lambda: context.is_stopping, "the stop")
        return Release()

    worker = shop.work(handle)
    shop.push(1)
    begun.wait()
    worker.stop()
    assert (shop.counts.pending, shop.item(1).attempts) == (1, 0)


def test_all_workers_of_a_client_stop_together(shop: Shop) -> None:
    worker, other = shop.work(print), register_worker(shop.hr, "other", print)
    close_workers(shop.hr)
    assert (worker.status, other.status) == ("stopped", "stopped")
    close_workers(shop.outside)


def test_a_process_that_ends_hands_everything_back(shop: Shop) -> None:
    gate = Gate()
    shop.push(1, 2)
    worker = shop.work(gate, chunk=2)
    gate.arrived.wait()
    crews._hand_back()
    assert (worker.status, shop.counts.pending, shop.counts.active) == ("stopped", 2, 0)
    gate.open()


def test_listeners(shop: Shop) -> None:
    """One who raises disturbs nobody; one who has had enough is not called again."""
    worker = shop.work(lambda item: None)

    def bad(event: Any) -> None:
        raise ValueError("badly listened")

    worker.on("data", bad)
    data = heard(worker, "data")
    off = worker.on("data", few := Signal())
    shop.push(1)
    few.wait()
    off()
    off()
    shop.push(2)
    data.wait(2)
    worker.stop()
    assert (len(few.seen), worker.done) == (1, 2)
    with pytest.raises(InvalidOption, match="data, error, state, lost"):
        worker.on("date", bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_happens_to_workers_each_item_is_done_once(shop: Shop, kind: str) -> None:
    """Paused, resized, stopped and killed at random, under load."""
    count, chance = 3000, random.Random(7)
    seen = Signal()

    def handle(item: Item) -> None:
        seen(item.payload)

    async def ahandle(item: Item) -> None:
        await asyncio.sleep(0)
        seen(item.payload)

    shop.create(worker_chunk=7, worker_concurrency=3)
    shop.push(*range(count))
    chosen = handle if kind == "sync" else ahandle
    worker = shop.work(chosen)
    while len(seen.seen) < count:
        match chance.randrange(6):
            case 0:
                worker.pause()
                worker.resume()
            case 1:
                shop.update(worker_concurrency=chance.randint(1, 6))
            case 2:
                shop.update(worker_chunk=chance.randint(1, 20))
            case 3:
                worker.stop()
                worker = shop.work(chosen)
            case 4:
                worker.kill()
                worker = shop.work(chosen)
            case 5:
                seen.wait(min(len(seen.seen) + 50, count))
    worker.stop()
    until(lambda: not shop.counts.total, "the last to be settled")
    assert sorted(seen.seen) == list(range(count))
    assert shop.counts.orphaned == 0
