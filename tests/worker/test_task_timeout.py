"""The time limit of one attempt."""

import asyncio
import time
from typing import Any

import pytest
from worker_fixtures import Signal, WorkerEnv, events_of

from headrace.errors import InvalidOption
from headrace.worker import App, Retry, TaskTimeout


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=60)
    return App(client=env.hr)


def worked(env: WorkerEnv, app: App, task: Any, *, plain: bool = False) -> Any:
    worker = env.work(app.handle if plain else app.handler("mail"))
    data = events_of(worker, "data")
    task.push()
    [done] = data.wait()
    worker.stop()
    return done


@pytest.mark.parametrize("plain", [False, True])
def test_an_attempt_that_runs_too_long_has_failed(env: WorkerEnv, app: App, plain: bool) -> None:
    """It counts, and its traceback shows where the task was."""

    @app.task(queue="mail", timeout=0.02)
    async def slow() -> None:
        await asyncio.sleep(60)

    done = worked(env, app, slow, plain=plain)
    assert (done.settled.state, done.item.attempts) == ("planned", 1)
    [error] = env.errors()
    assert error.failure.type == "TaskTimeout"
    assert error.failure.message == "slow ran longer than its timeout of 20 ms"
    lines = error.failure.traceback.splitlines()
    assert lines[1].endswith("in slow")
    assert "CancelledError" not in error.failure.traceback


def test_it_obeys_the_retry_policy(env: WorkerEnv, app: App) -> None:
    @app.task(queue="mail", timeout=0.02, retry=Retry(give_up=TaskTimeout))
    async def slow() -> None:
        await asyncio.sleep(60)

    assert worked(env, app, slow).settled.state == "dead"


def test_a_task_that_is_quick_enough(env: WorkerEnv, app: App) -> None:
    @app.task(queue="mail", timeout="1m")
    async def quick() -> None:
        await asyncio.sleep(0)

    assert worked(env, app, quick).settled.state == "completed"


def test_a_timeout_of_the_tasks_own_is_its_error(env: WorkerEnv, app: App) -> None:
    @app.task(queue="mail", timeout="1m")
    async def own() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(60)

    worked(env, app, own)
    assert env.errors()[0].failure.type == "TimeoutError"


def test_a_task_may_clean_up_and_return(env: WorkerEnv, app: App) -> None:
    """Then it has succeeded: what a function returns counts."""
    seen = Signal()

    @app.task(queue="mail", timeout=0.02)
    async def careful() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen()

    assert worked(env, app, careful).settled.state == "completed"
    assert len(seen.seen) == 1


def test_many_timeouts_do_not_slow_the_worker_down(env: WorkerEnv, app: App) -> None:
    """A cancelled handler would stop it for a second each time."""

    @app.task(queue="mail", timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(60)

    for _ in range(20):
        slow.push()
    worker = env.work(app.handler("mail"), concurrency=1)
    data = events_of(worker, "data")
    since = time.monotonic()
    data.wait(20)
    assert time.monotonic() - since < 10


def test_middleware_sees_the_cancellation(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.middleware
    def watch(call: Any) -> Any:
        try:
            yield
        finally:
            seen(call.name)

    @app.task(queue="mail", timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(60)

    assert worked(env, app, slow).settled.state == "planned"
    assert seen.seen == ["slow"]


def test_a_stop_cancels_a_task_with_a_timeout(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail", timeout="1m")
    async def slow() -> None:
        seen()
        await asyncio.sleep(60)

    slow.push()
    worker = env.work(app.handler("mail"))
    seen.wait()
    worker.stop(0)
    assert env.counts.pending == 1


@pytest.mark.parametrize(
    ("timeout", "message"),
    [(0, "timeout is 0"), (-1, "timeout is -1"), ("soon", "timeout is 'soon'")],
)
def test_a_wrong_timeout_is_refused(app: App, timeout: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        app.task(queue="mail", timeout=timeout)


def test_a_plain_function_has_no_timeout(app: App) -> None:
    def send() -> None: ...

    with pytest.raises(InvalidOption, match="is a plain function, which cannot be interrupted"):
        app.task(queue="mail", timeout=1)(send)
    assert not app.tasks
