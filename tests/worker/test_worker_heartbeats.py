"""Heartbeats: leases are extended, workers are reported, and replies contain orders."""

import gc
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from worker_fixtures import PATIENCE, Gate, Signal, WorkerEnv, events_of, until

from headrace.errors import StoreUnavailable
from headrace.testing.clocks import FakeClock
from headrace.worker import Context, Item, heartbeat, maintenance, registry, start_worker
from headrace.worker.in_flight import monotonic


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timed(url: str, clock: FakeClock) -> Iterator[WorkerEnv]:
    """A worker environment whose clock stands still."""
    env = WorkerEnv(url, clock=clock)
    yield env
    env.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_stuck_handler_keeps_its_claim(env: WorkerEnv, kind: str) -> None:
    """Even if it blocks its event loop. Items that wait behind it are kept too."""
    gate = Gate()

    async def stuck(item: Item) -> None:
        gate(item)

    env.push(1, 2)
    env.work(gate if kind == "sync" else stuck, chunk=2, lease=0.15)
    gate.arrived.wait()
    extended = env.interceptor.ran["queues.extend"].wait(5)
    assert extended == [[1, 2]] * len(extended)
    assert env.claim(2) == []
    gate.open()
    gate.arrived.wait(2)
    until(lambda: not env.counts.total, "both to be settled")
    assert env.counts.orphaned == 0


def test_a_lease_is_extended_after_a_third_of_it(env: WorkerEnv) -> None:
    gate = Gate()
    begun = monotonic()
    worker = env.work(gate, lease=0.6)
    env.push(1)
    gate.arrived.wait()
    [hold] = worker._engine.in_flight._leases
    assert begun < hold.extend_at <= monotonic() + 0.2
    for count in (1, 2):
        env.interceptor.ran["queues.extend"].wait(count)
        until(lambda: hold.extend_at > monotonic(), "the next time to be known")
        assert hold.extend_at <= monotonic() + 0.2
    gate.open()


def test_a_failing_extension_is_tried_again_soon(env: WorkerEnv) -> None:
    gate = Gate()
    env.interceptor.fail_next("queues.extend", *[StoreUnavailable("away")] * 3)
    worker = env.work(gate, lease=1.0)
    errors = events_of(worker, "error")
    env.push(1)
    env.interceptor.ran["queues.extend"].wait()
    assert [trouble.doing for trouble in errors.seen] == ["heartbeat"] * 3
    assert env.claim() == []
    gate.open()


def test_an_item_with_a_lease_of_its_own_is_extended_by_it(env: WorkerEnv) -> None:
    gate = Gate()
    env.push(1, lease=0.1)
    env.work(gate)
    gate.arrived.wait()
    env.interceptor.ran["queues.extend"].wait(4)
    assert env.claim() == []
    gate.open()


def lose(env: WorkerEnv, clock: FakeClock) -> Any:
    """Let the leases end, and another client claim the item."""
    while True:
        clock.advance(10)
        # The heartbeat may have extended the lease meanwhile.
        for item in env.claim():
            return item


def test_a_lost_item_is_reported_and_its_outcome_dropped(
    timed: WorkerEnv, clock: FakeClock
) -> None:
    gate, contexts = Gate(), []

    def handle(item: Item, context: Context) -> None:
        contexts.append(context)
        gate()

    worker = timed.work(handle, lease=0.3)
    lost, data = events_of(worker, "lost"), events_of(worker, "data")
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


def test_a_lost_item_is_not_started(timed: WorkerEnv, clock: FakeClock) -> None:
    gate = Gate()
    timed.push(1, 2)
    worker = timed.work(gate, chunk=2, lease=0.3)
    lost = events_of(worker, "lost")
    gate.arrived.wait()
    clock.advance(10)
    assert len(timed.claim(2)) == 2
    lost.wait(2)
    gate.open()
    worker.stop()
    assert (len(gate.arrived.seen), worker.lost, worker.done) == (1, 2, 0)


def test_a_loss_that_shows_only_at_the_settle(timed: WorkerEnv, clock: FakeClock) -> None:
    gate = Gate()
    worker = timed.work(gate)
    lost = events_of(worker, "lost")
    timed.push(1)
    gate.arrived.wait()
    clock.advance(301)
    timed.claim()
    gate.open()
    lost.wait()
    until(lambda: worker.lost == 1, "the loss to be counted")
    assert worker.done == 0


def test_an_extension_does_not_report_a_settled_item_as_lost(env: WorkerEnv) -> None:
    """It was sent before the settle, and answered after it."""
    gate, extension = Gate(), env.interceptor.stop_next("queues.extend")
    worker = env.work(gate, lease=0.15)
    lost, data = events_of(worker, "lost"), events_of(worker, "data")
    env.push(1)
    extension.arrived.wait()
    gate.open()
    data.wait()
    extension.open()
    env.interceptor.ran["queues.extend"].wait()
    worker.stop()
    assert (lost.seen, worker.lost, worker.done) == ([], 0, 1)


def test_the_store_knows_the_workers(env: WorkerEnv) -> None:
    gate = Gate()
    worker = env.work(gate, concurrency=2, name="me")
    other = start_worker(env.hr, "other", print)
    env.workers.append(other)
    env.push(1)
    gate.arrived.wait()
    rows = env.interceptor.ran["queues.heartbeat"]
    until(
        lambda: {r.id for r in env.run("queues.workers", None)} == {worker.id, other.id},
        "both rows",
    )
    worker._engine._heartbeat.poke()
    until(lambda: env.run("queues.workers", "q")[0].busy == 1, "a beat while it is busy")
    [row] = env.run("queues.workers", "q")
    assert (row.queue, row.current, row.desired, row.version) == ("q", "running", "running", 1)
    [client] = env.run("queues.clients")
    assert (client.id, client.host, client.pid) == (row.client, socket.gethostname(), os.getpid())
    assert env.item(1).worker == "me"
    gate.open()
    worker.stop()
    assert (worker.done, worker.failed) == (1, 0)
    until(lambda: len(env.run("queues.workers", None)) == 1, "the row of the stopped one to go")
    other.stop()
    until(lambda: not env.run("queues.clients"), "the client to leave")
    assert rows.seen


def test_the_rate_is_reported(env: WorkerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "SHORT_HEARTBEAT_SECONDS", 0.01)
    worker = env.work(lambda item: None, chunk=10)
    env.interceptor.ran["queues.heartbeat"].wait()
    env.push(*range(100))
    until(lambda: worker.done == 100, "all to be done")

    def is_reported() -> bool:
        worker._engine._heartbeat.poke()
        [row] = env.run("queues.workers", "q")
        return bool(row.done == 100 and row.rate > 0)

    until(is_reported, "a rate above zero")


def test_a_failed_heartbeat_is_repeated(env: WorkerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "SHORT_HEARTBEAT_SECONDS", 0.01)
    env.interceptor.fail_next("queues.heartbeat", StoreUnavailable("away"), OSError("gone"))
    worker = env.work(print)
    env.interceptor.ran["queues.heartbeat"].wait()
    assert env.interceptor.failed["queues.heartbeat"] == 2
    assert worker.status == "running"


def test_maintenance_is_done_beside_the_work(
    env: WorkerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that fails is reported, and the next one runs."""
    monkeypatch.setattr(maintenance, "INTERVAL", 0.01)
    env.interceptor.fail_next("admin.acquire_lease", OSError("gone"))
    worker = env.work(print)
    env.interceptor.ran["admin.acquire_lease"].wait(2)
    env.interceptor.ran["admin.expire"].wait()
    assert worker._engine.listeners.last_error == "OSError: gone"
    worker.stop()


def test_maintenance_can_be_ended_in_the_middle(
    env: WorkerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a warning about the operation of its next step."""
    monkeypatch.setattr(maintenance, "INTERVAL", 0.01)
    expire = env.interceptor.stop_next("admin.expire")
    worker = env.work(print)
    expire.arrived.wait()
    ending = threading.Thread(target=worker.stop)
    ending.start()
    workers = registry.find(env.hr)
    assert workers is not None
    until(lambda: workers._last_services is not None, "the end of the worker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expire.open()
        ending.join(PATIENCE)
        workers.close()
        gc.collect()
    assert [str(each.message) for each in caught if "never run" in str(each.message)] == []


def test_workers_of_two_clients_have_different_ids(env: WorkerEnv) -> None:
    env.work(print)
    there = start_worker(env.outside, "q", print)
    until(lambda: len(env.run("queues.clients")) == 2, "two clients")
    there.stop()


def test_a_frozen_queue_stops_its_workers_until_the_update(env: WorkerEnv) -> None:
    """A worker stops claiming, finishes its running items, reports it, and continues under the new
    settings."""
    env.create(concurrency=1, chunk=3)
    gate = Gate()
    worker = env.work(gate)
    states = events_of(worker, "state")
    env.push(1, 2, 3, 4)
    gate.arrived.wait()
    env.interceptor.ran["queues.heartbeat"].wait()
    env.run("queues.freeze", "q", 60_000, "stopped")
    worker._engine._heartbeat.poke()
    states.wait_for(lambda seen: [s.after for s in seen] == ["stopping"])
    # Items that were not begun are released immediately, without an attempt.
    until(lambda: env.counts.pending == 3, "the rest to be handed back")
    assert env.item(2).attempts == 0
    gate.open()
    states.wait(2)
    assert worker.status == "stopped"
    until(lambda: env.run("queues.workers", "q")[0].current == "stopped", "the beat that says so")
    assert (len(gate.arrived.seen), env.counts.pending) == (1, 3)
    info = env.update(chunk=2)
    gate.arrived.wait(4)
    assert [state.after for state in states.seen] == ["stopping", "stopped", "running"]
    until(lambda: env.run("queues.workers", "q")[0].version == info.version, "the new version")


def test_an_idle_worker_learns_of_a_freeze_immediately(env: WorkerEnv) -> None:
    """Its next claim says so, and it sends a heartbeat then."""
    worker = env.work(print)
    states = events_of(worker, "state")
    env.interceptor.ran["queues.claim"].wait()
    env.interceptor.ran["queues.heartbeat"].wait()
    env.run("queues.freeze", "q", 60_000, "stopped")
    # By way of "stopping", if a claim is in progress.
    states.wait_for(lambda seen: [s.after for s in seen][-1:] == ["stopped"])
    env.run("queues.freeze", "q", 0, "running")
    worker._engine._heartbeat.poke()
    states.wait_for(lambda seen: seen[-1].after == "running")
    assert worker.status == "running"


def test_a_heartbeat_reply_can_pause_a_worker(env: WorkerEnv) -> None:
    env.create()
    worker = env.work(print)
    states = events_of(worker, "state")
    env.interceptor.ran["queues.heartbeat"].wait()
    env.run("queues.freeze", "q", 0, "paused")
    worker._engine._heartbeat.poke()
    states.wait()
    assert worker.status == "paused"
    worker.pause()
    env.run("queues.freeze", "q", 0, "running")
    worker._engine._heartbeat.poke()
    until(lambda: worker._engine.switch.desired == "running", "the order")
    assert worker.status == "paused"
    worker.resume()
    assert worker.status == "running"


def test_heartbeats_continue_while_every_handler_thread_is_stuck(env: WorkerEnv) -> None:
    gate = Gate()
    env.work(gate, concurrency=3, lease=0.15)
    env.push(1, 2, 3)
    gate.arrived.wait(3)
    env.interceptor.ran["queues.extend"].wait(9)
    assert env.counts.active == 3
    gate.open()


def test_closing_a_client_ends_its_workers(env: WorkerEnv) -> None:
    worker = env.work(print)
    env.interceptor.ran["queues.heartbeat"].wait()
    env.hr.close()
    assert worker.join(PATIENCE)
    assert worker.status == "stopped"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_fork_has_no_workers_and_may_have_its_own(env: WorkerEnv) -> None:
    """Its client id is another one. The parent's worker continues."""
    seen = Signal()
    worker = env.work(seen)
    env.interceptor.ran["queues.heartbeat"].wait()
    before = registry.of(env.hr, worker._engine.store).row.id
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"bad"
        try:
            worker.stop()
            own = start_worker(env.hr, "q", print)
            fresh = registry.of(env.hr, worker._engine.store).row
            if fresh.id != before and fresh.pid == os.getpid() and own.id != worker.id:
                answer = b"good"
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"good"
    os.close(reading)
    os.close(writing)
    env.push(1)
    seen.wait()
    assert threading.active_count() > 1
