"""Running followers, and temporary failures."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import headrace
from headrace.client import follower_retries
from headrace.client.workflows import topic_to_queue as moving_rules
from headrace.drivers import notifier
from headrace.errors import QueueFull, StoreUnavailable

PATIENCE = 20.0


def eventually(is_so: Callable[[], Any]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < give_up, "it did not come"
        time.sleep(0.002)


def test_a_follower_waits_for_capacity_and_for_its_proc(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs the reason and continues, also after a failure of the store."""
    monkeypatch.setattr(follower_retries, "MAX_RETRY_SECONDS", 0.1)
    with headrace.connect(store_url) as hr:
        hr.queues.create("mail", max_items=1, exist_ok=True).push("first")
        follower = hr.topic("orders").to_queue("mail")
        run_op, errors = hr._store.run, [StoreUnavailable("away")]

        def failing(op: Any) -> Any:
            if (
                op.name == "procs.claim"
                and errors
                and threading.current_thread().name == follower.name
            ):
                op.accept()
                raise errors.pop()
            return run_op(op)

        monkeypatch.setattr(hr._store, "run", failing)
        hr.commit("orders", {"n": 1})
        with follower:
            eventually(lambda: "max_items" in caplog.text)
            hr.queue("mail").claim()[0].complete()
            eventually(lambda: hr.queue("mail").stats().pending == 1)
            hr.queue("mail").claim()[0].complete()
            follower.proc.disable()
            hr.commit("orders", {"n": 2})
            eventually(lambda: "disabled" in caplog.text)
            follower.proc.resume()
            eventually(lambda: hr.queue("mail").stats().pending == 1)
    assert "away" in caplog.text


def test_stop_does_not_wait_for_the_next_poll(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("POLL", "SURE_POLL"):
        monkeypatch.setattr(notifier, wait, 3600.0)
    with headrace.connect(store_url) as hr:
        hr.queues.create("mail")
        follower = hr.topic("orders").to_queue("mail").start()
        hr.commit("orders", {"n": 1})
        eventually(lambda: hr.queue("mail").stats().pending == 1)
        stopping = threading.Thread(target=follower.stop, daemon=True)
        stopping.start()
        stopping.join(PATIENCE)
        assert not stopping.is_alive()


def test_a_stopped_follower_can_be_started_again(store_url: str) -> None:
    with headrace.connect(store_url) as hr:
        follower = hr.topic("orders").to_queue("mail")
        for n in range(3):
            with follower:
                hr.commit("orders", {"n": n})
                [item] = hr.queue("mail").claim(wait=PATIENCE)
                assert item.payload == {"n": n}
                item.complete()


def test_stop_ends_a_run_that_has_not_begun(store_url: str) -> None:
    """A thread that calls ``run`` late still ends."""
    with headrace.connect(store_url) as hr:
        follower = hr.topic("orders").to_queue("mail")
        follower.stop()
        running = threading.Thread(target=follower.run, daemon=True)
        running.start()
        running.join(PATIENCE)
        assert not running.is_alive()


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_an_interrupted_drop_loses_no_other_record(
    store_url: str, monkeypatch: pytest.MonkeyPatch, *, is_done: bool
) -> None:
    """Whichever operation fails, good records wait for capacity and become no dead letters."""

    def run(hr: Any, name: str, fails_at: int) -> bool:
        """Drop a bad record while one operation fails. Return whether there were that many
        operations."""
        hr.queues.create(name, max_items=1, exist_ok=True).push("first")
        hr.commit(name, {"bad": 1})
        follower = hr.topic(name).to_queue(name, subject="who")
        run_op, count = hr._store.run, 0

        def failing(op: Any) -> Any:
            nonlocal count
            count += 1
            if count != fails_at:
                return run_op(op)
            if is_done:
                run_op(op)
            else:
                op.accept()
            raise StoreUnavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(hr._store, "run", failing)
            try:
                follower.run_once()
            except StoreUnavailable:
                pass
            else:
                return False
        # Records claimed by the failed operation are free again.
        if any(proc.claimed for proc in hr.procs.list(topic=name)):
            follower.proc.nack()
        hr.commit(name, {"who": "ann"})
        for _ in range(3):
            with pytest.raises(QueueFull):
                follower.run_once()
        hr.queue(name).claim()[0].complete()
        assert follower.run_once() == 1
        assert [letter.body["body"] for letter in hr.range(f"{follower.name}-dead")] == [{"bad": 1}]
        return True

    with headrace.connect(store_url) as hr:
        failed = [run(hr, f"t{n}", n) for n in range(1, 10)]
    assert failed[:2] == [True, True]
    assert failed[-1] is False


@pytest.mark.parametrize("record", [{"who": "ann"}, {"bad": 1}], ids=["good", "bad"])
def test_a_claim_that_another_process_took_over_ends_no_follower(
    store_url: str, monkeypatch: pytest.MonkeyPatch, record: dict[str, Any]
) -> None:
    """It claims again: nothing of the claim was copied."""
    with headrace.connect(store_url) as hr:
        hr.commit_many("orders", [record, {"who": "bob"}])
        follower = hr.topic("orders").to_queue("mail", subject="who")
        run_op, is_claimed = hr._store.run, False

        def late(op: Any) -> Any:
            nonlocal is_claimed
            if op.name in ("procs.ack_push", "procs.nack") and not is_claimed:
                is_claimed = True
                follower.proc.nack()
            return run_op(op)

        monkeypatch.setattr(hr._store, "run", late)
        assert follower.run_once() == (2 if "who" in record else 1)
        assert is_claimed
        assert follower.lag().records == 0


def test_a_replay_that_another_process_runs_too_keeps_its_end(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the other process copies between two steps, nothing beyond the end is pushed."""
    with headrace.connect(store_url) as hr:
        ids = hr.commit_many("orders", [{"n": n} for n in range(5)])
        replay = hr.topic("orders").replay("mail", ids[0], ids[2])
        proc = hr.proc(replay.name)
        run_op, is_moved = hr._store.run, False

        def moving(op: Any) -> Any:
            nonlocal is_moved
            if op.name == "procs.claim" and not is_moved:
                is_moved = True
                claim = proc.claim(2)
                assert claim is not None
                claim.ack()
            return run_op(op)

        monkeypatch.setattr(hr._store, "run", moving)
        replay.run()
        assert [item.payload for item in hr.queue("mail").claim(10)] == [{"n": 2}]
        assert replay.done() == 3


def test_a_replay_waits_for_another_process(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It polls, and continues when the other process is done."""
    with headrace.connect(store_url) as hr:
        hr.commit_many("orders", [{"n": n} for n in range(3)])
        replay = hr.topic("orders").replay("mail")
        claim = hr.proc(replay.name).claim(2)
        assert claim is not None
        asked: list[float] = []
        run_op = hr._store.run

        def counting(op: Any) -> Any:
            if op.name == "procs.claim":
                asked.append(time.monotonic())
                if len(asked) == 3:
                    claim.ack()
            return run_op(op)

        monkeypatch.setattr(hr._store, "run", counting)
        replay.run()
        assert len(asked) == 3
        assert asked[-1] - asked[0] >= moving_rules.PAUSE
        assert [item.payload for item in hr.queue("mail").claim(10)] == [{"n": 2}]


def test_an_async_follower_waits_for_capacity(
    memory_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(follower_retries, "MAX_RETRY_SECONDS", 0.1)

    async def scenario() -> Any:
        async with await headrace.aconnect(memory_url) as hr:
            queue = await hr.queues.create("mail", max_items=1, exist_ok=True)
            follower = hr.topic("orders").to_queue("mail")
            async with asyncio.timeout(PATIENCE), follower:
                await queue.push("first")
                await hr.commit("orders", {"n": 1})
                while "max_items" not in caplog.text:
                    await asyncio.sleep(0.002)
                [item] = await queue.claim()
                await item.complete()
                [item] = await queue.claim(wait=PATIENCE)
                return item.payload

    assert asyncio.run(scenario()) == {"n": 1}
