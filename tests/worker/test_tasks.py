"""Functions as tasks."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from workshop import Gate, Shop, Signal, heard

import headrace
from headrace.errors import InvalidBody, InvalidOption, NotConnected
from headrace.model.queues import Backoff
from headrace.worker import (
    App,
    Complete,
    Drop,
    Reschedule,
    Task,
    current_context,
    current_item,
    register_worker,
)
from headrace.worker.items import item_of


@pytest.fixture
def app(shop: Shop) -> App:
    shop.name = "mail"
    shop.create(reject_delay=60)
    return App(client=shop.hr)


def worked(shop: Shop, app: App, push: Any, *, handler: Any = None) -> Any:
    """Let a worker run one pushed call; what it told of it."""
    worker = shop.work(handler or app.handler("mail"))
    data = heard(worker, "data")
    push()
    [done] = data.wait()
    worker.stop()
    return done


def test_a_task_is_called_here_and_pushed_there(shop: Shop, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def send(to: str, *, text: str = "hello") -> str:
        """Send a letter."""
        seen((to, text))
        return to.upper()

    assert (send("ann"), send.__name__, send.__doc__) == ("ANN", "send", "Send a letter.")
    assert isinstance(send, Task)
    assert repr(send) == "<Task 'send' of queue 'mail'>"
    done = worked(shop, app, lambda: send.push("bob", text="hi"))
    assert seen.seen == [("ann", "hello"), ("bob", "hi")]
    assert done.item.payload == {"task": "send", "args": ["bob"], "kwargs": {"text": "hi"}}
    assert done.settled.state == "completed"


def test_a_coroutine_function_runs_on_the_workers_loop(shop: Shop, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    async def send(to: str) -> None:
        await asyncio.sleep(0)
        seen(to)

    asyncio.run(send("here"))
    worked(shop, app, lambda: send.push("there"))
    assert seen.seen == ["here", "there"]


def test_both_kinds_in_one_queue(shop: Shop, app: App) -> None:
    """Functions run beside coroutines, and do not hold them up."""
    gate, seen = Gate(), Signal()

    @app.task(queue="mail")
    def slow(n: int) -> None:
        gate(n)

    @app.task(queue="mail")
    async def quick(n: int) -> None:
        seen(n)

    shop.workers += app.work(queues={"mail": 40})
    for n in range(30):
        slow.push(n)
    quick.push(1)
    gate.arrived.wait(30)
    seen.wait()
    gate.open()


def test_the_plain_handler_runs_coroutines_too(shop: Shop, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    async def send(to: str) -> None:
        seen(to)

    worked(shop, app, lambda: send.push("there"), handler=app.handle)
    assert seen.seen == ["there"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_may_return_an_outcome(shop: Shop, app: App, is_async: bool) -> None:
    def later(n: int) -> Any:
        return Reschedule(delay=60) if n else Drop

    async def alater(n: int) -> Any:
        return later(n)

    task = app.task(queue="mail", name="later")(alater if is_async else later)
    assert worked(shop, app, lambda: task.push(1)).settled.state == "planned"
    assert worked(shop, app, lambda: task.push(0)).settled.state == "dropped"


@pytest.mark.parametrize("value", [False, 0, "text", [1], ValueError("as a value")], ids=repr)
def test_any_other_value_is_the_tasks_own_affair(shop: Shop, app: App, value: Any) -> None:
    task = app.task(queue="mail", name="t")(lambda: value)
    assert worked(shop, app, task.push).settled.state == "completed"


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_task_raises_rejects_it(shop: Shop, app: App, is_async: bool) -> None:
    def bad() -> None:
        raise LookupError("nobody")

    async def abad() -> None:
        bad()

    task = app.task(queue="mail", name="bad")(abad if is_async else bad)
    worker = shop.work(app.handler("mail"))
    errors = heard(worker, "error")
    task.push()
    [trouble] = errors.wait()
    assert (trouble.doing, type(trouble.error)) == ("handle", LookupError)
    worker.stop()
    [error] = shop.errors()
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
def test_what_no_retry_would_mend_is_dead(
    shop: Shop, app: App, payload: Any, type: str, words: str, is_async: bool
) -> None:
    """With a failure that says what is wrong; the worker goes on."""

    @app.task(queue="mail")
    def send(to: str) -> None: ...

    handler = app.ahandle if is_async else app.handle
    done = worked(shop, app, lambda: shop.push(payload), handler=handler)
    assert done.settled.state == "dead"
    [dead] = shop.dead()
    failure = item_of(dead.item).last_error
    assert failure is not None
    assert failure.type == type
    assert words in failure.message


def test_a_wrong_call_is_raised_where_it_is_made(app: App) -> None:
    @app.task(queue="mail")
    def send(to: str) -> None: ...

    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        send.push()  # type: ignore[call-arg]
    with pytest.raises(InvalidBody) as caught:
        send.push({1, 2})  # type: ignore[arg-type]
    assert caught.value.path == "$.args[0]"


def test_options_of_a_task_and_of_one_push(shop: Shop, app: App) -> None:
    @app.task(queue="mail", retry=7, subject=lambda to: f"to-{to}", priority=3, timeout=9, delay=60)
    def send(to: str) -> None: ...

    first = shop.item(send.push("ann"))
    assert (first.subject, first.priority, first.state) == ("to-ann", 3, 0)
    assert first.overrides == '{"max_attempts":7,"timeout":9.0}'
    assert send.push("ann") == first.id
    other = send.options(
        subject="x", priority=0, delay=0, headers={"h": "v"}, retry=-1, timeout=1
    ).push("ann")
    second = shop.item(other)
    assert (second.subject, second.priority, second.state) == ("x", 0, 1)
    assert (second.headers, second.overrides) == ('{"h":"v"}', '{"max_attempts":-1,"timeout":1.0}')


def test_a_push_in_a_transaction(shop: Shop, app: App) -> None:
    @app.task(queue="mail")
    def send(to: str) -> None: ...

    def fail() -> None:
        with shop.hr.transaction() as tx:
            send.options(using=tx).push("ann")
            raise LookupError("no")

    with pytest.raises(LookupError):
        fail()
    assert shop.counts.total == 0
    with shop.hr.transaction() as tx:
        send.options(using=tx).push("ann")
    assert shop.counts.total == 1


def test_a_push_that_follows_an_outcome(shop: Shop, app: App) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def second(n: int) -> None:
        seen(n)

    @app.task(queue="mail")
    def first(n: int) -> Any:
        return Complete(then=[second.options(priority=5).as_push(n + 1)])

    shop.workers += app.work()
    first.push(1)
    assert seen.wait() == [2]


@pytest.mark.parametrize(
    ("backoff", "wait"),
    [
        (Backoff(first=7, jitter=0), 7_000),
        (lambda item, error: 10 * item.attempts, 10_000),
        (lambda item, error: None, 60_000),
        (lambda item, error: 1 / 0, 60_000),
        (None, 60_000),
    ],
)
def test_a_tasks_own_backoff(shop: Shop, app: App, backoff: Any, wait: int) -> None:
    @app.task(queue="mail", backoff=backoff)
    def bad() -> None:
        raise ValueError("x")

    done = worked(shop, app, bad.push)
    item = shop.item(done.item.id)
    assert item.next_execution - item.last_iteration == wait
    assert shop.errors()[0].failure.type == "ValueError"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_can_see_its_item(shop: Shop, app: App, is_async: bool) -> None:
    seen = Signal()

    @app.task(queue="mail")
    def look() -> None:
        item, context = current_item(), current_context()
        assert item is not None
        assert context is not None
        seen((item.attempts, context.client is shop.hr))

    worked(shop, app, look.push, handler=app.ahandle if is_async else app.handle)
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
        app.task(queue="mail", retry=0)


def test_an_app_needs_a_client(url: str, shop: Shop) -> None:
    """Its own, by URL; or one that it is bound to."""
    app = App()

    @app.task(queue="mail")
    def send() -> None: ...

    with pytest.raises(NotConnected, match=r"App\(url\)"):
        send.push()
    app.bind(shop.hr)
    shop.name = "mail"
    send.push()
    own = App(url)
    own.task(queue="mail", name="send")(lambda: None).push()
    assert shop.counts.pending == 2
    assert own.client is own.client
    client = own.client
    assert isinstance(client, headrace.client.clients.Client)
    client.close()


def test_async_apps(url: str, shop: Shop) -> None:
    shop.name = "mail"
    app = App()

    @app.task(queue="mail")
    async def send(n: int) -> None:
        await seen.put(n)

    async def main() -> None:
        global seen
        seen = asyncio.Queue()
        app.bind(shop.hr)
        await send.apush(1)
        async with await headrace.aconnect(url) as hr:
            app.bind(hr)
            with pytest.raises(InvalidOption, match="await apush"):
                send.push(2)
            await send.apush(2)
            async with register_worker(hr, "mail", app.handler("mail")):
                assert [await seen.get(), await seen.get()] == [1, 2]

    asyncio.run(asyncio.wait_for(main(), 20))


seen: asyncio.Queue[int]

SNIPPET = """
from headrace.worker import App

app = App()

@app.task(queue="mail", retry=3)
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
