"""Heartbeats: claims are kept alive, and the store knows who works and says what they shall do."""

import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from workshop import PATIENCE, Gate, Shop, Signal, heard, until

from headrace.errors import StoreUnavailable
from headrace.testing.clocks import FakeClock
from headrace.worker import Context, Item, chores, crews, pulse, register_worker
from headrace.worker.holding import monotonic


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timed(url: str, clock: FakeClock) -> Iterator[Shop]:
    """A shop whose time stands still."""
    shop = Shop(url, clock=clock)
    yield shop
    shop.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_stuck_handler_keeps_its_claim(shop: Shop, kind: str) -> None:
    """Also one that blocks its event loop; what waits behind it is kept too."""
    gate = Gate()

    async def stuck(item: Item) -> None:
        gate(item)

    shop.push(1, 2)
    shop.work(gate if kind == "sync" else stuck, chunk=2, lease=0.15)
    gate.arrived.wait()
    extended = shop.valve.ran["extend_items"].wait(5)
    assert extended == [[1, 2]] * len(extended)
    assert shop.claim(2) == []
    gate.open()
    gate.arrived.wait(2)
    until(lambda: not shop.counts.total, "both to be settled")
    assert shop.counts.orphaned == 0


def test_a_lease_is_extended_after_a_third_of_it(shop: Shop) -> None:
    gate = Gate()
    begun = monotonic()
    worker = shop.work(gate, lease=0.6)
    shop.push(1)
    gate.arrived.wait()
    [hold] = worker._engine.holds._holds
    assert begun < hold.extend_at <= monotonic() + 0.2
    for count in (1, 2):
        shop.valve.ran["extend_items"].wait(count)
        until(lambda: hold.extend_at > monotonic(), "the next time to be known")
        assert hold.extend_at <= monotonic() + 0.2
    gate.open()


def test_a_failing_extension_is_tried_again_soon(shop: Shop) -> None:
    gate = Gate()
    shop.valve.break_next("extend_items", *[StoreUnavailable("away")] * 3)
    worker = shop.work(gate, lease=1.0)
    errors = heard(worker, "error")
    shop.push(1)
    shop.valve.ran["extend_items"].wait()
    assert [trouble.doing for trouble in errors.seen] == ["beat"] * 3
    assert shop.claim() == []
    gate.open()


def test_an_item_with_a_lease_of_its_own_is_extended_by_it(shop: Shop) -> None:
    gate = Gate()
    shop.push(1, timeout=0.1)
    shop.work(gate)
    gate.arrived.wait()
    shop.valve.ran["extend_items"].wait(4)
    assert shop.claim() == []
    gate.open()


def lose(shop: Shop, clock: FakeClock) -> Any:
    """Let the leases end, and somebody else take the item."""
    clock.advance(10)
    [item] = shop.claim()
    return item


def test_a_lost_item_is_told_and_its_outcome_dropped(timed: Shop, clock: FakeClock) -> None:
    gate, contexts = Gate(), []

    def handle(item: Item, context: Context) -> None:
        contexts.append(context)
        gate()

    worker = timed.work(handle, lease=0.3)
    lost, data = heard(worker, "lost"), heard(worker, "data")
    timed.push(1)
    gate.arrived.wait()
    assert not contexts[0].is_lost
    other = lose(timed, clock)
    [event] = lost.wait()
    assert event.item.payload == 1
    assert (contexts[0].is_lost, contexts[0].lost) == (True, {other.id})
    gate.open()
    worker.stop()
    assert (worker.lost, worker.done, data.seen) == (1, 0, [])
    assert timed.item(other.id).token == other.token


def test_a_lost_item_is_not_started(timed: Shop, clock: FakeClock) -> None:
    gate = Gate()
    timed.push(1, 2)
    worker = timed.work(gate, chunk=2, lease=0.3)
    lost = heard(worker, "lost")
    gate.arrived.wait()
    clock.advance(10)
    assert len(timed.claim(2)) == 2
    lost.wait(2)
    gate.open()
    worker.stop()
    assert (len(gate.arrived.seen), worker.lost, worker.done) == (1, 2, 0)


def test_a_loss_that_shows_only_at_the_settle(timed: Shop, clock: FakeClock) -> None:
    gate = Gate()
    worker = timed.work(gate)
    lost = heard(worker, "lost")
    timed.push(1)
    gate.arrived.wait()
    clock.advance(301)
    timed.claim()
    gate.open()
    lost.wait()
    until(lambda: worker.lost == 1, "the loss to be counted")
    assert worker.done == 0


def test_an_extension_does_not_take_a_settled_item_for_lost(shop: Shop) -> None:
    """It was asked for before the settle, and answered after it."""
    gate, extension = Gate(), shop.valve.hold("extend_items")
    worker = shop.work(gate, lease=0.15)
    lost, data = heard(worker, "lost"), heard(worker, "data")
    shop.push(1)
    extension.arrived.wait()
    gate.open()
    data.wait()
    extension.open()
    shop.valve.ran["extend_items"].wait()
    worker.stop()
    assert (lost.seen, worker.lost, worker.done) == ([], 0, 1)


def test_the_store_knows_who_works(shop: Shop) -> None:
    gate = Gate()
    worker = shop.work(gate, concurrency=2, name="me")
    other = register_worker(shop.hr, "other", print)
    shop.workers.append(other)
    shop.push(1)
    gate.arrived.wait()
    rows = shop.valve.ran["beat"]
    until(lambda: {r.id for r in shop.run("workers", None)} == {worker.id, other.id}, "both rows")
    worker._engine._heart.poke()
    until(lambda: shop.run("workers", "q")[0].busy == 1, "a beat while it is busy")
    [row] = shop.run("workers", "q")
    assert (row.queue, row.current, row.desired, row.version) == ("q", "running", "running", 1)
    [client] = shop.run("clients")
    assert (client.id, client.host, client.pid) == (row.client, socket.gethostname(), os.getpid())
    assert shop.item(1).worker == "me"
    gate.open()
    worker.stop()
    assert (worker.done, worker.failed) == (1, 0)
    until(lambda: len(shop.run("workers", None)) == 1, "the row of the stopped one to go")
    other.stop()
    until(lambda: not shop.run("clients"), "the client to leave")
    assert rows.seen


def test_the_rate_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "QUICK_BEAT", 0.01)
    worker = shop.work(lambda item: None, chunk=10)
    shop.valve.ran["beat"].wait()
    shop.push(*range(100))
    until(lambda: worker.done == 100, "all to be done")

    def is_told() -> bool:
        worker._engine._heart.poke()
        [row] = shop.run("workers", "q")
        return bool(row.done == 100 and row.rate > 0)

    until(is_told, "a rate above zero")


def test_a_beat_that_fails_is_repeated(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "QUICK_BEAT", 0.01)
    shop.valve.break_next("beat", StoreUnavailable("away"), OSError("gone"))
    worker = shop.work(print)
    shop.valve.ran["beat"].wait()
    assert shop.valve.failed["beat"] == 2
    assert worker.status == "running"


def test_maintenance_is_done_beside_the_work(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that fails is told, and the next one is done."""
    monkeypatch.setattr(chores, "INTERVAL_MS", 10)
    shop.valve.break_next("take_lease", OSError("gone"))
    worker = shop.work(print)
    shop.valve.ran["take_lease"].wait(2)
    shop.valve.ran["expire"].wait()
    assert worker._engine.listeners.last_error == "OSError: gone"
    worker.stop()


def test_workers_of_two_clients_have_different_ids(shop: Shop) -> None:
    shop.work(print)
    there = register_worker(shop.outside, "q", print)
    until(lambda: len(shop.run("clients")) == 2, "two clients")
    there.stop()


def test_a_held_queue_stops_its_workers_until_the_update(shop: Shop) -> None:
    """It claims no more, ends what it has begun, says so, and goes on under new settings."""
    shop.create(worker_concurrency=1, worker_chunk=3)
    gate = Gate()
    worker = shop.work(gate)
    states = heard(worker, "state")
    shop.push(1, 2, 3, 4)
    gate.arrived.wait()
    shop.valve.ran["beat"].wait()
    shop.run("hold_queue", "q", 60_000, "stopped")
    worker._engine._heart.poke()
    states.wait_for(lambda seen: [s.after for s in seen] == ["stopping"])
    # What has not begun goes back at once, uncounted.
    until(lambda: shop.counts.pending == 3, "the rest to be handed back")
    assert shop.item(2).attempts == 0
    gate.open()
    states.wait(2)
    assert worker.status == "stopped"
    until(lambda: shop.run("workers", "q")[0].current == "stopped", "the beat that says so")
    assert (len(gate.arrived.seen), shop.counts.pending) == (1, 3)
    info = shop.update(worker_chunk=2)
    gate.arrived.wait(4)
    assert [state.after for state in states.seen] == ["stopping", "stopped", "running"]
    until(lambda: shop.run("workers", "q")[0].version == info.version, "the new version")


def test_an_idle_worker_hears_of_a_hold_at_once(shop: Shop) -> None:
    """Its next claim says so, and it asks for orders then."""
    worker = shop.work(print)
    states = heard(worker, "state")
    shop.valve.ran["claim_items"].wait()
    shop.valve.ran["beat"].wait()
    shop.run("hold_queue", "q", 60_000, "stopped")
    # By way of "stopping", if a claim is just under way.
    states.wait_for(lambda seen: [s.after for s in seen][-1:] == ["stopped"])
    shop.run("hold_queue", "q", 0, "running")
    worker._engine._heart.poke()
    states.wait_for(lambda seen: seen[-1].after == "running")
    assert worker.status == "running"


def test_a_worker_can_be_told_to_pause(shop: Shop) -> None:
    shop.create()
    worker = shop.work(print)
    states = heard(worker, "state")
    shop.valve.ran["beat"].wait()
    shop.run("hold_queue", "q", 0, "paused")
    worker._engine._heart.poke()
    states.wait()
    assert worker.status == "paused"
    worker.pause()
    shop.run("hold_queue", "q", 0, "running")
    worker._engine._heart.poke()
    until(lambda: worker._engine.switch.desired == "running", "the order")
    assert worker.status == "paused"
    worker.resume()
    assert worker.status == "running"


def test_beats_go_on_while_every_thread_of_the_pool_is_stuck(shop: Shop) -> None:
    gate = Gate()
    shop.work(gate, concurrency=3, lease=0.15)
    shop.push(1, 2, 3)
    gate.arrived.wait(3)
    shop.valve.ran["extend_items"].wait(9)
    assert shop.counts.active == 3
    gate.open()


def test_a_client_that_is_closed_takes_its_workers_with_it(shop: Shop) -> None:
    worker = shop.work(print)
    shop.valve.ran["beat"].wait()
    shop.hr.close()
    assert worker.join(PATIENCE)
    assert worker.status == "stopped"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_fork_has_no_workers_and_may_have_its_own(shop: Shop) -> None:
    """Its client id is another one; the parent's worker goes on."""
    seen = Signal()
    worker = shop.work(seen)
    shop.valve.ran["beat"].wait()
    before = crews.crew(shop.hr, worker._engine.store).row.id
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"bad"
        try:
            worker.stop()
            own = register_worker(shop.hr, "q", print)
            fresh = crews.crew(shop.hr, worker._engine.store).row
            if fresh.id != before and fresh.pid == os.getpid() and own.id != worker.id:
                answer = b"good"
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"good"
    os.close(reading)
    os.close(writing)
    shop.push(1)
    seen.wait()
    assert threading.active_count() > 1
