"""Middleware around tasks."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from worker_fixtures import Signal, WorkerEnv, events_of, id_of

from headrace.errors import InvalidOption
from headrace.worker import App, Reschedule, TaskCall, current_item

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=60)
    return App(client=env.hr)


def worked(env: WorkerEnv, app: App, task: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the app's worker run one call."""
    [worker] = app.work()
    env.workers.append(worker)  # type: ignore[arg-type]  # a blocking one
    data = events_of(worker, "data")
    task.push(*args, **kwargs)
    [done] = data.wait()
    worker.stop()  # type: ignore[unused-coroutine]  # as above
    return done


def task_of(app: App, is_async: bool, seen: Signal, error: BaseException | None = None) -> Any:
    def run(to: str, *, text: str = "") -> Any:
        seen(("task", user.get()))
        if error is not None:
            raise error
        return to.upper()

    async def arun(to: str, *, text: str = "") -> Any:
        await asyncio.sleep(0)
        return run(to, text=text)

    return app.task(queue="mail", name="send")(arun if is_async else run)


both = pytest.mark.parametrize("is_async", [False, True])


@both
def test_the_first_is_the_outermost(env: WorkerEnv, app: App, is_async: bool) -> None:
    """And each sees the call and its result."""
    seen = Signal()

    @app.middleware
    def outer(call: TaskCall) -> Iterator[None]:
        seen(("outer", call.name, call.args, call.kwargs, call.attempt, call.item.id))
        yield
        seen(("outer ends", call.result))

    @app.middleware
    def inner(call: TaskCall) -> Iterator[None]:
        seen("inner")
        yield
        seen("inner ends")

    done = worked(env, app, task_of(app, is_async, seen), "ann", text="hi")
    assert done.settled.state == "completed"
    assert seen.seen == [
        ("outer", "send", ("ann",), {"text": "hi"}, 1, done.item.id),
        "inner",
        ("task", "nobody"),
        "inner ends",
        ("outer ends", "ANN"),
    ]


@both
def test_what_a_task_raises_is_raised_at_the_yield(
    env: WorkerEnv, app: App, is_async: bool
) -> None:
    seen = Signal()

    @app.middleware
    def watch(call: TaskCall) -> Iterator[None]:
        try:
            yield
        except LookupError as error:
            seen(error)
            raise

    done = worked(env, app, task_of(app, is_async, seen, LookupError("no")), "ann")
    assert done.settled.state == "planned"
    assert str(seen.seen[1]) == "no"
    [error] = env.errors()
    assert error.failure.type == "LookupError"


@both
def test_middleware_may_let_a_call_succeed_or_fail(
    env: WorkerEnv, app: App, is_async: bool
) -> None:
    @app.middleware
    def around(call: TaskCall) -> Iterator[None]:
        if call.args == ("no",):
            raise PermissionError("no")
        try:
            yield
        except LookupError:
            return

    task = task_of(app, is_async, Signal(), LookupError("no"))
    assert worked(env, app, task, "ann").settled.state == "completed"
    assert worked(env, app, task, "no").settled.state == "planned"
    assert env.errors()[0].failure.type == "PermissionError"


@both
def test_context_variables_reach_the_task(env: WorkerEnv, app: App, is_async: bool) -> None:
    seen = Signal()

    @app.middleware
    def as_user(call: TaskCall) -> Iterator[None]:
        token = user.set(call.args[0])
        assert current_item() is call.item
        yield
        user.reset(token)

    worked(env, app, task_of(app, is_async, seen), "ann")
    assert seen.seen == [("task", "ann")]
    assert user.get() == "nobody"


def test_functions_beside_coroutines_have_their_middleware_in_their_thread(
    env: WorkerEnv, app: App
) -> None:
    seen = Signal()

    @app.middleware
    def as_user(call: TaskCall) -> Iterator[None]:
        token = user.set(call.args[0])
        yield
        user.reset(token)

    task = task_of(app, False, seen)

    @app.task(queue="mail")
    async def other() -> None: ...

    done = worked(env, app, task, "ann")
    assert (done.settled.state, seen.seen) == ("completed", [("task", "ann")])


def test_async_middleware(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.middleware
    async def around(call: TaskCall) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        user.set("ann")
        yield
        await asyncio.sleep(0)
        seen(call.result)

    worked(env, app, task_of(app, True, seen), "bob")
    assert seen.seen == [("task", "ann"), "BOB"]


def test_async_middleware_and_a_function_do_not_start(env: WorkerEnv, app: App) -> None:
    @app.middleware
    async def around(call: TaskCall) -> AsyncIterator[None]:
        yield

    task_of(app, False, Signal())
    with pytest.raises(InvalidOption, match="middleware 'around' is async, and task 'send'"):
        app.work()


def test_an_outcome_of_a_task_passes_through(env: WorkerEnv, app: App) -> None:
    @app.middleware
    def around(call: TaskCall) -> Iterator[None]:
        yield

    task = app.task(queue="mail", name="later")(lambda: Reschedule(delay=60))
    assert worked(env, app, task).settled.state == "planned"


@pytest.mark.parametrize("wrong", [print, 5, lambda call: None], ids=id_of)
def test_middleware_is_a_generator_function(app: App, wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="a function of a TaskCall with one yield"):
        app.middleware(wrong)


def test_a_generator_without_a_yield_is_an_error_of_the_call(env: WorkerEnv, app: App) -> None:
    @app.middleware
    def around(call: TaskCall) -> Iterator[None]:
        if call.args:
            return
        yield

    done = worked(env, app, task_of(app, False, Signal()), "ann")
    assert done.settled.state == "planned"
    assert env.errors()[0].failure.message == "generator didn't yield"
