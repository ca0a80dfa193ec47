"""What a handler returns or raises is what becomes of its item."""

import asyncio
import inspect
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from workshop import Shop, Signal, document, heard

from headrace.errors import InvalidOption
from headrace.model.items import Document
from headrace.worker import (
    Commit,
    Complete,
    Context,
    Done,
    Drop,
    Item,
    Kill,
    Outcome,
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
    shop: Shop, kind: str, function: Any, document: Document | None = None, **options: Any
) -> Done:
    """Let a worker handle an item; what it told of it."""
    worker = shop.work(handler_of(kind, function), **options)
    data = heard(worker, "data")
    shop.push(document or {"n": 1})
    [done] = data.wait()[:1]
    worker.stop()
    assert isinstance(done, Done)
    return done


@pytest.fixture(autouse=True)
def queue(shop: Shop) -> None:
    """It tries only once more, at once; what is done is kept."""
    shop.create(keep="all", dead_threshold=2, reject_delay=0, reschedule_delay=60)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [None, True, Complete(), Complete, "anything", 0, {"a": 1}])
def test_returning_completes(shop: Shop, kind: str, result: Any) -> None:
    done = work_one(shop, kind, lambda item: result)
    assert (done.settled.state, done.item.payload) == ("completed", {"n": 1})
    assert shop.counts.completed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_complete_can_replace_the_payload(shop: Shop, kind: str) -> None:
    done = work_one(shop, kind, lambda item: Complete(payload=b"\0\1"))
    kept = shop.item(done.item.id)
    assert item_of(kept.item).payload == b"\0\1"


def test_what_follows_happens_with_the_outcome(shop: Shop) -> None:
    then = [Push("next", [1], subject="s", delay=60), Commit("log", {"done": 1}, {"h": "v"})]
    work_one(shop, "sync", lambda item: Complete(then=then))
    [pushed] = shop.run("items", "next", 0, 0, 10)
    assert (pushed.payload, pushed.subject) == ("[1]", "s")
    [record] = shop.outside.range("log")
    assert (record.body, record.headers) == ({"done": 1}, {"h": "v"})


@pytest.mark.parametrize("then", [[5], [Commit("no good", {})], [Push("q", {1: float("nan")})]])
def test_what_cannot_follow_rejects_the_item(shop: Shop, then: Any) -> None:
    """And nothing of it happens."""
    done = work_one(shop, "sync", lambda item: Complete(then=then))
    assert isinstance(done.outcome, Reject)
    assert shop.errors()[-1].failure.traceback
    assert shop.outside.topics() == []


@pytest.mark.parametrize("kind", KINDS)
def test_reschedule_lets_it_run_again(shop: Shop, kind: str) -> None:
    done = work_one(shop, kind, lambda item: Reschedule(delay=timedelta(minutes=5)))
    assert done.settled.state == "planned"
    item = shop.item(done.item.id)
    assert (item.attempts, item.iterations) == (0, 1)
    assert item.next_execution - item.last_iteration == 300_000


def test_reschedule_at_a_time(shop: Shop) -> None:
    at = datetime(2100, 1, 1, tzinfo=UTC)
    done = work_one(shop, "sync", lambda item: Reschedule(at=at, payload={"n": 2}))
    item = shop.item(done.item.id)
    assert item.next_execution == round(at.timestamp() * 1000)
    assert item_of(item).payload == {"n": 2}


def test_reschedule_as_the_queue_says(shop: Shop) -> None:
    done = work_one(shop, "sync", lambda item: Reschedule)
    item = shop.item(done.item.id)
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
def test_reject_keeps_the_reason(shop: Shop, kind: str) -> None:
    done = work_one(shop, kind, lambda item: Reject("no stamps", delay=60))
    item = shop.item(done.item.id)
    assert (done.settled.state, item.attempts) == ("planned", 1)
    failure = item_of(item).last_error
    assert failure is not None
    assert (failure.type, failure.message) == ("Rejected", "no stamps")
    assert shop.workers[0].failed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_raising_rejects_with_the_traceback(shop: Shop, kind: str) -> None:
    """Dead when it had all its attempts; the worker goes on."""
    signal = Signal()

    def handle(item: Item) -> None:
        signal(item.attempts)
        if item.payload == "bad":
            raise LookupError("nobody lives here")

    worker = shop.work(handler_of(kind, handle))
    errors, data = heard(worker, "error"), heard(worker, "data")
    shop.push("bad")
    data.wait(2)
    [dead] = shop.dead()
    failure = item_of(dead.item).last_error
    assert failure is not None
    assert (failure.type, failure.message) == ("LookupError", "nobody lives here")
    assert "in handle" in failure.traceback
    assert [error.doing for error in errors.seen] == ["handle", "handle"]
    assert isinstance(errors.seen[0].error, LookupError)
    shop.push("good")
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
    shop: Shop, kind: str, raised: BaseException
) -> None:
    def handle(item: Item) -> None:
        if item.attempts == 1:
            raise raised

    worker = shop.work(handler_of(kind, handle))
    data = heard(worker, "data")
    shop.push(1)
    first, second = data.wait(2)
    assert (first.settled.state, second.settled.state) == ("pending", "completed")
    assert type(raised).__name__ in shop.errors()[0].failure.type


def test_exit_in_a_handler_is_a_failure(shop: Shop) -> None:
    done = work_one(shop, "sync", lambda item: sys.exit(1))
    assert isinstance(done.outcome, Reject)


def test_a_cancellation_inside_of_a_handler_is_a_failure(shop: Shop) -> None:
    """Handed back uncounted it would come again for ever."""

    async def handle(item: Item) -> None:
        raise asyncio.CancelledError

    worker = shop.work(handle)
    data = heard(worker, "data")
    shop.push(1)
    assert [done.settled.state for done in data.wait(2)] == ["pending", "dead"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (False, "returned False"),
        (ValueError("as a value"), "as a value"),
        (Outcome(), "no outcome of its own"),
    ],
    ids=repr,
)
def test_what_must_not_be_returned_rejects(shop: Shop, result: Any, words: str) -> None:
    work_one(shop, "sync", lambda item: result)
    assert words in shop.errors()[-1].failure.message


def test_a_coroutine_from_a_plain_function_rejects(shop: Shop) -> None:
    async def coroutine() -> None: ...

    work_one(shop, "sync", lambda item: coroutine())
    assert "async def" in shop.errors()[-1].failure.message


def test_kill_is_the_end(shop: Shop) -> None:
    done = work_one(shop, "sync", lambda item: Kill("never"))
    assert done.settled.state == "dead"
    [dead] = shop.dead()
    assert (dead.cause, dead.title) == ("killed", "Rejected: never")


def test_drop_leaves_no_trace(shop: Shop) -> None:
    assert work_one(shop, "sync", lambda item: Drop()).settled.state == "dropped"
    assert shop.counts.total == 0


def test_release_counts_nothing(shop: Shop) -> None:
    called = Signal()

    def handle(item: Item) -> Any:
        called()
        return Release() if len(called.seen) == 1 else None

    worker = shop.work(handle)
    data = heard(worker, "data")
    shop.push(1)
    first, second = data.wait(2)
    assert (first.settled.state, second.item.attempts) == ("pending", 1)
    worker.stop()
    assert worker.done == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_workers_own_backoff(shop: Shop, kind: str) -> None:
    """For what is raised and for what is rejected; not where the outcome says when."""
    asked: list[tuple[int, object]] = []

    def backoff(item: Item, error: object) -> float:
        asked.append((item.attempts, error))
        return 60 * item.attempts

    def handle(item: Item) -> Any:
        if item.payload == "raise":
            raise ValueError("x")
        return Reject("y", delay=5 if item.payload == "said" else None)

    worker = shop.work(handler_of(kind, handle), backoff=backoff)
    data = heard(worker, "data")
    shop.push("raise", "return", "said")
    waits = []
    for done in data.wait(3):
        item = shop.item(done.item.id)
        waits.append(item.next_execution - item.last_iteration)
    assert waits == [60_000, 60_000, 5_000]
    assert [attempts for attempts, _ in asked] == [1, 1]
    assert isinstance(asked[0][1], ValueError)
    assert asked[1][1] == "y"


@pytest.mark.parametrize("backoff", [lambda item, error: 1 / 0, lambda i, e: -1, lambda i, e: None])
def test_a_bad_backoff_costs_nothing(shop: Shop, backoff: Any) -> None:
    """The queue's own counts then."""
    shop.update(reject_delay=30)
    done = work_one(shop, "sync", lambda item: Reject("x"), backoff=backoff)
    item = shop.item(done.item.id)
    assert item.next_execution - item.last_iteration == 30_000


def test_an_item_says_what_is_known_of_it(shop: Shop) -> None:
    items: list[Item] = []
    pushed = document({"a": [1]}, subject="s-1", priority=7, headers={"trace": "x"})
    done = work_one(shop, "sync", items.append, pushed, lease=5)
    [item] = items
    assert (item.id, item.queue, item.subject, item.priority) == (done.item.id, "q", "s-1", 7)
    assert (item.payload, item.headers) == ({"a": [1]}, {"trace": "x"})
    assert item.payload is item.payload
    assert (item.attempts, item.crashes, item.iterations, item.last_error) == (1, 0, 0, None)
    assert len(item.token) == 32
    assert item.deadline is not None
    assert timedelta(0) < item.deadline - item.created_at


def test_a_payload_that_cannot_be_read_is_a_failure(shop: Shop) -> None:
    """Whoever wrote it: the item is rejected, the worker goes on."""
    work_one(shop, "sync", lambda item: item.payload, Document(payload="{not json"))
    assert shop.errors()[-1].failure.type == "MalformedRecord"


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
def test_a_context_is_given_to_who_wants_it(shop: Shop, function: Any, is_given: bool) -> None:
    seen: list[Any] = []

    def handle(*args: Any) -> None:
        seen.append(function(*args))

    handle.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    work_one(shop, "sync", handle, name="me")
    assert isinstance(seen[0], Context) == is_given
    if is_given:
        context = seen[0]
        assert (context.worker, context.client, context.is_lost) == ("me", shop.hr, False)


def test_an_object_with_an_async_call_is_a_handler(shop: Shop) -> None:
    worker = shop.work(Called())
    data = heard(worker, "data")
    shop.push(1)
    assert data.wait()[0].settled.state == "completed"
