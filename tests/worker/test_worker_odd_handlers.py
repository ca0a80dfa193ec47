"""Whatever a handler raises or returns becomes an outcome, and the worker continues."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pytest
from worker_fixtures import Signal, WorkerEnv, events_of, until

import headrace
from headrace.model.failures import failure_of
from headrace.worker import (
    App,
    Complete,
    Item,
    Kill,
    Push,
    Reject,
    RetryLater,
    start_worker,
)
from headrace.worker.drain import handle_next


def fail(*_: object) -> NoReturn:
    raise LookupError("not even this")


def leave(*_: object) -> NoReturn:
    raise SystemExit("not even this")


class BadText(Exception):
    __str__ = __repr__ = fail


class LeavingText(Exception):
    __str__ = __repr__ = leave


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # noqa: PLE0307  # that is what is wrong with it


class BadAttributes(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise SystemExit(name)


class BadTruth(Exception):
    __eq__ = __bool__ = fail
    __hash__ = None  # nor can it be put into a set


class NamelessType(type):
    def __getattribute__(cls, name: str) -> Any:
        return fail() if name.endswith("name__") else super().__getattribute__(name)


class Nameless(Exception, metaclass=NamelessType):
    pass


class HalfMade(RetryLater):
    def __init__(self) -> None:
        """And so it has no outcome."""


class WrongOutcome(RetryLater):
    def __init__(self) -> None:
        self.outcome = 5  # that is what is wrong with it


def in_a_circle() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def with_many_causes() -> Exception:
    error = last = ValueError("last")
    for number in range(2000):
        error, error.__cause__ = ValueError(number), error
    last.__cause__ = error
    return error


def deep_group() -> BaseException:
    error: BaseException = BadText()
    for _ in range(5000):
        error = BaseExceptionGroup("g", [error])
    return error


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "BadText": BadText,
    "LeavingText": LeavingText,
    "NoText": NoText,
    "BadAttributes": BadAttributes,
    "BadTruth": BadTruth,
    "Nameless": Nameless,
    "HalfMade": HalfMade,
    "WrongOutcome": WrongOutcome,
    "circle": in_a_circle,
    "many causes": with_many_causes,
    "group": lambda: ExceptionGroup("some", [ValueError("a"), BadText()]),
    "deep group": deep_group,
}


class Odd:
    """Everything about it raises."""

    __eq__ = __bool__ = __str__ = __repr__ = __len__ = __iter__ = fail
    __hash__ = None


class Disguised:
    @property
    def __class__(self) -> type:
        leave()


class Leaving:
    __bool__ = __iter__ = __repr__ = leave


RETURNED: dict[str, Callable[[], Any]] = {
    "payload": lambda: Complete(payload=object()),
    "payload that raises": lambda: Complete(payload=Odd()),
    "then": lambda: Complete(then=Odd()),
    "then leaves": lambda: Complete(then=Leaving()),
    "then push": lambda: Complete(then=[Push("next", object())]),
    "reject": lambda: Reject(BadText()),
    "reject odd": lambda: Reject(Odd()),
    "reject leaving": lambda: Reject(Leaving()),
    "kill": lambda: Kill(LeavingText()),
    "error": BadText,
    "half made": HalfMade,
    "disguised": Disguised,
}


def odd(name: str) -> Any:
    """Raise or return one of them."""
    if name in RAISED:
        error = RAISED[name]()
        raise error
    return RETURNED[name]() if name in RETURNED else None


def one(item: Item) -> Any:
    return odd(item.payload)


async def one_async(item: Item) -> Any:
    return odd(item.payload)


def batch(items: list[Item]) -> Any:
    return [odd(item.payload) for item in items]


async def batch_async(items: list[Item]) -> Any:
    return [odd(item.payload) for item in items]


HANDLERS = {"sync": one, "async": one_async, "batch": batch, "async batch": batch_async}


@pytest.fixture(autouse=True)
def queue(env: WorkerEnv) -> None:
    env.create(keep="all", max_attempts=1)


@pytest.mark.parametrize("kind", HANDLERS)
def test_all_that_a_handler_raises_or_returns_is_an_outcome(env: WorkerEnv, kind: str) -> None:
    """The item is dead, which is reported once, and the worker continues with the next item."""
    options = {"batch": True, "chunk": 1} if "batch" in kind else {}
    worker = env.work(HANDLERS[kind], **options)
    data, errors = events_of(worker, "data"), events_of(worker, "error")
    names = [*RAISED, *RETURNED]
    env.push(*names, "good")
    done = data.wait(len(names) + 1)
    assert {each.item.payload: each.settled.state for each in done} == {
        **dict.fromkeys(names, "dead"),
        "good": "completed",
    }
    assert {each.item.payload for each in errors.wait(len(names))} == set(names)
    until(lambda: not worker.busy, "the last handler")
    assert env.counts.active == 0


def test_every_failure_has_a_message() -> None:
    # Not raised in a worker here: its log could not be sent between test processes.
    for make in [*RAISED.values(), lambda: ValueError("\ud800\0")]:
        failure = failure_of(make())
        assert failure.type
        assert isinstance(failure.message, str)
        assert failure.fingerprint
        assert failure.message.encode() is not None


class OddMapping(Mapping[int, Any]):
    __getitem__ = __iter__ = __len__ = leave


class OddList(list[Any]):
    __len__ = __iter__ = fail


@pytest.mark.parametrize("result", [OddMapping, OddList, lambda: [Odd], lambda: {Odd: 1}])
def test_odd_answers_for_a_batch(env: WorkerEnv, result: Callable[[], Any]) -> None:
    worker = env.work(lambda items: result() if items[0].payload == "odd" else None, batch=True)
    data = events_of(worker, "data")
    env.push("odd")
    data.wait(1)
    env.push("good")
    assert data.wait(2)[1].settled.state == "completed"


@pytest.mark.parametrize("event", ["data", "error", "state", "lost"])
def test_a_listener_that_raises_affects_no_other(env: WorkerEnv, event: Any) -> None:
    worker = env.work(one)
    for name in RAISED:
        worker.on(event, lambda _, name=name: odd(name))
    data = events_of(worker, "data")
    env.push("BadText", "good")
    assert len(data.wait(2)) == 2
    worker.pause()
    worker.resume()
    env.push("good")
    data.wait(3)
    worker.stop()
    assert worker.status == "stopped"


@pytest.mark.parametrize("error", [BadText, LeavingText, SystemExit, asyncio.CancelledError])
def test_a_backoff_that_raises_is_ignored(env: WorkerEnv, error: type[BaseException]) -> None:
    def backoff(item: Item, why: object) -> float:
        raise error

    worker = env.work(one, backoff=backoff)
    data = events_of(worker, "data")
    env.push("BadText", "good")
    assert {done.settled.state for done in data.wait(2)} == {"dead", "completed"}


def odd_backoff(item: Item, error: BaseException) -> float:
    raise LeavingText


@pytest.mark.parametrize("backoff", [None, odd_backoff])
def test_odd_tasks(env: WorkerEnv, backoff: Any) -> None:
    """Functions and coroutine functions, in a worker with threads and in one with a loop."""
    app = App(client=env.hr)

    @app.task(queue=env.name, backoff=backoff)
    def plain(name: str) -> Any:
        return odd(name)

    @app.task(queue=env.name, backoff=backoff)
    async def awaited(name: str) -> Any:
        return odd(name)

    names = [*RAISED, *RETURNED]
    # The return value of a task is ignored, unless it is an outcome.
    good = {"good", "error", "half made"}
    for handler in (app.handle, app.ahandle):
        worker = env.work(handler)
        data = events_of(worker, "data")
        for name in [*names, "good"]:
            plain.push(name)
            awaited.push(name)
        done = data.wait(2 * len(names) + 2)
        states = {(each.item.payload["args"][0], each.settled.state) for each in done}
        assert states == {
            (name, "completed" if name in good else "dead") for name in [*names, "good"]
        }
        worker.stop()


def test_the_backoff_of_a_task_gets_everything_it_raises(env: WorkerEnv) -> None:
    env.update(max_attempts=3)
    app = App(client=env.hr)

    @app.task(queue=env.name, backoff=lambda item, error: 77)
    def plain() -> None:
        raise SystemExit(1)

    worker = env.work(app.handle)
    data = events_of(worker, "data")
    plain.push()
    [done] = data.wait(1)
    item = env.item(done.item.id)
    assert item.next_execution - item.last_iteration == 77_000


def test_a_task_may_raise_that_it_is_to_be_retried_later(env: WorkerEnv) -> None:
    """No attempt is counted, as for any other handler."""
    app = App(client=env.hr)

    @app.task(queue=env.name)
    def plain() -> None:
        raise RetryLater(60)

    for handler in (app.handle, app.ahandle):
        worker = env.work(handler)
        data = events_of(worker, "data")
        plain.push()
        [done] = data.wait(1)
        assert (done.settled.state, env.item(done.item.id).attempts) == ("planned", 0)
        worker.stop()


def test_handled_without_a_worker(env: WorkerEnv) -> None:
    env.push(*RAISED, *RETURNED)
    for name in [*RAISED, *RETURNED]:
        handled = handle_next(env.hr, env.name, one)
        assert handled is not None
        assert (handled.item.payload, handled.settled.state) == (name, "dead")


def test_listeners_of_an_async_worker(env: WorkerEnv) -> None:
    """Including coroutines. The loop continues, and what they raise is logged."""
    env.push("BadText", "good", "good")
    calls = Signal()

    async def odd_listener(event: object) -> None:
        calls(event)
        raise SystemExit(5)

    def odd_function(event: object) -> None:
        raise asyncio.CancelledError

    async def main() -> int:
        async with await headrace.aconnect(env.url) as hr:
            worker = start_worker(hr, env.name, one_async)
            worker.on("data", odd_function)
            worker.on("data", odd_listener)
            async with asyncio.timeout(20):
                while len(calls.seen) < 3:
                    await asyncio.sleep(0.001)
            await worker.stop()
            return worker.done

    assert asyncio.run(main()) == 3
