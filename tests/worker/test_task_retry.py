"""The retry policy of a task."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from worker_fixtures import WorkerEnv, events_of, id_of

from headrace import Backoff
from headrace.errors import InvalidOption
from headrace.worker import App, Retry


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=60)
    return App(client=env.hr)


def failing(app: App, error: BaseException, retry: Retry, *, is_async: bool = False) -> Any:
    def bad() -> None:
        raise error

    async def abad() -> None:
        await asyncio.sleep(0)
        raise error

    return app.task(queue="mail", name="bad", retry=retry)(abad if is_async else bad)


def state_after(env: WorkerEnv, app: App, task: Any) -> Any:
    """The state after one attempt, and the milliseconds until the next."""
    worker = env.work(app.handler("mail"))
    data = events_of(worker, "data")
    id = task.push()
    [done] = data.wait()
    worker.stop()
    if done.settled.state == "dead":
        return "dead"
    item = env.item(id)
    return item.next_execution - item.last_iteration


class LimitedError(Exception):
    def __init__(self, retry_after: Any) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "retry", "state"),
    [
        (OSError("x"), Retry(), 60_000),
        (OSError("x"), Retry(backoff=Backoff(first=7, jitter=0)), 7_000),
        (OSError("x"), Retry(backoff=lambda item, error: 3), 3_000),
        (OSError("x"), Retry(on=(IOError,)), 60_000),
        (KeyError("x"), Retry(on=(IOError,)), "dead"),
        (KeyError("x"), Retry(on=LookupError), 60_000),
        (KeyError("x"), Retry(give_up=(ValueError, LookupError)), "dead"),
        (FileNotFoundError("x"), Retry(on=OSError, give_up=FileNotFoundError), "dead"),
        (OSError("x"), Retry(max_attempts=1), "dead"),
        (SystemExit(3), Retry(), 60_000),
        (LimitedError(9), Retry(backoff=lambda item, error: 3), 9_000),
        (LimitedError(timedelta(seconds=8)), Retry(), 8_000),
        (LimitedError("soon"), Retry(), 60_000),
        (LimitedError(-5), Retry(), 60_000),
        (LimitedError(True), Retry(), 60_000),
    ],
    ids=id_of,
)
def test_what_becomes_of_a_call_that_fails(
    env: WorkerEnv, app: App, error: BaseException, retry: Retry, state: Any, is_async: bool
) -> None:
    assert state_after(env, app, failing(app, error, retry, is_async=is_async)) == state


def test_a_call_that_is_given_up_keeps_its_error(env: WorkerEnv, app: App) -> None:
    task = failing(app, KeyError("ann"), Retry(give_up=KeyError))
    assert state_after(env, app, task) == "dead"
    [error] = env.errors()
    assert (error.failure.type, error.failure.message) == ("KeyError", "'ann'")
    assert "in bad" in error.failure.traceback


def test_only_a_task_with_a_policy_reads_the_delay_of_an_error(env: WorkerEnv, app: App) -> None:
    """Other libraries may mean something else by the attribute."""

    def bad() -> None:
        raise LimitedError(9)

    assert state_after(env, app, app.task(queue="mail")(bad)) == 60_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 5}, r"retry is 5: use Retry\(max_attempts=..., backoff=...\)"),
        ({"retry": Retry(), "max_attempts": 3}, "max_attempts is part of retry here"),
        ({"retry": Retry(), "backoff": Backoff()}, "backoff is part of retry here"),
        ({"retry": Retry(max_attempts=0)}, "max_attempts is 0: use 1 or more"),
        ({"retry": Retry(backoff=5)}, "backoff is 5: use Backoff"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_policy_is_refused_where_the_task_is_declared(
    app: App, options: Any, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        app.task(queue="mail", **options)


@pytest.mark.parametrize("option", ["on", "give_up"])
@pytest.mark.parametrize("errors", [5, "ValueError", (ValueError, 5), [ValueError]], ids=str)
def test_errors_are_named_by_their_classes(option: str, errors: Any) -> None:
    with pytest.raises(InvalidOption, match=rf"retry\.{option} is .*use a class of exceptions"):
        Retry(**{option: errors})
