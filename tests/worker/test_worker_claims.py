"""How items are claimed and outcomes sent."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, events_of, until

from headrace.core.where import where
from headrace.errors import (
    InvalidOption,
    InvalidQueueName,
    NotConnected,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    WorkerExists,
)
from headrace.model.queues.items import State
from headrace.testing.clocks import FakeClock
from headrace.worker import Complete, Push, Reject, Reschedule, start_worker
from headrace.worker.claim_ahead import MAX_CHUNKS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timed(url: str, clock: FakeClock) -> Iterator[WorkerEnv]:
    """A worker environment whose clock stands still."""
    env = WorkerEnv(url, clock=clock)
    yield env
    env.close()


def test_a_worker_creates_its_queue(env: WorkerEnv) -> None:
    env.work(print)
    env.interceptor.ran["queues.create"].wait()
    assert env.run("queues.info", "q").name == "q"


def test_pending_and_new_items_are_handled(env: WorkerEnv) -> None:
    """In order. A push wakes the worker."""
    env.push(1, 2, 3)
    seen = Signal()
    worker = env.work(lambda item: seen(item.payload))
    assert seen.wait(3) == [1, 2, 3]
    env.push(4)
    seen.wait(4)
    worker.stop()
    assert (worker.done, env.counts.total) == (4, 0)


def test_a_planned_item_runs_when_it_is_due(env: WorkerEnv) -> None:
    seen = Signal()
    env.work(lambda item: seen(item.payload))
    env.push("later", delay=0.3)
    env.push("now")
    assert seen.wait(2) == ["now", "later"]


def test_nothing_is_claimed_while_all_threads_are_busy(env: WorkerEnv) -> None:
    """With a chunk of one, whatever waits is free for other workers."""
    gate = Gate()
    worker = env.work(gate, concurrency=2)
    env.push(*range(5))
    gate.arrived.wait(2)
    assert (worker.busy, env.counts.active, env.counts.pending) == (2, 2, 3)
    assert len(env.claim(5)) == 3
    gate.open()


def test_at_most_a_chunk_waits_in_the_worker(env: WorkerEnv) -> None:
    gate = Gate()
    env.push(*range(10))
    env.work(gate, chunk=4)
    gate.arrived.wait()
    assert (env.counts.active, env.counts.pending) == (4, 6)
    gate.open()
    gate.arrived.wait(10)


def test_idle_threads_are_filled_by_one_claim(env: WorkerEnv) -> None:
    gate = Gate()
    worker = env.work(gate, concurrency=6)
    executor: Any = worker._engine.executor
    until(lambda: executor._idle == 6, "six idle threads")
    # The claim in progress may not know of all of them.
    ran = env.interceptor.ran["queues.claim"]
    ran.wait(len(ran.seen) + 2)
    env.push(*range(6))
    gate.arrived.wait(6)
    claims = [response for response in env.interceptor.ran["queues.claim"].seen if response.items]
    assert len(claims) == 1
    gate.open()


def test_outcomes_during_a_settle_share_the_next_one(env: WorkerEnv) -> None:
    env.push(*range(6))
    seen, held = Signal(), env.interceptor.stop_next("queues.settle")
    worker = env.work(seen, chunk=1)
    held.arrived.wait()
    seen.wait(4)
    held.open()
    seen.wait(6)
    worker.stop()
    assert sum(env.interceptor.settles) == 6
    assert max(env.interceptor.settles) > 1


def test_a_claim_is_sent_during_a_settle(env: WorkerEnv) -> None:
    env.push(1)
    held = env.interceptor.stop_next("queues.settle")
    seen = Signal()
    env.work(lambda item: seen(item.payload))
    held.arrived.wait()
    env.push(2)
    assert seen.wait(2) == [1, 2]
    held.open()


def test_a_chunk_of_quick_items_is_settled_in_few_operations(env: WorkerEnv) -> None:
    env.push(*range(1000))
    seen = Signal()
    worker = env.work(seen, chunk=100)
    seen.wait(1000)
    worker.stop()
    assert sum(env.interceptor.settles) == 1000
    assert len(env.interceptor.settles) < 50
    assert (worker.done, env.counts.total) == (1000, 0)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_concurrency_follows_the_settings(env: WorkerEnv, kind: str) -> None:
    """Up and down, unless the worker was registered with its own."""
    env.create(concurrency=1, chunk=1)
    first, second = Gate(), Gate()
    gates = [first]

    def handle(item: Any) -> None:
        gates[-1](item.payload)

    async def ahandle(item: Any) -> None:
        import asyncio

        await asyncio.to_thread(handle, item)

    worker = env.work(handle if kind == "sync" else ahandle)
    states = events_of(worker, "data")
    env.push(*range(2))
    first.arrived.wait()
    assert worker.busy == 1
    env.update(concurrency=3)
    gates.append(second)
    first.open()
    env.push(*range(3))
    second.arrived.wait(3)
    assert worker.busy == 3
    second.open()
    states.wait(5)
    third = Gate()
    gates.append(third)
    info = env.update(concurrency=1)
    until(lambda: worker._engine.prefetcher.settings.version == info.version, "the new settings")
    env.push(*range(3))
    third.arrived.wait()
    assert (worker.busy, env.counts.active) == (1, 1)
    third.open()
    states.wait(8)


def test_own_chunk_and_concurrency_stay(env: WorkerEnv) -> None:
    env.create(concurrency=5, chunk=5)
    gate = Gate()
    worker = env.work(gate, chunk=2, concurrency=1)
    env.update(chunk=9)
    env.push(*range(10))
    gate.arrived.wait()
    assert (worker.busy, env.counts.active) == (1, 2)
    gate.open()


def test_a_lease_can_be_asked_for(timed: WorkerEnv, clock: FakeClock) -> None:
    gate = Gate()
    timed.work(gate, lease="7s")
    timed.push(1)
    [item] = gate.arrived.wait()
    assert item.deadline.timestamp() == (clock.now + 7000) / 1000
    gate.open()


def test_a_worker_gets_nothing_from_a_paused_queue(env: WorkerEnv) -> None:
    env.create()
    env.run("queues.pause", "q", "me")
    seen = Signal()
    env.work(seen)
    env.push(1)
    env.interceptor.ran["queues.claim"].wait_for(lambda all: any(t.state == "paused" for t in all))
    assert not seen.seen
    env.run("queues.resume", "q")
    seen.wait()


def test_a_dropped_queue_is_waited_for(env: WorkerEnv) -> None:
    """The worker reports it once. A push that creates the queue again wakes the worker."""
    seen = Signal()
    worker = env.work(seen)
    errors = events_of(worker, "error")
    env.push(1)
    seen.wait()
    env.interceptor.ran["queues.settle"].wait()
    env.run("queues.drop", "q", False)
    [trouble] = errors.wait()
    assert (trouble.error.code, trouble.doing) == ("unknown_queue", "claim")
    env.push(2)
    seen.wait(2)
    assert len(errors.seen) == 1


def test_one_registration_per_queue_and_client(env: WorkerEnv) -> None:
    worker = env.work(print)
    with pytest.raises(WorkerExists, match="'q' already") as caught:
        env.work(print)
    assert caught.value.queue == "q"
    other = start_worker(env.hr, "other", print)
    elsewhere = start_worker(env.outside, "q", print)
    assert len({worker.id, other.id, elsewhere.id}) == 3
    other.stop()
    elsewhere.stop()
    worker.stop()
    assert env.work(print).status == "running"


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"chunk": 0}, "chunk"),
        ({"concurrency": 10_001}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"lease": 0}, "lease"),
        ({"backoff": 5}, "backoff"),
    ],
    ids=repr,
)
def test_a_wrong_option_is_refused(env: WorkerEnv, options: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        env.work(print, **options)
    assert caught.value.option == option
    env.work(print)


def test_a_wrong_call_is_refused(env: WorkerEnv) -> None:
    with pytest.raises(InvalidOption, match="function of an item"):
        env.work("print")
    with pytest.raises(InvalidQueueName):
        start_worker(env.hr, "no/good", print)
    env.hr.close()
    with pytest.raises(NotConnected):
        env.work(print)


AWAY = StoreUnavailable("the database is away")


@pytest.mark.parametrize("operation", ["queues.create", "queues.claim"])
def test_an_unreachable_store_is_retried_indefinitely(env: WorkerEnv, operation: str) -> None:
    """Each failure is reported, and the worker resumes when the store returns."""
    env.interceptor.fail_next(operation, AWAY, StoreBusy("busy"), OSError("broken"), AWAY)
    seen = Signal()
    worker = env.work(seen)
    errors = events_of(worker, "error")
    env.push(1)
    seen.wait()
    assert env.interceptor.failed[operation] == 4
    errors.wait(3)
    assert {trouble.doing for trouble in errors.seen} == {"claim"}
    assert worker.status == "running"


def test_a_waiter_that_breaks_is_replaced(env: WorkerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = env.hr._store
    make, made = store.waiter, Signal()

    def waiter(topic: str) -> Any:
        if topic == "queue/q":
            made(topic)
            if len(made.seen) == 1:
                raise OSError("no more files")
        return make(topic)

    monkeypatch.setattr(store, "waiter", waiter)
    seen = Signal()
    env.work(seen)
    env.push(1)
    seen.wait()
    assert made.seen == ["queue/q", "queue/q"]


def test_a_settle_is_repeated_until_the_store_is_back(env: WorkerEnv) -> None:
    env.interceptor.fail_next("queues.settle", AWAY, StoreBusy("busy"), AWAY)
    seen = Signal()
    worker = env.work(seen)
    errors, data = events_of(worker, "error"), events_of(worker, "data")
    env.push(1)
    data.wait()
    assert [trouble.doing for trouble in errors.seen] == ["settle"] * 3
    assert (len(seen.seen), env.counts.total) == (1, 0)


@pytest.mark.parametrize("has_effect", [False, True])
def test_a_settle_of_unknown_outcome_is_repeated(env: WorkerEnv, has_effect: bool) -> None:
    """The token makes it safe: an outcome that was applied is not applied twice, and none is
    lost."""
    unknown = OutcomeUnknown("lost")
    if has_effect:
        env.interceptor.fail_after_next("queues.settle", unknown)
    else:
        env.interceptor.fail_next("queues.settle", unknown)
    seen = Signal()

    def handle(items: Any) -> Any:
        seen()
        return [Complete(then=[Push("other", 1)]), Reschedule(delay=60), None]

    worker = env.work(handle, batch=True, chunk=3)
    errors, lost = events_of(worker, "error"), events_of(worker, "lost")
    env.push(1, 2, 3)
    errors.wait()
    env.interceptor.ran["queues.settle"].wait()
    worker.stop()
    assert (len(seen.seen), env.interceptor.settles) == (1, [3, 3])
    assert (env.counts.planned, env.counts.active, env.counts.total) == (1, 0, 1)
    env.name = "other"
    assert env.counts.total == 1
    # The second answer does not say whether it was lost or done.
    assert (worker.done, worker.lost, lost.seen) == (0 if has_effect else 3, 0, [])


def test_a_claim_of_unknown_outcome_is_left_to_its_lease(
    timed: WorkerEnv, clock: FakeClock
) -> None:
    timed.interceptor.fail_after_next("queues.claim", OutcomeUnknown("lost"))
    timed.push(1)
    seen = Signal()
    worker = timed.work(lambda item: seen(item.crashes))
    timed.interceptor.ran["queues.claim"].wait()
    assert (worker.busy, timed.counts.active) == (0, 1)
    clock.advance(301)
    assert seen.wait() == [1]


def test_one_bad_outcome_does_not_harm_the_others(env: WorkerEnv) -> None:
    """Each is settled separately, and the bad one is rejected."""
    store: Any = env.hr._store
    settle = store.queues.settle

    def picky(queue: str, outcomes: Any) -> Any:
        if any(outcome.pushes for outcome in outcomes):
            raise ValueError("cannot push that")
        return settle(queue, outcomes)

    store.queues.settle = picky
    results = {1: None, 2: Complete(then=[Push("other", 1)]), 3: Reject("x", delay=60)}
    worker = env.work(lambda item: results[item.payload], chunk=3)
    data = events_of(worker, "data")
    env.push(1, 2, 3)
    by_payload = {done.item.payload: done for done in data.wait(3)}
    assert by_payload[1].settled.state == "completed"
    assert by_payload[2].outcome.error.message == "cannot push that"
    assert by_payload[3].settled.state == "planned"


def test_a_settle_that_is_refused_for_good_is_dropped(env: WorkerEnv) -> None:
    """The worker continues."""
    env.interceptor.fail_next("queues.settle", ValueError("no"))
    seen = Signal()
    worker = env.work(seen)
    data, errors = events_of(worker, "data"), events_of(worker, "error")
    env.push(1)
    errors.wait()
    env.push(2)
    [done] = data.wait()
    assert done.item.payload == 2
    assert env.item(1).state == State.ACTIVE


def test_a_malformed_answer_of_the_store_is_survived(env: WorkerEnv) -> None:
    """A mistake in a driver must not leave a worker that never settles again."""
    store: Any = env.hr._store
    run, strange = store.run, [[]]

    def mistaken(op: Any) -> Any:
        answer = run(op)
        return strange.pop() if op.name == "queues.settle" and strange else answer

    store.run = mistaken
    worker = env.work(lambda item: None)
    data, errors = events_of(worker, "data"), events_of(worker, "error")
    env.push(1)
    errors.wait()
    env.push(2)
    [done] = data.wait()
    assert done.item.payload == 2


def test_unsettled_outcomes_are_bounded(env: WorkerEnv) -> None:
    """Unsettled items would run again after a crash, so there are only few."""
    env.push(*range(1000))
    held, seen = env.interceptor.stop_next("queues.settle"), Signal()
    env.work(seen, chunk=10)
    held.arrived.wait()
    is_waiting = threading.Event()
    assert not is_waiting.wait(0.1)
    # A settle in progress, outcomes for the next one, and a claim on top of each.
    assert len(seen.seen) <= 2 * (20 + MAX_CHUNKS * 10)
    held.open()
    seen.wait(1000)


def test_a_worker_for_some_channels(env: WorkerEnv) -> None:
    """It gets nothing else, and also channels that are created later."""
    seen = Signal()
    linux, mac = {"os": "linux"}, {"os": "mac"}
    env.push(1, channel=mac)
    env.push(2, channel=linux)
    worker = env.work(lambda item: seen(item.payload), select=where(os="linux"))
    assert seen.wait(1) == [2]
    env.push(3, channel=mac)
    env.push(4, channel=linux)
    assert seen.wait(2) == [2, 4]
    worker.stop()
    assert env.counts.pending == 2
    assert [row.select for row in env.run("channels.selections", "q")] == [where(os="linux").form]


def test_what_a_worker_selects_is_checked(env: WorkerEnv) -> None:
    with pytest.raises(InvalidOption, match="select"):
        env.work(print, select={"os": "linux"})
