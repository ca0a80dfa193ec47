"""Operations, and how they run."""

import asyncio
import gc
import warnings

import pytest

import headrace
from headrace.contract.op import Op, Steps
from headrace.contract.shield import finish
from headrace.contract.values import CommitCall, CommitPart
from headrace.drivers.runner import Runner, TryAgain, Work
from headrace.errors import HeadraceError, OutcomeUnknown, StoreBusy, StoreUnavailable


def nothing() -> Steps[int]:
    yield from ()
    return 1


def forget() -> None:
    Op("mine", nothing)
    gc.collect()


def test_an_operation_that_never_ran_warns() -> None:
    """As a coroutine does: a forgotten run is lost work."""
    with pytest.warns(RuntimeWarning, match="'mine' was built but never run"):
        forget()


def test_an_operation_that_ran_does_not_warn() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert headrace.connect("memory://")._store.run(Op("mine", nothing)) == 1
        gc.collect()
    assert caught == []


def test_operations_compose_into_one_transaction(store_url: str) -> None:
    """Both happen, or the failure of the second undoes the first."""
    hr = headrace.connect(store_url)
    store = hr._store

    def commit(topic: str) -> Op[list[object]]:
        return store.topics.commit([CommitCall(parts=(CommitPart(topic, 1, "{}"),))])

    def both() -> Steps[int]:
        yield from commit("a")
        yield from commit("b")
        return 2

    def broken() -> Steps[int]:
        yield from commit("c")
        raise HeadraceError("changed my mind")

    assert store.run(Op("both", both)) == 2
    with pytest.raises(HeadraceError, match="changed my mind"):
        store.run(Op("broken", broken))
    assert [info.name for info in hr.topics.list()] == ["a", "b"]
    hr.close()


class Flaky(Runner):
    """Fails a number of times."""

    name = "flaky"

    def __init__(self, failures: int, error: HeadraceError, patience: float = 5.0) -> None:
        super().__init__(patience=patience)
        self.failures = failures
        self.error = error

    def attempt(self, op: Op[int]) -> Work[int]:
        if self.failures:
            self.failures -= 1
            raise TryAgain(self.error)
        return (yield from op)


def test_temporary_failures_are_retried() -> None:
    """The event counts the attempts."""
    events: list[headrace.telemetry.Event] = []
    unsubscribe = headrace.telemetry.subscribe(events.append)
    try:
        assert Flaky(3, StoreBusy("busy")).run(Op("mine", nothing)) == 1
        assert asyncio.run(Flaky(2, StoreBusy("busy")).arun(Op("mine", nothing))) == 1
    finally:
        unsubscribe()
    assert [(event.attempts, event.outcome) for event in events] == [(4, "ok"), (3, "ok")]


@pytest.mark.parametrize(
    ("error", "outcome"), [(StoreUnavailable("gone"), "failed"), (OutcomeUnknown("?"), "unknown")]
)
def test_when_patience_ends_the_reason_is_raised(error: HeadraceError, outcome: str) -> None:
    events: list[headrace.telemetry.Event] = []
    unsubscribe = headrace.telemetry.subscribe(events.append)
    try:
        with pytest.raises(type(error)):
            Flaky(10**6, error, patience=0.05).run(Op("mine", nothing))
    finally:
        unsubscribe()
    assert [(event.outcome, event.code) for event in events] == [(outcome, error.code)]
    assert events[0].attempts > 1


def test_cancelling_waits_for_an_outcome_in_progress() -> None:
    """The caller is cancelled, and the operation is still applied."""

    async def scenario() -> bool:
        started, go = asyncio.Event(), asyncio.Event()
        done = False

        async def work() -> None:
            nonlocal done
            started.set()
            await go.wait()
            done = True

        task = asyncio.ensure_future(finish(work()))
        await started.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    assert asyncio.run(scenario())


def test_a_cancelled_commit_is_all_or_nothing(durable_url: str) -> None:
    """Cancelled at any moment, each commit is either stored or not, and the client continues."""

    async def scenario() -> tuple[int, int]:
        hr = await headrace.aconnect(durable_url)
        await hr.commit("t", {"n": -1})
        for n in range(40):
            task = asyncio.ensure_future(hr.commit_many("t", [{"n": n}] * 3))
            for _ in range(n):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        length = await hr.topic("t").length()
        records = await hr.range("t")
        await hr.close()
        return length, len(records)

    length, found = asyncio.run(scenario())
    assert length == found
    assert (length - 1) % 3 == 0


def test_a_broken_listener_does_not_break_the_operation(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged, and the operation is applied."""

    def listener(event: headrace.telemetry.Event) -> None:
        raise ValueError("bad listener")

    unsubscribe = headrace.telemetry.subscribe(listener)
    try:
        with headrace.connect("memory://") as hr:
            hr.commit("t", {})
            assert hr.topic("t").length() == 1
    finally:
        unsubscribe()
    assert "bad listener" in caplog.text


def test_events_can_be_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Short text, with the facts beside it."""
    from headrace.telemetry import log

    detach = log.attach()
    try:
        with caplog.at_level("DEBUG", "headrace"), headrace.connect("memory://") as hr:
            hr.commit("t", {})
            with pytest.raises(headrace.errors.UnknownTopic):
                hr.topic("u").length()
    finally:
        detach()
    first, second = caplog.records
    assert first.getMessage().startswith("topics.commit on memory: ok in ")
    assert (second.levelname, second.__dict__["code"]) == ("INFO", "invalid_topic")
