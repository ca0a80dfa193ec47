"""The return value or the exception of a handler decides the outcome of its item."""

import asyncio
import inspect
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from worker_fixtures import Signal, WorkerEnv, document, events_of

from headrace.errors import InvalidOption
from headrace.model.queues.items import Document
from headrace.worker import (
    Commit,
    Complete,
    Context,
    Done,
    Drop,
    HandlerOutcome,
    Item,
    Kill,
    Push,
    Reject,
    Release,
    Reschedule,
)
from headrace.worker.items import item_of

KINDS = ["sync", "async"]


def handler_of(kind: str, function: Any) -> Any:
    """The same handler, as a function or as a coroutine function."""
    if kind == "sync":
        return function

    async def handle(item: Any) -> Any:
        await asyncio.sleep(0)
        return function(item)

    return handle


def work_one(
    env: WorkerEnv, kind: str, function: Any, document: Document | None = None, **options: Any
) -> Done:
    """Let a worker handle an item. Return its event."""
    worker = env.work(handler_of(kind, function), **options)
    data = events_of(worker, "data")
    env.push(document or {"n": 1})
    [done] = data.wait()[:1]
    worker.stop()
    assert isinstance(done, Done)
    return done


@pytest.fixture(autouse=True)
def queue(env: WorkerEnv) -> None:
    """One retry, without delay. Completed items are kept."""
    env.create(keep="all", max_attempts=2, reject_delay=0, reschedule_delay=60)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [None, True, Complete(), Complete, "anything", 0, {"a": 1}])
def test_returning_completes(env: WorkerEnv, kind: str, result: Any) -> None:
    done = work_one(env, kind, lambda item: result)
    assert (done.settled.state, done.item.payload) == ("completed", {"n": 1})
    assert env.counts.completed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_complete_can_replace_the_payload(env: WorkerEnv, kind: str) -> None:
    done = work_one(env, kind, lambda item: Complete(payload=b"\0\1"))
    kept = env.item(done.item.id)
    assert item_of(kept.item).payload == b"\0\1"


def test_follow_ups_are_applied_with_the_outcome(env: WorkerEnv) -> None:
    then = [Push("next", [1], subject="s", delay=60), Commit("log", {"done": 1}, {"h": "v"})]
    work_one(env, "sync", lambda item: Complete(then=then))
    [pushed] = env.run("queues.items", "next", 0, 0, 10)
    assert (pushed.payload, pushed.subject) == ("[1]", "s")
    [record] = env.outside.range("log")
    assert (record.body, record.headers) == ({"done": 1}, {"h": "v"})


@pytest.mark.parametrize("then", [[5], [Commit("no good", {})], [Push("q", {1: float("nan")})]])
def test_invalid_follow_ups_reject_the_item(env: WorkerEnv, then: Any) -> None:
    """None of them is applied."""
    done = work_one(env, "sync", lambda item: Complete(then=then))
    assert isinstance(done.outcome, Reject)
    assert env.errors()[-1].failure.traceback
    assert env.outside.topics.list() == []


@pytest.mark.parametrize("kind", KINDS)
def test_reschedule_lets_it_run_again(env: WorkerEnv, kind: str) -> None:
    done = work_one(env, kind, lambda item: Reschedule(delay=timedelta(minutes=5)))
    assert done.settled.state == "planned"
    item = env.item(done.item.id)
    assert (item.attempts, item.iterations) == (0, 1)
    assert item.next_execution - item.last_iteration == 300_000


def test_reschedule_at_a_time(env: WorkerEnv) -> None:
    at = datetime(2100, 1, 1, tzinfo=UTC)
    done = work_one(env, "sync", lambda item: Reschedule(at=at, payload={"n": 2}))
    item = env.item(done.item.id)
    assert item.next_execution == round(at.timestamp() * 1000)
    assert item_of(item).payload == {"n": 2}


def test_reschedule_as_the_queue_says(env: WorkerEnv) -> None:
    done = work_one(env, "sync", lambda item: Reschedule)
    item = env.item(done.item.id)
    assert item.next_execution - item.last_iteration == 60_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": datetime(2100, 1, 1)},  # noqa: DTZ001  # that is what is wrong with it
        {"at": datetime(2100, 1, 1, tzinfo=UTC), "delay": 1},
        {"delay": -1},
        {"delay": float("nan")},
        {"delay": "soon"},
    ],
    ids=repr,
)
def test_an_outcome_with_a_wrong_time_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Reschedule(**wrong)
    with pytest.raises(InvalidOption):
        Reject("no", **wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_reject_keeps_the_reason(env: WorkerEnv, kind: str) -> None:
    done = work_one(env, kind, lambda item: Reject("no stamps", delay=60))
    item = env.item(done.item.id)
    assert (done.settled.state, item.attempts) == ("planned", 1)
    failure = item_of(item).last_error
    assert failure is not None
    assert (failure.type, failure.message) == ("Rejected", "no stamps")
    assert env.workers[0].failed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_raising_rejects_with_the_traceback(env: WorkerEnv, kind: str) -> None:
    """The item is dead after its last attempt, and the worker continues."""
    signal = Signal()

    def handle(item: Item) -> None:
        signal(item.attempts)
        if item.payload == "bad":
            raise LookupError("nobody lives here")

    worker = env.work(handler_of(kind, handle))
    errors, data = events_of(worker, "error"), events_of(worker, "data")
    env.push("bad")
    data.wait(2)
    [dead] = env.dead()
    failure = item_of(dead.item).last_error
    assert failure is not None
    assert (failure.type, failure.message) == ("LookupError", "nobody lives here")
    assert "in handle" in failure.traceback
    assert [error.doing for error in errors.seen] == ["handle", "handle"]
    assert isinstance(errors.seen[0].error, LookupError)
    env.push("good")
    assert data.wait(3)[2].settled.state == "completed"
    assert signal.seen == [1, 2, 1]
    assert (worker.done, worker.failed) == (3, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "raised",
    [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), RecursionError("deep")],
    ids=repr,
)
def test_nothing_a_handler_raises_ends_the_worker(
    env: WorkerEnv, kind: str, raised: BaseException
) -> None:
    def handle(item: Item) -> None:
        if item.attempts == 1:
            raise raised

    worker = env.work(handler_of(kind, handle))
    data = events_of(worker, "data")
    env.push(1)
    first, second = data.wait(2)
    assert (first.settled.state, second.settled.state) == ("pending", "completed")
    assert type(raised).__name__ in env.errors()[0].failure.type


def test_exit_in_a_handler_is_a_failure(env: WorkerEnv) -> None:
    done = work_one(env, "sync", lambda item: sys.exit(1))
    assert isinstance(done.outcome, Reject)


def test_a_cancellation_inside_of_a_handler_is_a_failure(env: WorkerEnv) -> None:
    """Released without an attempt it would return for ever."""

    async def handle(item: Item) -> None:
        raise asyncio.CancelledError

    worker = env.work(handle)
    data = events_of(worker, "data")
    env.push(1)
    assert [done.settled.state for done in data.wait(2)] == ["pending", "dead"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (False, "returned False"),
        (ValueError("as a value"), "as a value"),
        (HandlerOutcome(), "no outcome of its own"),
    ],
    ids=repr,
)
def test_an_invalid_return_value_rejects(env: WorkerEnv, result: Any, words: str) -> None:
    work_one(env, "sync", lambda item: result)
    assert words in env.errors()[-1].failure.message


def test_a_coroutine_from_a_plain_function_rejects(env: WorkerEnv) -> None:
    async def coroutine() -> None: ...

    work_one(env, "sync", lambda item: coroutine())
    assert "async def" in env.errors()[-1].failure.message


def test_kill_is_the_end(env: WorkerEnv) -> None:
    done = work_one(env, "sync", lambda item: Kill("never"))
    assert done.settled.state == "dead"
    [dead] = env.dead()
    assert (dead.cause, dead.title) == ("killed", "Rejected: never")


def test_drop_leaves_no_trace(env: WorkerEnv) -> None:
    assert work_one(env, "sync", lambda item: Drop()).settled.state == "dropped"
    assert env.counts.total == 0


def test_release_counts_nothing(env: WorkerEnv) -> None:
    called = Signal()

    def handle(item: Item) -> Any:
        called()
        return Release() if len(called.seen) == 1 else None

    worker = env.work(handle)
    data = events_of(worker, "data")
    env.push(1)
    first, second = data.wait(2)
    assert (first.settled.state, second.item.attempts) == ("pending", 1)
    worker.stop()
    assert worker.done == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_workers_own_backoff(env: WorkerEnv, kind: str) -> None:
    """For exceptions and rejections, unless the outcome has its own time."""
    asked: list[tuple[int, object]] = []

    def backoff(item: Item, error: object) -> float:
        asked.append((item.attempts, error))
        return 60 * item.attempts

    def handle(item: Item) -> Any:
        if item.payload == "raise":
            raise ValueError("x")
        return Reject("y", delay=5 if item.payload == "said" else None)

    worker = env.work(handler_of(kind, handle), backoff=backoff)
    data = events_of(worker, "data")
    env.push("raise", "return", "said")
    waits = []
    for done in data.wait(3):
        item = env.item(done.item.id)
        waits.append(item.next_execution - item.last_iteration)
    assert waits == [60_000, 60_000, 5_000]
    assert [attempts for attempts, _ in asked] == [1, 1]
    assert isinstance(asked[0][1], ValueError)
    assert asked[1][1] == "y"


@pytest.mark.parametrize("backoff", [lambda item, error: 1 / 0, lambda i, e: -1, lambda i, e: None])
def test_a_bad_backoff_is_ignored(env: WorkerEnv, backoff: Any) -> None:
    """The queue's own backoff applies then."""
    env.update(reject_delay=30)
    done = work_one(env, "sync", lambda item: Reject("x"), backoff=backoff)
    item = env.item(done.item.id)
    assert item.next_execution - item.last_iteration == 30_000


def test_the_fields_of_an_item(env: WorkerEnv) -> None:
    items: list[Item] = []
    pushed = document({"a": [1]}, subject="s-1", priority=7, headers={"trace": "x"})
    done = work_one(env, "sync", items.append, pushed, lease=5)
    [item] = items
    assert (item.id, item.queue, item.subject, item.priority) == (done.item.id, "q", "s-1", 7)
    assert (item.payload, item.headers) == ({"a": [1]}, {"trace": "x"})
    assert item.payload is item.payload
    assert (item.attempts, item.crashes, item.times_settled, item.last_error) == (1, 0, 0, None)
    assert len(item.token) == 32
    assert item.deadline is not None
    assert timedelta(0) < item.deadline - item.created_at


def test_a_payload_that_cannot_be_read_is_a_failure(env: WorkerEnv) -> None:
    """The item is rejected, and the worker continues."""
    work_one(env, "sync", lambda item: item.payload, Document(payload="{not json"))
    assert env.errors()[-1].failure.type == "MalformedRecord"


def with_default(item: Item, retries: int = 3) -> int:
    return retries


def with_context(item: Item, context: Context) -> Any:
    return context


def with_named(item: Item, ctx: Any = None) -> Any:
    return ctx


class Called:
    """An object that is called like a function."""

    async def __call__(self, item: Item, context: Context) -> Any:
        assert isinstance(context, Context)


@pytest.mark.parametrize(
    ("function", "is_given"), [(with_default, False), (with_context, True), (with_named, True)]
)
def test_a_handler_with_two_parameters_gets_a_context(
    env: WorkerEnv, function: Any, is_given: bool
) -> None:
    seen: list[Any] = []

    def handle(*args: Any) -> None:
        seen.append(function(*args))

    handle.__signature__ = inspect.signature(function)
    work_one(env, "sync", handle, name="me")
    assert isinstance(seen[0], Context) == is_given
    if is_given:
        context = seen[0]
        assert (context.worker, context.client, context.is_lost) == ("me", env.hr, False)


def test_an_object_with_an_async_call_is_a_handler(env: WorkerEnv) -> None:
    worker = env.work(Called())
    data = events_of(worker, "data")
    env.push(1)
    assert data.wait()[0].settled.state == "completed"
