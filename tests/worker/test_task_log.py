"""What the log says of tasks."""

import asyncio
import logging
import re
from typing import Any

import pytest
from worker_fixtures import WorkerEnv, events_of

from headrace.worker import App, Kill, Reject, Reschedule, TaskFields

own = logging.getLogger("shop.jobs")


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=4)
    return App(client=env.hr)


def work_once(env: WorkerEnv, app: App, task: Any, **options: Any) -> int:
    """Let a worker run one call, and return its id."""
    worker = env.work(app.handler("mail"))
    data = events_of(worker, "data")
    id: int = task.options(**options).push("ann")
    data.wait()
    worker.stop()
    return id


def records(caplog: pytest.LogCaptureFixture, level: int) -> list[Any]:
    return [each for each in caplog.records if each.levelno == level]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_line_for_each_start_and_end(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    async def asend(to: str) -> None:
        await asyncio.sleep(0)

    def send(to: str) -> None: ...

    task = app.task(queue="mail", name="send")(asend if is_async else send)
    with caplog.at_level(logging.DEBUG, "headrace.tasks"):
        id = work_once(env, app, task)
    [start] = records(caplog, logging.DEBUG)
    [end] = records(caplog, logging.INFO)
    assert start.getMessage() == f"mail: send {id} started, attempt 1"
    assert re.fullmatch(rf"mail: send {id} done in [\d.e-]+ ms", end.getMessage())
    assert (end.queue, end.task, end.item, end.attempt) == ("mail", "send", id, 1)
    assert 0 <= end.duration_ms < 10_000


def test_another_outcome_is_named(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(queue="mail", name="send")(lambda to: Reschedule(delay=60))
    with caplog.at_level(logging.INFO, "headrace.tasks"):
        work_once(env, app, task)
    assert "returned Reschedule in" in caplog.text


def test_nothing_is_logged_of_success_unless_it_is_wanted(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    work_once(env, app, app.task(queue="mail", name="send")(lambda to: None))
    assert not caplog.records


def failing(error: BaseException) -> Any:
    def send(to: str) -> None:
        raise error

    return send


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"max_attempts": 3}, "attempt 1 of 3, next try in 4 s"),
        ({"max_attempts": -1}, "attempt 1, next try in 4 s"),
        ({"backoff": lambda item, error: 0.25}, "attempt 1 of 5, next try in 250 ms"),
        ({"max_attempts": 1}, "attempt 1 of 1, the last"),
    ],
)
def test_a_failure_says_when_the_next_attempt_is(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture, declared: Any, words: str
) -> None:
    task = app.task(queue="mail", name="send", **declared)(failing(OSError("busy")))
    id = work_once(env, app, task)
    record = records(caplog, logging.ERROR)[0]
    pattern = rf"mail: send {id} failed in [\d.e-]+ ms: OSError: busy; {words}"
    assert re.fullmatch(pattern, record.getMessage())
    assert (record.queue, record.task, record.item, record.attempt) == ("mail", "send", id, 1)
    assert record.duration_ms >= 0


def test_the_wait_of_a_queues_backoff_is_about_right(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    env.update(reject_delay=None, backoff={"first": 20, "jitter": 0.2})
    work_once(env, app, app.task(queue="mail", name="send")(failing(OSError("busy"))))
    assert "attempt 1 of 5, next try in about 18 s" in caplog.text


def test_a_death_has_the_fields_of_its_task(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    id = work_once(env, app, app.task(queue="mail", name="send")(lambda to: Kill("no address")))
    [record] = caplog.records
    assert record.getMessage().startswith(f"mail: send {id} is dead, claimed once: ")
    assert (record.task, record.item, record.attempt) == ("send", id, 1)  # type: ignore[attr-defined]  # extra


def test_a_returned_failure_with_an_exception_is_logged_as_one(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(queue="mail", name="send")(lambda to: Reject(OSError("busy"), delay=9))
    work_once(env, app, task)
    assert "OSError: busy; attempt 1 of 5, next try in 9 s" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
def test_a_traceback_begins_at_the_users_frame(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def send(to: str) -> None:
        raise OSError("busy")

    async def asend(to: str) -> None:
        await asyncio.sleep(0)
        send(to)

    @app.middleware
    def around(call: Any) -> Any:
        yield

    work_once(env, app, app.task(queue="mail", name="send")(asend if is_async else send))
    first = "in asend" if is_async else "in send"
    [error] = env.errors()
    lines = error.failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert __file__ in lines[1]
    assert lines[1].endswith(first)
    assert records(caplog, logging.ERROR)[0].exc_text is None or first in caplog.text
    assert "headrace/worker/" not in caplog.text


def test_an_error_of_a_plain_handler_names_the_item(
    env: WorkerEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(reject_delay=4)
    worker = env.work(failing(OSError("busy")))
    data = events_of(worker, "data")
    [id] = env.push({"n": 1})
    data.wait()
    record = records(caplog, logging.ERROR)[0]
    assert record.getMessage().startswith(f"q: item {id} failed in ")
    assert not hasattr(record, "task")


@pytest.mark.parametrize("is_async", [False, True])
def test_the_users_own_lines_can_have_the_fields(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def send(to: str) -> None:
        own.info("sending", extra={"attempt": "mine"})

    async def asend(to: str) -> None:
        send(to)

    task = app.task(queue="mail", name="send")(asend if is_async else send)
    caplog.handler.addFilter(fields := TaskFields())
    try:
        with caplog.at_level(logging.INFO, own.name):
            own.info("before")
            id = work_once(env, app, task)
    finally:
        caplog.handler.removeFilter(fields)
    before, record = (each for each in caplog.records if each.name == own.name)
    assert not hasattr(before, "task")
    found: Any = record
    assert (found.queue, found.task, found.item) == ("mail", "send", id)
    assert found.attempt == "mine"
