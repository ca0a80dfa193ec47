"""Functions as tasks."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, events_of, until

import headrace
from headrace.client._sync.client import Client
from headrace.errors import InvalidBody, InvalidInput, InvalidOption, NotConnected, QueueFull
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.settings import Backoff
from headrace.worker import (
    App,
    Complete,
    Drop,
    Kill,
    Reject,
    Reschedule,
    Task,
    current_context,
    current_item,
    start_worker,
)
from headrace.worker.items import item_of


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    env.create(reject_delay=60)
    return App(client=env.hr)


def worked(env: WorkerEnv, app: App, push: Any, *, handler: Any = None) -> Any:
    """Let a worker run one pushed call. Return its event."""
    worker = env.work(handler or app.handler("mail"))
    data = events_of(worker, "data")
    push()
    [done] = data.wait()
    worker.stop()
    return done


def test_a_task_is_called_here_and_pushed_there(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def send(to: str, *, text: str = "hello") -> str:
        """Send a letter."""
        seen((to, text))
        return to.upper()

    assert (send("ann"), send.__name__, send.__doc__) == ("ANN", "send", "Send a letter.")
    assert isinstance(send, Task)
    assert repr(send) == "<Task 'send' of queue 'mail'>"
    done = worked(env, app, lambda: send.push("bob", text="hi"))
    assert seen.seen == [("ann", "hello"), ("bob", "hi")]
    assert done.item.payload == {"task": "send", "args": ["bob"], "kwargs": {"text": "hi"}}
    assert done.settled.state == "completed"


def test_a_coroutine_function_runs_on_the_workers_loop(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    async def send(to: str) -> None:
        await asyncio.sleep(0)
        seen(to)

    asyncio.run(send("here"))
    worked(env, app, lambda: send.push("there"))
    assert seen.seen == ["here", "there"]


def test_both_kinds_in_one_queue(env: WorkerEnv, app: App) -> None:
    """Functions run beside coroutines, and do not block them."""
    gate, seen = Gate(), Signal()

    @app.task(queue="mail")
    def slow(n: int) -> None:
        gate(n)

    @app.task(queue="mail")
    async def quick(n: int) -> None:
        seen(n)

    env.workers += app.work(queues={"mail": 40})
    for n in range(30):
        slow.push(n)
    quick.push(1)
    gate.arrived.wait(30)
    seen.wait()
    gate.open()


def test_the_plain_handler_runs_coroutines_too(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    async def send(to: str) -> None:
        seen(to)

    worked(env, app, lambda: send.push("there"), handler=app.handle)
    assert seen.seen == ["there"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_may_return_an_outcome(env: WorkerEnv, app: App, is_async: bool) -> None:
    def later(n: int) -> Any:
        return Reschedule(delay=60) if n else Drop

    async def alater(n: int) -> Any:
        return later(n)

    task = app.task(queue="mail", name="later")(alater if is_async else later)
    assert worked(env, app, lambda: task.push(1)).settled.state == "planned"
    assert worked(env, app, lambda: task.push(0)).settled.state == "dropped"


@pytest.mark.parametrize("value", [False, 0, "text", [1], ValueError("as a value")], ids=repr)
def test_any_other_return_value_is_ignored(env: WorkerEnv, app: App, value: Any) -> None:
    task = app.task(queue="mail", name="t")(lambda: value)
    assert worked(env, app, task.push).settled.state == "completed"


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_rejects_a_task(env: WorkerEnv, app: App, is_async: bool) -> None:
    def bad() -> None:
        raise LookupError("nobody")

    async def abad() -> None:
        bad()

    task = app.task(queue="mail", name="bad")(abad if is_async else bad)
    worker = env.work(app.handler("mail"))
    errors = events_of(worker, "error")
    task.push()
    [trouble] = errors.wait()
    assert (trouble.doing, type(trouble.error)) == ("handle", LookupError)
    worker.stop()
    [error] = env.errors()
    assert (error.failure.type, error.failure.message) == ("LookupError", "nobody")
    assert "in bad" in error.failure.traceback


@pytest.mark.parametrize(
    ("payload", "type", "words"),
    [
        ({"task": "gone", "args": [], "kwargs": {}}, "UnknownTask", "no task 'gone' here"),
        ({"task": "send", "args": [], "kwargs": {}}, "WrongArguments", "'to'"),
        ({"task": "send", "args": [1, 2], "kwargs": {}}, "WrongArguments", "too many"),
        ({"task": "send", "args": [1], "kwargs": {"x": 1}}, "WrongArguments", "'x'"),
        ({"task": "send", "args": 5, "kwargs": {}}, "WrongArguments", "int"),
        ({"task": 5, "args": [], "kwargs": {}}, "NotATask", "not the call"),
        ({"to": "ann"}, "NotATask", "not the call"),
        ("words", "NotATask", "not the call"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_no_retry_can_fix_dies(
    env: WorkerEnv, app: App, payload: Any, type: str, words: str, is_async: bool
) -> None:
    """With a failure that says what is wrong. The worker continues."""

    @app.task(queue="mail")
    def send(to: str) -> None: ...

    handler = app.ahandle if is_async else app.handle
    done = worked(env, app, lambda: env.push(payload), handler=handler)
    assert done.settled.state == "dead"
    [dead] = env.dead()
    failure = item_of(dead.item).last_error
    assert failure is not None
    assert failure.type == type
    assert words in failure.message


def test_a_wrong_call_is_raised_where_it_is_made(app: App) -> None:
    @app.task(queue="mail")
    def send(to: str) -> None: ...

    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        send.push()
    with pytest.raises(InvalidBody) as caught:
        send.push({1, 2})
    assert caught.value.path == "$.args[0]"


def test_options_of_a_task_and_of_one_push(env: WorkerEnv, app: App) -> None:
    @app.task(
        queue="mail", max_attempts=7, subject=lambda to: f"to-{to}", priority=3, lease=9, delay=60
    )
    def send(to: str) -> None: ...

    first = env.item(send.push("ann"))
    assert (first.subject, first.priority, first.state) == ("to-ann", 3, 0)
    assert first.overrides == '{"max_attempts":7,"lease":9.0}'
    assert send.push("ann") == first.id
    other = send.options(
        subject="x", priority=0, delay=0, headers={"h": "v"}, max_attempts=-1, lease=1
    ).push("ann")
    second = env.item(other)
    assert (second.subject, second.priority, second.state) == ("x", 0, 1)
    assert (second.headers, second.overrides) == ('{"h":"v"}', '{"max_attempts":-1,"lease":1.0}')


def test_a_task_of_a_channel(env: WorkerEnv, app: App) -> None:
    """The channel is fixed, made of the arguments, or given with one push."""

    @app.task(queue="mail", channel=lambda to: {"to": to})
    def send(to: str) -> None: ...

    @app.task(queue="mail", channel={"kind": "report"})
    def report() -> None: ...

    channels = [
        KeyValues.read(env.item(id).key_values)
        for id in (send.push("ann"), report.push(), send.options(channel={"x": 1}).push("bob"))
    ]
    assert channels == [
        KeyValues.of({"to": "ann"}),
        KeyValues.of({"kind": "report"}),
        KeyValues.of({"x": 1}),
    ]


def test_a_task_of_a_full_queue_is_refused(env: WorkerEnv, app: App) -> None:
    env.hr.queues.create("mail", exist_ok=True, max_items=1)

    @app.task(queue="mail")
    def send() -> None: ...

    send.push()
    with pytest.raises(QueueFull):
        send.push()


def test_a_push_in_a_transaction(env: WorkerEnv, app: App) -> None:
    @app.task(queue="mail")
    def send(to: str) -> None: ...

    def fail() -> None:
        with env.hr.transaction() as tx:
            send.options(using=tx).push("ann")
            raise LookupError("no")

    with pytest.raises(LookupError):
        fail()
    assert env.counts.total == 0
    with env.hr.transaction() as tx:
        send.options(using=tx).push("ann")
    assert env.counts.total == 1


def test_a_push_with_a_session_of_ones_own_names_using(app: App) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    with pytest.raises(InvalidOption, match=r"pass hr\.using\(it\)"):
        send.options(using=object()).push()


def test_a_push_that_follows_an_outcome(env: WorkerEnv, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def second(n: int) -> None:
        seen(n)

    @app.task(queue="mail")
    def first(n: int) -> Any:
        return Complete(then=[second.options(priority=5).as_push(n + 1)])

    env.workers += app.work()
    first.push(1)
    assert seen.wait() == [2]


@pytest.mark.parametrize(
    ("backoff", "wait"),
    [
        (Backoff(first=7, jitter=0), 7_000),
        (Backoff(first="7s", longest="1h", jitter=0), 7_000),
        (lambda item, error: 10 * item.attempts, 10_000),
        (lambda item, error: None, 60_000),
        (lambda item, error: 1 / 0, 60_000),
        (None, 60_000),
    ],
)
def test_a_tasks_own_backoff(env: WorkerEnv, app: App, backoff: Any, wait: int) -> None:
    @app.task(queue="mail", backoff=backoff)
    def bad() -> None:
        raise ValueError("x")

    done = worked(env, app, bad.push)
    item = env.item(done.item.id)
    assert item.next_execution - item.last_iteration == wait
    assert env.errors()[0].failure.type == "ValueError"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_can_see_its_item(env: WorkerEnv, app: App, is_async: bool) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def inspect() -> None:
        item, context = current_item(), current_context()
        assert item is not None
        assert context is not None
        seen((item.attempts, context.client is env.hr))

    worked(env, app, inspect.push, handler=app.ahandle if is_async else app.handle)
    assert seen.seen == [(1, True)]
    assert (current_item(), current_context()) == (None, None)


def test_names_are_unique_and_can_be_chosen(app: App) -> None:
    @app.task(queue="mail", name="post")
    def send() -> None: ...

    @app.task(queue="other")
    def post_other() -> None: ...

    assert app.queues == ["mail", "other"]
    assert app.tasks == {"post": send, "post_other": post_other}
    with pytest.raises(InvalidOption, match="another name="):
        app.task(queue="mail", name="post")(lambda: None)
    with pytest.raises(InvalidOption):
        app.task(queue="mail", max_attempts=0)


def test_an_app_needs_a_client(url: str, env: WorkerEnv) -> None:
    """Its own, by URL; or one that it is bound to."""
    app = App()

    @app.task(queue="mail")
    def send() -> None: ...

    with pytest.raises(NotConnected, match=r"App\(url\)"):
        send.push()
    app.bind(env.hr)
    env.name = "mail"
    send.push()
    own = App(url)
    own.task(queue="mail", name="send")(lambda: None).push()
    assert env.counts.pending == 2
    assert own.client is own.client
    client = own.client
    assert isinstance(client, Client)
    client.close()


def test_async_apps(url: str, env: WorkerEnv) -> None:
    env.name = "mail"
    app = App()

    @app.task(queue="mail")
    async def send(n: int) -> None:
        await seen.put(n)

    async def main() -> None:
        global seen
        seen = asyncio.Queue()
        app.bind(env.hr)
        await send.apush(1)
        async with await headrace.aconnect(url) as hr:
            app.bind(hr)
            with pytest.raises(InvalidOption, match="await apush"):
                send.push(2)
            await send.apush(2)
            async with start_worker(hr, "mail", app.handler("mail")):
                assert [await seen.get(), await seen.get()] == [1, 2]

    asyncio.run(asyncio.wait_for(main(), 20))


seen: asyncio.Queue[int]

SNIPPET = """
from headrace.worker import App

app = App()

@app.task(queue="mail", max_attempts=3)
def send(to: str, *, text: str = "") -> int:
    return 1

@app.task(queue="mail")
async def asend(to: str) -> int:
    return 1

reveal_type(send.push("ann", text="x"))
reveal_type(send("ann"))
reveal_type(send.options(delay=5).push("ann"))
async def main() -> None:
    reveal_type(await asend("ann"))
    reveal_type(await asend.apush("ann"))
send.push(5)
send.push("ann", txt="x")
send.options(priority=1).push()
asend.push()
"""


def test_type_checkers_know_the_signature_of_push(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    source = Path(headrace.__file__).parents[1]
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", str(snippet)),
            *("--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(source), "PATH": "/usr/bin"},
    )
    lines = [line.split(": ", 1)[-1] for line in checked.stdout.splitlines()]
    revealed = [line for line in lines if line.startswith("note: Revealed")]
    assert len(revealed) == 5, checked.stdout
    assert all(line.endswith(('"int"', '"builtins.int"')) for line in revealed), checked.stdout
    errors = [line for line in lines if line.startswith("error")]
    assert len(errors) == 4, checked.stdout
    assert 'expected "str"' in errors[0]
    assert '"txt"' in errors[1]
    assert '"to"' in errors[2]
    assert '"to"' in errors[3]


def test_a_wrong_call_names_the_task(app: App) -> None:
    @app.task(queue="mail")
    def send(to: str, *, text: str = "hello") -> None: ...

    with pytest.raises(TypeError) as caught:
        send.push()  # type: ignore[call-arg]
    assert str(caught.value) == (
        "task 'send' cannot be called so: missing a required argument: 'to'. "
        "Its signature is send(to: str, *, text: str = 'hello') -> None."
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_attempts", -3, "max_attempts is -3: use 1 or more, or -1 for no limit."),
        ("max_attempts", "3", "max_attempts is '3': use 1 or more, or -1 for no limit."),
        ("subject", "fixed", "subject is 'fixed': use a function"),
        ("backoff", 5, "backoff is 5: use Backoff"),
        ("priority", "high", "priority is 'high': use a whole number"),
        ("lease", -1, "lease is -1: use a timedelta"),
        ("delay", "soon", "delay is 'soon': use a timedelta"),
        ("channel", "ann", "channel: "),
    ],
)
def test_a_wrong_option_is_refused_where_the_task_is_defined(
    app: App, option: str, value: Any, message: str
) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(InvalidInput) as caught:
        app.task(queue="mail", **options)
    assert str(caught.value).startswith(message)


def test_a_wrong_option_of_one_push_is_refused_where_it_is_given(app: App) -> None:
    task = app.task(queue="mail", name="t")(lambda: None)
    with pytest.raises(InvalidOption, match="lease is 0"):
        task.options(lease=0)


def test_only_a_function_can_be_a_task(app: App) -> None:
    with pytest.raises(InvalidOption, match="5 cannot be a task"):
        app.task(queue="mail")(5)  # type: ignore[arg-type]


def test_an_item_that_dies_without_a_traceback_is_logged(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that rejects every item must not look idle."""
    worked(env, app, lambda: env.hr.push("mail", {"to": "ann"}))
    [record] = [each for each in caplog.records if each.name == "headrace.worker"]
    assert record.levelname == "ERROR"
    assert (record.queue, record.action) == ("mail", "dead")
    assert re.fullmatch(
        r"mail: item \d+ is dead, claimed once: NotATask: the payload is not the call of a task: "
        r"push with the task's own push\(...\); see `headrace dead ls mail`",
        record.getMessage(),
    )


def test_the_last_attempt_of_an_item_is_logged(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(queue="mail", name="t", max_attempts=1)(lambda: Reject("no such address"))
    worked(env, app, task.push)
    [record] = [each for each in caplog.records if each.name == "headrace.worker"]
    assert "is dead, claimed once: Rejected: no such address; see" in record.getMessage()


def test_the_log_names_the_queue_that_gets_dead_items(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    env.hr.queue("mail").update(dead_to=["graveyard"])
    task = app.task(queue="mail", name="t")(lambda: Kill(None))
    worked(env, app, task.push)
    [record] = [each for each in caplog.records if each.name == "headrace.worker"]
    assert record.getMessage().endswith("no reason was given; a copy of it is in queue graveyard")


def test_a_decorator_without_options_says_what_is_missing(app: App) -> None:
    def send(to: str) -> None: ...

    for wrong in (lambda: app.task(send), lambda: app.task("mail")):  # type: ignore[call-arg, arg-type]
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'queue'"):
            wrong()
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'source'"):
        app.pipeline(send)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"keyword arguments only, not 'send': write name='send'"):
        app.task("send", queue="mail")  # type: ignore[arg-type]


def test_a_task_has_a_name_and_known_arguments(app: App) -> None:
    with pytest.raises(InvalidOption, match="has no name of its own: give one with name="):
        app.task(queue="mail")(lambda: None)
    with pytest.raises(InvalidOption, match="has no name of its own"):
        app.pipeline(source="in")(lambda body: body)
    with pytest.raises(InvalidOption, match="name is 5: use text"):
        app.task(queue="mail", name=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="its arguments are not known"):
        app.task(queue="mail")(dict)


def test_a_function_that_makes_a_subject_and_fails_is_named(app: App) -> None:
    task = app.task(queue="mail", name="t", subject=lambda: "s")(lambda to: None)
    with pytest.raises(TypeError) as caught:
        task.push("ann")
    assert caught.value.__notes__ == ["raised by subject= of task 't'"]


def test_an_app_is_bound_to_clients_only(env: WorkerEnv) -> None:
    with pytest.raises(InvalidOption, match=r"a client is given as App\(client=...\)"):
        App(env.hr)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="client is 'memory://'"):
        App(client="memory://")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="client is None"):
        App().bind(None)  # type: ignore[arg-type]


def test_the_queues_of_an_apps_workers(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    """One without a task of the app may be meant: dead items may have been moved there."""
    app.task(queue="mail", name="t")(lambda: None)
    with pytest.raises(InvalidOption, match=r"give each with its concurrency, as in {'mail': 4}"):
        app.work(queues=["mail"])  # type: ignore[arg-type]
    env.workers += app.work(queues={"mial": 1})
    assert "mial: no task of this app is in this queue: its queues are mail" in caplog.text


def test_a_task_is_no_handler(env: WorkerEnv, app: App) -> None:
    task = app.task(queue="mail", name="t")(lambda: None)
    with pytest.raises(InvalidOption, match=r"a handler gets items; start its app with app.work"):
        env.hr.start_worker("mail", task)


def push_concurrently(push: Callable[[int], Any], count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(push, range(count)))


@pytest.mark.parametrize("is_async", [False, True])
def test_concurrent_pushes_of_a_task_share_transactions(
    url: str, env: WorkerEnv, app: App, is_async: bool
) -> None:
    """As those of a client do: 32 callers need few transactions, not 32."""
    task = app.task(queue="mail", name="t")(lambda n: None)
    if is_async:
        ids = asyncio.run(asyncio.wait_for(_push_in_coroutines(url, task), 20))
        assert len(set(ids)) == 32
        return
    gate = env.interceptor.stop_next("queues.push")
    first = threading.Thread(target=task.push, args=(-1,))
    first.start()
    gate.arrived.wait()
    before = len(env.interceptor.ran["queues.push"].seen)
    others = threading.Thread(target=push_concurrently, args=(task.push, 32))
    others.start()
    until(lambda: len(env.hr._pushes._waiting) == 32, "32 callers")
    gate.open()
    first.join()
    others.join()
    # The first one, and one for all that came meanwhile.
    assert len(env.interceptor.ran["queues.push"].seen) - before == 2
    assert env.counts.pending == 33


async def _push_in_coroutines(url: str, task: Task[..., Any]) -> list[int]:
    async with await headrace.aconnect(url) as hr:
        flush, flushes = hr._pushes._flush, []

        async def counted(calls: Any, since: Any) -> Any:
            flushes.append(len(calls))
            await asyncio.sleep(0)
            return await flush(calls, since)

        hr._pushes._flush = counted
        ids = await asyncio.gather(*(task.options(using=hr).apush(n) for n in range(32)))
        assert sum(flushes) == 32
        assert len(flushes) <= 3
        return ids


@pytest.mark.parametrize(
    ("settings", "options", "chunk"),
    [
        ({"concurrency": 3}, {}, 3),
        ({}, {"concurrency": 7}, 7),
        ({"chunk": 5}, {"concurrency": 7}, 5),
        ({}, {"concurrency": 7, "chunk": 2}, 2),
    ],
)
def test_the_chunk_of_an_app_follows_the_concurrency(
    env: WorkerEnv, app: App, settings: Any, options: Any, chunk: int
) -> None:
    """Unless the queue's was set."""
    app.task(queue="mail", name="t")(lambda: None)
    env.hr.queue("mail").update(**settings)
    if "chunk" in options:
        env.work(app.handler("mail"), **options)
    else:
        env.workers += app.work(queues={"mail": options.get("concurrency")})
    [worker] = env.workers
    prefetcher = worker._engine.prefetcher
    until(lambda: prefetcher.settings.version, "the settings of the queue")
    assert prefetcher.settings.chunk == chunk
