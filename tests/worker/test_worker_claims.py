"""How items come in and outcomes go out."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from workshop import Gate, Shop, Signal, heard, until

from headrace.core.where import where
from headrace.errors import (
    InvalidOption,
    InvalidQueueName,
    NotConnected,
    OutcomeUnknown,
    RegisterWorkerError,
    StoreBusy,
    StoreUnavailable,
)
from headrace.model.items import State
from headrace.testing.clocks import FakeClock
from headrace.worker import Complete, Push, Reject, Reschedule, register_worker
from headrace.worker.claiming import MOST_CHUNKS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def timed(url: str, clock: FakeClock) -> Iterator[Shop]:
    """A shop whose time stands still."""
    shop = Shop(url, clock=clock)
    yield shop
    shop.close()


def test_a_worker_makes_its_queue(shop: Shop) -> None:
    shop.work(print)
    shop.valve.ran["create_queue"].wait()
    assert shop.run("queue_info", "q").name == "q"


def test_items_that_wait_and_items_that_come(shop: Shop) -> None:
    """In order; a push wakes the worker."""
    shop.push(1, 2, 3)
    seen = Signal()
    worker = shop.work(lambda item: seen(item.payload))
    assert seen.wait(3) == [1, 2, 3]
    shop.push(4)
    seen.wait(4)
    worker.stop()
    assert (worker.done, shop.counts.total) == (4, 0)


def test_a_planned_item_runs_when_it_is_due(shop: Shop) -> None:
    seen = Signal()
    shop.work(lambda item: seen(item.payload))
    shop.push("later", delay=0.3)
    shop.push("now")
    assert seen.wait(2) == ["now", "later"]


def test_nothing_is_claimed_while_all_lanes_are_busy(shop: Shop) -> None:
    """With a chunk of one, whatever waits is free for other workers."""
    gate = Gate()
    worker = shop.work(gate, concurrency=2)
    shop.push(*range(5))
    gate.arrived.wait(2)
    assert (worker.busy, shop.counts.active, shop.counts.pending) == (2, 2, 3)
    assert len(shop.claim(5)) == 3
    gate.open()


def test_at_most_a_chunk_waits_in_the_worker(shop: Shop) -> None:
    gate = Gate()
    shop.push(*range(10))
    shop.work(gate, chunk=4)
    gate.arrived.wait()
    assert (shop.counts.active, shop.counts.pending) == (4, 6)
    gate.open()
    gate.arrived.wait(10)


def test_free_lanes_are_filled_by_one_claim(shop: Shop) -> None:
    gate = Gate()
    worker = shop.work(gate, concurrency=6)
    lanes: Any = worker._engine.lanes
    until(lambda: lanes._idle == 6, "six idle lanes")
    # The claim that is under way may not know of all of them.
    ran = shop.valve.ran["claim_items"]
    ran.wait(len(ran.seen) + 2)
    shop.push(*range(6))
    gate.arrived.wait(6)
    claims = [taking for taking in shop.valve.ran["claim_items"].seen if taking.items]
    assert len(claims) == 1
    gate.open()


def test_outcomes_that_come_during_a_settle_go_together(shop: Shop) -> None:
    shop.push(*range(6))
    seen, held = Signal(), shop.valve.hold("settle")
    worker = shop.work(seen, chunk=1)
    held.arrived.wait()
    seen.wait(4)
    held.open()
    seen.wait(6)
    worker.stop()
    assert sum(shop.valve.settles) == 6
    assert max(shop.valve.settles) > 1


def test_a_claim_goes_out_while_a_settle_is_under_way(shop: Shop) -> None:
    shop.push(1)
    held = shop.valve.hold("settle")
    seen = Signal()
    shop.work(lambda item: seen(item.payload))
    held.arrived.wait()
    shop.push(2)
    assert seen.wait(2) == [1, 2]
    held.open()


def test_a_chunk_of_quick_items_is_settled_in_few_operations(shop: Shop) -> None:
    shop.push(*range(1000))
    seen = Signal()
    worker = shop.work(seen, chunk=100)
    seen.wait(1000)
    worker.stop()
    assert sum(shop.valve.settles) == 1000
    assert len(shop.valve.settles) < 50
    assert (worker.done, shop.counts.total) == (1000, 0)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_concurrency_follows_the_settings(shop: Shop, kind: str) -> None:
    """Up and down, unless the worker was registered with its own."""
    shop.create(worker_concurrency=1, worker_chunk=1)
    first, second = Gate(), Gate()
    gates = [first]

    def handle(item: Any) -> None:
        gates[-1](item.payload)

    async def ahandle(item: Any) -> None:
        import asyncio

        await asyncio.to_thread(handle, item)

    worker = shop.work(handle if kind == "sync" else ahandle)
    states = heard(worker, "data")
    shop.push(*range(2))
    first.arrived.wait()
    assert worker.busy == 1
    shop.update(worker_concurrency=3)
    gates.append(second)
    first.open()
    shop.push(*range(3))
    second.arrived.wait(3)
    assert worker.busy == 3
    second.open()
    states.wait(5)
    third = Gate()
    gates.append(third)
    info = shop.update(worker_concurrency=1)
    until(lambda: worker._engine.intake.version == info.version, "the new settings")
    shop.push(*range(3))
    third.arrived.wait()
    assert (worker.busy, shop.counts.active) == (1, 1)
    third.open()
    states.wait(8)


def test_own_chunk_and_concurrency_stay(shop: Shop) -> None:
    shop.create(worker_concurrency=5, worker_chunk=5)
    gate = Gate()
    worker = shop.work(gate, chunk=2, concurrency=1)
    shop.update(worker_chunk=9)
    shop.push(*range(10))
    gate.arrived.wait()
    assert (worker.busy, shop.counts.active) == (1, 2)
    gate.open()


def test_a_lease_can_be_asked_for(timed: Shop, clock: FakeClock) -> None:
    gate = Gate()
    timed.work(gate, lease=7)
    timed.push(1)
    [item] = gate.arrived.wait()
    assert item.deadline.timestamp() == (clock.now + 7000) / 1000
    gate.open()


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(shop: Shop) -> None:
    shop.create()
    shop.run("pause_queue", "q", "me")
    seen = Signal()
    shop.work(seen)
    shop.push(1)
    shop.valve.ran["claim_items"].wait_for(lambda all: any(t.state == "paused" for t in all))
    assert not seen.seen
    shop.run("resume_queue", "q")
    seen.wait()


def test_a_dropped_queue_is_waited_for(shop: Shop) -> None:
    """One word of it, and whoever pushes to it again is heard."""
    seen = Signal()
    worker = shop.work(seen)
    errors = heard(worker, "error")
    shop.push(1)
    seen.wait()
    shop.valve.ran["settle"].wait()
    shop.run("drop_queue", "q", False)
    [trouble] = errors.wait()
    assert (trouble.error.code, trouble.doing) == ("unknown_queue", "claim")
    shop.push(2)
    seen.wait(2)
    assert len(errors.seen) == 1


def test_one_registration_per_queue_and_client(shop: Shop) -> None:
    worker = shop.work(print)
    with pytest.raises(RegisterWorkerError, match="'q' already") as caught:
        shop.work(print)
    assert caught.value.queue == "q"
    other = register_worker(shop.hr, "other", print)
    elsewhere = register_worker(shop.outside, "q", print)
    assert len({worker.id, other.id, elsewhere.id}) == 3
    other.stop()
    elsewhere.stop()
    worker.stop()
    assert shop.work(print).status == "running"


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
def test_a_wrong_option_is_refused(shop: Shop, options: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        shop.work(print, **options)
    assert caught.value.option == option
    shop.work(print)


def test_a_wrong_call_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidOption, match="function of an item"):
        shop.work("print")
    with pytest.raises(InvalidQueueName):
        register_worker(shop.hr, "no good", print)
    shop.hr.close()
    with pytest.raises(NotConnected):
        shop.work(print)


AWAY = StoreUnavailable("the database is away")


@pytest.mark.parametrize("operation", ["create_queue", "claim_items"])
def test_a_store_that_is_away_is_tried_for_ever(shop: Shop, operation: str) -> None:
    """Each failure is told, and when it is back the worker goes on by itself."""
    shop.valve.break_next(operation, AWAY, StoreBusy("busy"), OSError("broken"), AWAY)
    seen = Signal()
    worker = shop.work(seen)
    errors = heard(worker, "error")
    shop.push(1)
    seen.wait()
    assert shop.valve.failed[operation] == 4
    errors.wait(3)
    assert {trouble.doing for trouble in errors.seen} == {"claim"}
    assert worker.status == "running"


def test_a_waiter_that_breaks_is_replaced(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = shop.hr._store
    make, made = store.waiter, Signal()

    def waiter(topic: str) -> Any:
        made(topic)
        if len(made.seen) == 1:
            raise OSError("no more files")
        return make(topic)

    monkeypatch.setattr(store, "waiter", waiter)
    seen = Signal()
    shop.work(seen)
    shop.push(1)
    seen.wait()
    assert made.seen == ["queue/q", "queue/q"]


def test_a_settle_is_repeated_until_the_store_is_back(shop: Shop) -> None:
    shop.valve.break_next("settle", AWAY, StoreBusy("busy"), AWAY)
    seen = Signal()
    worker = shop.work(seen)
    errors, data = heard(worker, "error"), heard(worker, "data")
    shop.push(1)
    data.wait()
    assert [trouble.doing for trouble in errors.seen] == ["settle"] * 3
    assert (len(seen.seen), shop.counts.total) == (1, 0)


@pytest.mark.parametrize("has_effect", [False, True])
def test_a_settle_of_unknown_outcome_is_repeated(shop: Shop, has_effect: bool) -> None:
    """The token makes it safe: what took effect is not written twice, what did not is not lost."""
    unknown = OutcomeUnknown("who knows")
    if has_effect:
        shop.valve.break_after("settle", unknown)
    else:
        shop.valve.break_next("settle", unknown)
    seen = Signal()

    def handle(items: Any) -> Any:
        seen()
        return [Complete(then=[Push("other", 1)]), Reschedule(delay=60), None]

    worker = shop.work(handle, batch=True, chunk=3)
    errors, lost = heard(worker, "error"), heard(worker, "lost")
    shop.push(1, 2, 3)
    errors.wait()
    shop.valve.ran["settle"].wait()
    worker.stop()
    assert (len(seen.seen), shop.valve.settles) == (1, [3, 3])
    assert (shop.counts.planned, shop.counts.active, shop.counts.total) == (1, 0, 1)
    shop.name = "other"
    assert shop.counts.total == 1
    # Whether it was lost or done nobody can tell from the second answer.
    assert (worker.done, worker.lost, lost.seen) == (0 if has_effect else 3, 0, [])


def test_a_claim_of_unknown_outcome_is_left_to_its_lease(timed: Shop, clock: FakeClock) -> None:
    timed.valve.break_after("claim_items", OutcomeUnknown("who knows"))
    timed.push(1)
    seen = Signal()
    worker = timed.work(lambda item: seen(item.crashes))
    timed.valve.ran["claim_items"].wait()
    assert (worker.busy, timed.counts.active) == (0, 1)
    clock.advance(301)
    assert seen.wait() == [1]


def test_one_bad_outcome_does_not_harm_the_others(shop: Shop) -> None:
    """Settled alone, each gets what it deserves; the culprit is rejected."""
    store: Any = shop.hr._store
    settle = store.settle

    def picky(queue: str, outcomes: Any) -> Any:
        if any(outcome.pushes for outcome in outcomes):
            raise ValueError("cannot push that")
        return settle(queue, outcomes)

    store.settle = picky
    results = {1: None, 2: Complete(then=[Push("other", 1)]), 3: Reject("x", delay=60)}
    worker = shop.work(lambda item: results[item.payload], chunk=3)
    data = heard(worker, "data")
    shop.push(1, 2, 3)
    by_payload = {done.item.payload: done for done in data.wait(3)}
    assert by_payload[1].settled.state == "completed"
    assert by_payload[2].outcome.error.message == "cannot push that"
    assert by_payload[3].settled.state == "planned"


def test_a_settle_that_is_refused_for_good_is_forgotten(shop: Shop) -> None:
    """The worker lives on."""
    shop.valve.break_next("settle", ValueError("no"))
    seen = Signal()
    worker = shop.work(seen)
    data, errors = heard(worker, "data"), heard(worker, "error")
    shop.push(1)
    errors.wait()
    shop.push(2)
    [done] = data.wait()
    assert done.item.payload == 2
    assert shop.item(1).state == State.ACTIVE


def test_an_answer_of_the_store_that_does_not_fit_is_survived(shop: Shop) -> None:
    """A driver's mistake must not leave a worker that never settles again."""
    store: Any = shop.hr._store
    run, strange = store.run, [[]]

    def mistaken(op: Any) -> Any:
        answer = run(op)
        return strange.pop() if op.name == "settle" and strange else answer

    store.run = mistaken
    worker = shop.work(lambda item: None)
    data, errors = heard(worker, "data"), heard(worker, "error")
    shop.push(1)
    errors.wait()
    shop.push(2)
    [done] = data.wait()
    assert done.item.payload == 2


def test_a_worker_does_not_run_away_from_its_settles(shop: Shop) -> None:
    """What is not settled would be done again after a crash, so there is not much of it."""
    shop.push(*range(1000))
    held, seen = shop.valve.hold("settle"), Signal()
    shop.work(seen, chunk=10)
    held.arrived.wait()
    is_waiting = threading.Event()
    assert not is_waiting.wait(0.1)
    # A settle under way, what waits for the next one, and a claim each on top of both.
    assert len(seen.seen) <= 2 * (20 + MOST_CHUNKS * 10)
    held.open()
    seen.wait(1000)


def test_a_worker_for_some_channels(shop: Shop) -> None:
    """Nothing else is handed out to it, also of channels that come later."""
    seen = Signal()
    linux, mac = {"os": "linux"}, {"os": "mac"}
    shop.push(1, channel=mac)
    shop.push(2, channel=linux)
    worker = shop.work(lambda item: seen(item.payload), select=where(os="linux"))
    assert seen.wait(1) == [2]
    shop.push(3, channel=mac)
    shop.push(4, channel=linux)
    assert seen.wait(2) == [2, 4]
    worker.stop()
    assert shop.counts.pending == 2
    assert [row.select for row in shop.run("selections", "q")] == [where(os="linux").form]


def test_what_a_worker_selects_is_checked(shop: Shop) -> None:
    with pytest.raises(InvalidOption, match="select"):
        shop.work(print, select={"os": "linux"})
