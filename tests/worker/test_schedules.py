"""Workers fire schedules, and store those that their app declares."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from worker_fixtures import PATIENCE, Signal

import headrace
from headrace import App, Push, telemetry
from headrace.errors import InvalidOption, NotAllowed
from headrace.worker import Worker


@pytest.fixture
def hr(durable_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(durable_url) as hr:
        yield hr


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def durable_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def soon(seconds: float = 0.1) -> int:
    return int(time.time() * 1000 + seconds * 1000)


def wait_until_stored(hr: headrace.Headrace, *names: str) -> list[headrace.types.ScheduleInfo]:
    """A worker stores what its app declares in the background."""
    over = time.monotonic() + PATIENCE
    while [info.name for info in hr.schedules.list()] != sorted(names):
        assert time.monotonic() < over
        time.sleep(0.01)
    return hr.schedules.list()


def stop(workers: list[Worker]) -> None:
    for worker in workers:
        worker.stop(0)


def test_a_task_runs_by_its_schedule(hr: headrace.Headrace) -> None:
    app, ran = App(), Signal()

    @app.task(queue="q", schedule={"every": 0.1, "overlap": "allow"})
    def tick() -> None:
        ran()

    workers = app.work(hr)
    ran.wait(3)
    info = hr.schedules.get("tick")
    assert (info.every, info.owner, info.overlap) == (0.1, __name__, "allow")
    assert info.fires >= 3
    stop(workers)


def test_a_worker_is_woken_when_a_schedule_is_added(
    hr: headrace.Headrace, durable_url: str
) -> None:
    """By another client, and without waiting for its next look, which is seconds away."""
    fired, looked = Signal(), Signal()
    unsubscribe = telemetry.subscribe(looked)
    worker = hr.start_worker("q", lambda item: fired((item.payload, time.time() * 1000)))
    # When it begins, and when it can be woken.
    looked.wait_for(lambda seen: sum(e.operation == "schedules.until_due" for e in seen) >= 2)
    unsubscribe()
    at = soon()
    if durable_url.startswith("memory"):
        hr.schedules.add("s", at=at, push=Push("q", "now"))
    else:
        with headrace.connect(durable_url) as other:
            other.schedules.add("s", at=at, push=Push("q", "now"))
    [(payload, ran_at)] = fired.wait()
    assert payload == "now"
    assert at <= ran_at < at + 4000
    worker.stop(0)


def test_what_an_app_declares_is_replaced_by_its_next_release(hr: headrace.Headrace) -> None:
    """Starting again changes nothing; a paused schedule stays paused."""
    for cron in ("0 1 * * *", "0 1 * * *", "0 2 * * *"):
        app = App(name="shop")
        app.task(queue="q", name="report", schedule={"cron": cron, "zone": "Europe/Berlin"})(print)
        workers = app.work(hr)
        over = time.monotonic() + PATIENCE
        while not (found := hr.schedules.list()) or found[0].cron != cron:
            assert time.monotonic() < over
            time.sleep(0.01)
        hr.schedules.pause("report")
        stop(workers)
    info = hr.schedules.get("report")
    assert (info.cron, info.state, info.owner) == ("0 2 * * *", "paused", "shop")


def test_a_schedule_that_left_the_app_is_named_and_kept(
    hr: headrace.Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    hr.schedules.add("other", every="1h", push=Push("q", 1))
    before = App(name="shop")
    before.task(queue="q", name="stays")(print)
    for name in ("old", "kept"):
        before.schedule(name, every="1h", push=before.tasks["stays"].as_push())
    workers = before.work(hr)
    wait_until_stored(hr, "kept", "old", "other")
    stop(workers)
    after = App(name="shop")
    after.task(queue="q", name="stays")(print)
    after.schedule("kept", every="1h", push=after.tasks["stays"].as_push())
    with caplog.at_level(logging.WARNING, logger="headrace.schedules"):
        workers = after.work(hr)
        over = time.monotonic() + PATIENCE
        while not caplog.records:
            assert time.monotonic() < over
            time.sleep(0.01)
    [record] = caplog.records
    assert "schedule old is no longer declared by shop" in record.getMessage()
    assert "headrace schedule rm old" in record.getMessage()
    assert [info.name for info in hr.schedules.list()] == ["kept", "old", "other"]
    stop(workers)


def test_a_failing_action_is_logged(
    hr: headrace.Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    worker = hr.start_worker("q", print)
    hr.schedules.add("s", at=soon(0), pause="nowhere")
    over = time.monotonic() + PATIENCE
    while "s@" not in caplog.text:
        assert time.monotonic() < over
        time.sleep(0.01)
    assert "UnknownQueue: there is no queue 'nowhere'" in caplog.text
    assert hr.schedules.get("s").attempts >= 1
    worker.stop(0)


def test_a_client_that_may_fire_nothing_stores_what_it_declares(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a node that fires schedules itself: the worker works, and complains of nothing."""
    with headrace.connect(sqlite_url) as hr:
        refused, run = Signal(), hr._store.run

        def guarded(op: Any) -> Any:
            if op.name == "schedules.update_zones":
                op.accept()
                refused()
                raise NotAllowed("no scope of the token allows it")
            return run(op)

        monkeypatch.setattr(hr._store, "run", guarded)
        ran, errors = Signal(), Signal()
        worker = hr.start_worker("q", ran)
        worker.on("error", errors)
        refused.wait()
        app = App(client=hr)
        app.schedule("s", every="1h", push=Push("q", 1))
        app.store_schedules(hr)
        wait_until_stored(hr, "s")
        hr.push("q", 1)
        ran.wait()
        assert errors.seen == []
        worker.stop(0)


def test_schedules_of_an_app_without_workers_are_not_forgotten_in_silence(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    app.schedule("s", every="1h", push=Push("q", 1))
    with headrace.connect(sqlite_url) as hr:
        assert app.work(hr) == []
    assert "are not stored: this client has no workers" in caplog.text


class TestMistakes:
    """They are raised where they are made, not in a worker."""

    @pytest.mark.parametrize(
        "schedule",
        ["every day", "0 0 0 * * *", {"every": -5}, {"every": 5, "push": 1}, {}, 5, ["@daily"]],
    )
    def test_a_wrong_schedule_is_refused(self, schedule: object) -> None:
        app = App()
        with pytest.raises(InvalidOption):
            app.task(queue="q", name="t", schedule=schedule)(print)  # type: ignore[arg-type]  # on purpose
        assert app.tasks == {}

    def test_a_task_that_needs_arguments_is_refused(self) -> None:
        app = App()
        with pytest.raises(TypeError, match="missing a required argument: 'to'"):

            @app.task(queue="q", schedule="@daily")
            def send(to: str) -> None: ...

        assert app.tasks == {}

    def test_a_second_schedule_of_a_name_is_refused(self) -> None:
        app = App()
        app.schedule("s", every=5, push=Push("q", 1))
        with pytest.raises(InvalidOption, match="already"):
            app.schedule("s", every=5, push=Push("q", 1))

    def test_an_app_needs_a_name_of_text(self) -> None:
        with pytest.raises(InvalidOption, match="name is"):
            App(name="")
