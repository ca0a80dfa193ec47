"""The lifespan of an app: before the first claim, after the last settle."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, events_of, id_of

import headrace
from headrace.errors import InvalidOption
from headrace.worker import App, current_resources

region: contextvars.ContextVar[str] = contextvars.ContextVar("region", default="nowhere")


@dataclass
class Resources:
    number: int
    loop: asyncio.AbstractEventLoop | None = None


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=60)
    return App(client=env.hr)


def declare(app: App, seen: Signal, *, is_async: bool) -> None:
    """A lifespan of either kind."""

    def resources(app: App) -> Iterator[Resources]:
        region.set("north")
        seen("begins")
        yield Resources(7)
        seen("ends")

    async def aresources(app: App) -> AsyncIterator[Resources]:
        async with asynccontextmanager(_aresources)(app) as made:
            yield made

    async def _aresources(app: App) -> AsyncIterator[Resources]:
        await asyncio.sleep(0)
        region.set("north")
        seen("begins")
        yield Resources(7, asyncio.get_running_loop())
        await asyncio.sleep(0)
        seen("ends")

    app.lifespan(aresources if is_async else resources)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_async_task", [False, True])
def test_tasks_run_inside_of_it(
    env: WorkerEnv, app: App, is_async: bool, is_async_task: bool
) -> None:
    """They get its resources, and the context variables that it has set."""
    seen = Signal()

    def task() -> None:
        seen((current_resources(Resources).number, region.get()))
        region.set("elsewhere")

    async def atask() -> None:
        loop = current_resources(Resources).loop
        assert loop in (None, asyncio.get_running_loop())
        task()

    declare(app, seen, is_async=is_async)
    push = app.task(queue="mail", name="t")(atask if is_async_task else task).push
    push()
    push()
    app.task(queue="other", name="o")(lambda: None)
    workers: Any = app.work(queues={"mail": 1, "other": 1})
    assert seen.wait(3) == ["begins", (7, "north"), (7, "north")]
    workers[0].stop()
    assert len(seen.seen) == 3
    workers[1].stop()
    assert seen.wait(4)[3] == "ends"
    assert region.get() == "nowhere"


@pytest.mark.parametrize("is_async", [False, True])
def test_it_ends_after_the_last_settle(env: WorkerEnv, app: App, is_async: bool) -> None:
    gate, seen = Gate(), Signal()
    declare(app, seen, is_async=is_async)
    app.task(queue="mail", name="t")(gate).push(1)
    worker: Any = app.work()[0]
    data = events_of(worker, "data")
    worker.on("data", lambda done: seen("settled"))
    gate.arrived.wait()
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    gate.open()
    stopping.join(20)
    data.wait()
    assert seen.seen == ["begins", "settled", "ends"]


@pytest.mark.parametrize("is_async", [False, True])
def test_closing_the_client_ends_it(url: str, is_async: bool) -> None:
    seen = Signal()
    with headrace.connect(url) as hr:
        app = App(client=hr)
        declare(app, seen, is_async=is_async)
        app.task(queue="mail", name="t")(lambda: None)
        app.work()
    assert seen.seen == ["begins", "ends"]


@pytest.mark.parametrize("is_async", [False, True])
def test_no_worker_starts_if_it_fails(env: WorkerEnv, app: App, is_async: bool) -> None:
    def resources(app: App) -> Iterator[None]:
        raise ConnectionError("no cache there")
        yield

    async def aresources(app: App) -> AsyncIterator[None]:
        raise ConnectionError("no cache there")
        yield

    app.lifespan(aresources if is_async else resources)
    app.task(queue="mail", name="t")(lambda: None)
    with pytest.raises(ConnectionError, match="no cache there"):
        app.work()
    env.work(lambda item: None)  # there is no other worker of the queue


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_at_its_end_is_logged(
    env: WorkerEnv, app: App, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def resources(app: App) -> Iterator[None]:
        yield
        raise ConnectionError("already closed")

    async def aresources(app: App) -> AsyncIterator[None]:
        yield
        raise ConnectionError("already closed")

    app.lifespan(aresources if is_async else resources)
    app.task(queue="mail", name="t")(lambda: None)
    worker: Any = app.work()[0]
    worker.stop()
    assert "the end of the app's lifespan failed: ConnectionError: already closed" in caplog.text


def test_it_ends_if_a_worker_cannot_start(env: WorkerEnv, app: App) -> None:
    seen = Signal()
    declare(app, seen, is_async=True)
    app.task(queue="mail", name="t")(lambda: None)
    app.task(queue="other", name="o")(lambda: None)
    env.name = "other"
    env.work(lambda item: None)
    with pytest.raises(headrace.errors.WorkerExists):
        app.work()
    assert seen.wait(2) == ["begins", "ends"]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_async_client(url: str, is_async: bool) -> None:
    """It lives on the caller's event loop."""
    seen = Signal()

    async def main() -> None:
        async with await headrace.aconnect(url) as hr:
            app = App(client=hr)
            declare(app, seen, is_async=is_async)

            @app.task(queue="mail")
            async def send() -> None:
                resources = current_resources(Resources)
                assert resources.loop in (None, asyncio.get_running_loop())
                seen((resources.number, region.get()))

            await send.apush()
            [worker] = await app.awork()
            while len(seen.seen) < 2:
                await asyncio.sleep(0.001)
            await worker.stop()
            assert seen.seen == ["begins", (7, "north"), "ends"]

    asyncio.run(asyncio.wait_for(main(), 20))


def test_an_async_client_and_a_lifespan_that_fails(url: str) -> None:
    async def resources(app: App) -> AsyncIterator[None]:
        raise ConnectionError("no cache there")
        yield

    async def main() -> None:
        async with await headrace.aconnect(url) as hr:
            app = App(client=hr)
            app.lifespan(resources)
            app.task(queue="mail", name="t")(lambda: None)
            with pytest.raises(ConnectionError, match="no cache"):
                await app.awork()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_an_app_has_one_lifespan(app: App) -> None:
    def resources(app: App) -> Iterator[None]:
        yield

    assert app.lifespan(resources) is resources
    with pytest.raises(InvalidOption, match="has the lifespan 'resources' already"):
        app.lifespan(resources)


@pytest.mark.parametrize("wrong", [print, 5, lambda app: None], ids=id_of)
def test_a_lifespan_is_a_generator_function(app: App, wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="a function of the app with one yield"):
        app.lifespan(wrong)


def test_resources_outside_of_a_worker() -> None:
    with pytest.raises(LookupError, match=r"in a worker of an app with @app\.lifespan"):
        current_resources()


def test_resources_of_another_type(env: WorkerEnv, app: App) -> None:
    seen = Signal()
    declare(app, seen, is_async=False)

    @app.task(queue="mail")
    def send() -> None:
        try:
            current_resources(str)
        except TypeError as error:
            seen(str(error))

    send.push()
    env.workers += app.work()  # type: ignore[arg-type]  # a blocking one
    [_, message] = seen.wait(2)
    assert "which is no str" in message
