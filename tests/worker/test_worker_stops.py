"""How a worker pauses and stops."""

import asyncio
import random
import threading
import time
from typing import Any

import pytest
from worker_fixtures import PATIENCE, Gate, Signal, WorkerEnv, events_of, until

from headrace.errors import InvalidOption, StoreUnavailable
from headrace.worker import Context, Item, Release, close_workers, engine, registry, start_worker


def in_thread(action: Any, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=action, args=args, daemon=True)
    thread.start()
    return thread


def test_stop_waits_for_running_items_and_releases_the_rest(env: WorkerEnv) -> None:
    gate = Gate()
    env.push(1, 2, 3, 4)
    worker = env.work(gate, chunk=3)
    states = events_of(worker, "state")
    gate.arrived.wait()
    stopping = in_thread(worker.stop)
    until(lambda: env.counts.pending == 3, "what has not begun to be handed back")
    assert (worker.status, env.item(2).attempts, env.counts.active) == ("stopping", 0, 1)
    assert stopping.is_alive()
    gate.open()
    stopping.join(PATIENCE)
    assert [state.after for state in states.seen] == ["stopping", "stopped"]
    assert (worker.done, len(gate.arrived.seen), env.counts.pending) == (1, 1, 3)
    assert worker.join(0)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_items_that_exceed_the_grace_are_released(env: WorkerEnv, kind: str) -> None:
    """Without an attempt. A later outcome of the handler does not count."""
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

    worker = env.work(handle if kind == "sync" else ahandle)
    data = events_of(worker, "data")
    env.push(1)
    gate.arrived.wait()
    worker.stop(0.05)
    assert worker.status == "stopped"
    item = env.item(1)
    assert (item.state, item.attempts, item.crashes) == (1, 0, 0)
    [mine] = env.claim()
    gate.open()
    assert ended.wait() == ["cancelled" if kind == "async" else "late"]
    assert env.item(1).token == mine.token
    assert (worker.done, [type(done.outcome) for done in data.seen]) == (0, [Release])


def test_a_second_stop_shortens_the_grace(env: WorkerEnv) -> None:
    gate = Gate()
    worker = env.work(gate)
    env.push(1)
    gate.arrived.wait()
    first = in_thread(worker.stop, 600)
    until(lambda: worker.status == "stopping", "the first stop")
    worker.stop(0)
    first.join(PATIENCE)
    assert not first.is_alive()
    assert env.counts.pending == 1
    gate.open()


def test_stop_of_an_idle_worker_is_quick_and_can_be_repeated(env: WorkerEnv) -> None:
    worker = env.work(print)
    worker.stop()
    worker.stop()
    worker.kill()
    assert (worker.status, worker.join(0)) == ("stopped", True)


def test_stop_during_a_claim_releases_its_items(env: WorkerEnv) -> None:
    env.push(1, 2)
    held = env.interceptor.stop_next("queues.claim")
    seen = Signal()
    worker = env.work(seen, chunk=2)
    held.arrived.wait()
    stopping = in_thread(worker.stop)
    until(lambda: worker.status == "stopping", "the stop")
    held.open()
    stopping.join(PATIENCE)
    assert (seen.seen, env.counts.pending, env.counts.active) == ([], 2, 0)


@pytest.mark.parametrize("where", ["handler", "async handler", "listener"])
def test_a_worker_can_be_stopped_from_within(env: WorkerEnv, where: str) -> None:
    """It does not wait for itself."""
    worker: Any = None

    def handle(item: Item) -> None:
        if where == "handler":
            worker.stop()

    async def ahandle(item: Item) -> None:
        worker.stop()

    worker = env.work(ahandle if where == "async handler" else handle)
    if where == "listener":
        worker.on("data", lambda done: worker.stop())
    env.push(1, 2)
    assert worker.join(PATIENCE)
    until(lambda: not env.counts.active, "everything to be settled")
    assert worker.done >= 1


def test_stop_while_the_store_is_away_ends_in_time(
    env: WorkerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease decides then."""
    monkeypatch.setattr(engine, "RELEASE_SECONDS", 0.2)
    env.interceptor.fail_next("queues.settle", *[StoreUnavailable("away")] * 1000)
    seen = Signal()
    worker = env.work(seen)
    env.push(1)
    seen.wait()
    worker.stop(0.1)
    assert (worker.status, worker.done, env.counts.active) == ("stopped", 0, 1)
    assert worker.unsettled == (1,)


def test_the_grace_is_not_for_a_claim_under_way(
    env: WorkerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that does not answer to it delays the end for a moment only."""
    monkeypatch.setattr(engine, "RELEASE_SECONDS", 0.2)
    env.push(1)
    held = env.interceptor.stop_next("queues.claim")
    worker = env.work(print)
    held.arrived.wait()
    stopping = in_thread(worker.stop, 100 * PATIENCE)
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert (worker.status, worker.unsettled) == ("stopped", ())
    held.open()
    until(lambda: env.counts.pending == 1, "the claimed item to be released")
    assert worker.done == 0


def test_the_first_outcome_of_an_item_counts(env: WorkerEnv) -> None:
    """It came in time, and waits behind a slow settle when the grace is over."""
    held, seen = env.interceptor.stop_next("queues.settle"), Signal()
    worker = env.work(seen)
    env.push(1)
    held.arrived.wait()
    env.push(2)
    seen.wait(2)
    stopping = in_thread(worker.stop, 0)
    completer = worker._engine.completer
    until(lambda: len(completer._outcomes) == 3, "both to be handed back as well")
    held.open()
    stopping.join(PATIENCE)
    assert (worker.done, worker.lost, env.counts.total) == (2, 0, 0)


def test_kill_releases_pending_items_and_does_not_wait(env: WorkerEnv) -> None:
    """Running handlers continue. Their claims are kept, and their outcomes count."""
    gate = Gate()
    env.push(1, 2, 3)
    worker = env.work(gate, chunk=3, lease=0.3)
    data = events_of(worker, "data")
    gate.arrived.wait()
    worker.kill()
    assert (worker.status, worker.join(0)) == ("stopped", True)
    assert (env.counts.active, env.counts.pending) == (1, 2)
    env.interceptor.ran["queues.extend"].wait(2)
    gate.open()
    data.wait_for(lambda seen: [d.item.payload for d in seen if d.settled.state == "completed"])
    assert (len(gate.arrived.seen), env.counts.active) == (1, 0)


def test_a_killed_worker_does_not_spin(env: WorkerEnv) -> None:
    """While its last handler runs it only waits."""
    gate = Gate()
    worker = env.work(gate)
    env.push(1)
    gate.arrived.wait()
    worker.kill()
    env.interceptor.ran["queues.unregister"].seen.clear()
    before = time.process_time()
    assert not threading.Event().wait(0.3)
    assert time.process_time() - before < 0.1
    gate.open()
    env.interceptor.ran["queues.unregister"].wait()


def test_after_a_kill_another_worker_can_be_registered(env: WorkerEnv) -> None:
    gate, seen = Gate(), Signal()
    worker = env.work(gate)
    env.push(1)
    gate.arrived.wait()
    worker.kill()
    env.push(2)
    env.work(lambda item: seen(item.payload))
    assert seen.wait() == [2]
    gate.open()


def test_pause_releases_items_that_were_not_begun(env: WorkerEnv) -> None:
    gate = Gate()
    env.push(1, 2, 3)
    worker = env.work(gate, chunk=3)
    gate.arrived.wait()
    worker.pause()
    assert worker.status == "paused"
    until(lambda: env.counts.pending == 2, "the rest to be handed back")
    gate.open()
    until(lambda: not env.counts.active, "the first to be settled")
    assert len(gate.arrived.seen) == 1
    worker.resume()
    gate.arrived.wait(3)


def test_a_paused_worker_can_be_stopped(env: WorkerEnv) -> None:
    worker = env.work(print)
    states = events_of(worker, "state")
    worker.pause()
    worker.pause()
    worker.stop()
    worker.resume()
    assert [state.after for state in states.seen] == ["paused", "stopping", "stopped"]
    assert str(worker) == "<Worker on 'q', stopped>"


def test_the_block_ends_with_the_worker(env: WorkerEnv) -> None:
    seen = Signal()
    with env.work(seen) as worker:
        env.push(1)
        seen.wait()
    assert (worker.status, worker.done) == ("stopped", 1)


def test_a_long_handler_can_see_that_it_should_end(env: WorkerEnv) -> None:
    begun = Signal()

    def handle(item: Item, context: Context) -> Any:
        begun()
        until(lambda: context.is_stopping, "the stop")
        return Release()

    worker = env.work(handle)
    env.push(1)
    begun.wait()
    worker.stop()
    assert (env.counts.pending, env.item(1).attempts) == (1, 0)


def test_all_workers_of_a_client_stop_together(env: WorkerEnv) -> None:
    worker, other = env.work(print), start_worker(env.hr, "other", print)
    close_workers(env.hr)
    assert (worker.status, other.status) == ("stopped", "stopped")
    close_workers(env.outside)


def test_a_process_that_exits_releases_everything(env: WorkerEnv) -> None:
    gate = Gate()
    env.push(1, 2)
    worker = env.work(gate, chunk=2)
    gate.arrived.wait()
    registry._release_all()
    assert (worker.status, env.counts.pending, env.counts.active) == ("stopped", 2, 0)
    gate.open()


def test_listeners(env: WorkerEnv) -> None:
    """A listener that raises affects no other. One that was removed is not called again."""
    worker = env.work(lambda item: None)

    def bad(event: Any) -> None:
        raise ValueError("badly listened")

    worker.on("data", bad)
    data = events_of(worker, "data")
    off = worker.on("data", few := Signal())
    env.push(1)
    few.wait()
    off()
    off()
    env.push(2)
    data.wait(2)
    worker.stop()
    assert (len(few.seen), worker.done) == (1, 2)
    with pytest.raises(InvalidOption, match="data, error, state, lost"):
        worker.on("date", bad)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_happens_to_workers_each_item_is_done_once(env: WorkerEnv, kind: str) -> None:
    """Paused, resized, stopped and killed at random, under load."""
    count, chance = 3000, random.Random(7)
    seen = Signal()

    def handle(item: Item) -> None:
        seen(item.payload)

    async def ahandle(item: Item) -> None:
        await asyncio.sleep(0)
        seen(item.payload)

    env.create(chunk=7, concurrency=3)
    env.push(*range(count))
    chosen = handle if kind == "sync" else ahandle
    worker = env.work(chosen)
    while len(seen.seen) < count:
        match chance.randrange(6):
            case 0:
                worker.pause()
                worker.resume()
            case 1:
                env.update(concurrency=chance.randint(1, 6))
            case 2:
                env.update(chunk=chance.randint(1, 20))
            case 3:
                worker.stop()
                worker = env.work(chosen)
            case 4:
                worker.kill()
                worker = env.work(chosen)
            case 5:
                seen.wait(min(len(seen.seen) + 50, count))
    worker.stop()
    until(lambda: not env.counts.total, "the last to be settled")
    assert sorted(seen.seen) == list(range(count))
    assert env.counts.orphaned == 0
