"""Limits that an app declares, and tasks that run one after another."""

import asyncio
import logging
from typing import Any

import pytest
from worker_fixtures import Gate, Signal, WorkerEnv, until

import headrace
from headrace import ANY
from headrace.errors import InvalidOption, StoreUnavailable
from headrace.worker import App, RetryLater


@pytest.fixture
def app(env: WorkerEnv) -> App:
    env.name = "mail"
    return App(client=env.hr, name="shop")


def start(env: WorkerEnv, app: App, **queues: int) -> None:
    env.workers += app.work(queues=queues or None)  # type: ignore[arg-type]  # blocking ones


def rules(env: WorkerEnv) -> dict[str, int]:
    return {rule.id: rule.limit for rule in env.outside.limits.list()}


def test_declared_limits_hold_back_calls(env: WorkerEnv, app: App) -> None:
    """From the first claim on: they are stored before."""
    gate, seen = Gate(), Signal()

    @app.task(queue="mail", channel=lambda customer: {"customer": customer})
    def send(customer: str) -> None:
        seen(customer)
        gate(customer)

    app.limit({"customer": ANY}, 1)
    for customer in ("ann", "ann", "bob"):
        send.push(customer)
    start(env, app, mail=10)
    assert sorted(seen.wait(2)) == ["ann", "bob"]
    assert env.counts.active == 2
    gate.open()
    seen.wait(3)


def test_limits_are_named_by_the_app_and_what_they_are_about(env: WorkerEnv, app: App) -> None:
    app.task(queue="mail", name="t")(lambda: None)
    app.limit({"customer": ANY, "kind": "pdf"}, 1)
    app.limit({"customer": ANY}, 100, per="1m", queue="mail")
    app.limit(None, 7, on="enqueued")
    app.limit({"x": ANY}, 3, name="mine")
    start(env, app)
    assert rules(env) == {
        "shop-customer.kind_pdf": 1,
        "shop-customer.mail.per_60000_ms": 100,
        "shop-all.enqueued": 7,
        "shop-mine": 3,
    }
    assert env.outside.limits.get("shop-customer.mail.per_60000_ms").period_ms == 60_000


def test_a_second_start_changes_only_numbers(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    app.task(queue="mail", name="t")(lambda: None)
    app.limit({"customer": ANY}, 1)
    start(env, app)
    later = App(client=env.outside, name="shop")
    later.task(queue="mail", name="t")(lambda: None)
    later.limit({"customer": ANY}, 2)
    env.workers += later.work()
    assert rules(env) == {"shop-customer": 2}
    assert not caplog.records


def test_a_limit_that_has_left_the_app_is_named_and_stays(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    env.outside.limits.create({"a": ANY}, 1, name="shop-old")
    env.outside.limits.create({"b": ANY}, 1, name="shopping-other")
    app.task(queue="mail", name="t")(lambda: None)
    start(env, app)
    until(lambda: caplog.messages, "the warning")
    [message] = caplog.messages
    assert message == (
        "limit shop-old is no longer declared by this app and applies all the same: "
        "`headrace limit delete shop-old` removes it"
    )
    assert set(rules(env)) == {"shop-old", "shopping-other"}


def test_apps_that_declare_nothing_start_without_the_store(env: WorkerEnv, app: App) -> None:
    """Their workers wait until it is there."""
    env.interceptor.fail_next("limits.list", StoreUnavailable("away"))
    env.interceptor.fail_next("queues.create", StoreUnavailable("away"))
    ran = Signal()
    app.task(queue="mail", name="t")(ran)
    start(env, app)
    app.tasks["t"].push(1)
    ran.wait()


def test_a_start_without_the_store_fails_if_limits_have_to_be_there(
    env: WorkerEnv, app: App
) -> None:
    env.interceptor.fail_next("limits.create", StoreUnavailable("away"))
    app.limit({"a": ANY}, 1)
    app.task(queue="mail", name="t")(lambda: None)
    with pytest.raises(StoreUnavailable):
        app.work()


def test_a_limit_of_others_about_the_same_is_left_alone(
    env: WorkerEnv, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    env.outside.limits.create({"a": ANY}, 5, name="ops")
    app.task(queue="mail", name="t")(lambda: None)
    app.limit({"a": ANY}, 1)
    start(env, app)
    assert rules(env) == {"ops": 5}
    assert "limit ops is about the same as shop-a, which this app declares with 1" in caplog.text


def test_a_name_that_is_stored_with_another_pattern(env: WorkerEnv, app: App) -> None:
    """Nothing starts: what the app declares would not apply."""
    env.outside.limits.create({"a": ANY}, 5, name="shop-mine")
    app.task(queue="mail", name="t")(lambda: None)
    app.limit({"b": ANY}, 1, name="mine")
    with pytest.raises(InvalidOption, match="`headrace limit delete shop-mine`"):
        app.work()
    assert not env.hr.admin.workers()


def test_an_app_without_a_name_has_that_of_its_module(env: WorkerEnv) -> None:
    app = App(client=env.hr)

    @app.task(queue="mail")
    def send() -> None: ...

    app.limit({"a": ANY}, 1)
    start(env, app)
    assert set(rules(env)) == {"test_app_limits-a"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": -2}, "-2 is not a valid limit"),
        ({"per": "soon"}, "per is 'soon'"),
        ({"on": "all"}, "on is 'all'"),
        ({"name": "_x"}, "cannot name a limit"),
        ({"on": "enqueued", "per": 5}, "per is for what runs"),
    ],
)
def test_a_wrong_limit_is_refused_where_it_is_declared(
    app: App, options: Any, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        app.limit({"a": ANY}, **{"limit": 1, **options})


def test_two_limits_of_one_name(app: App) -> None:
    app.limit({"a": ANY}, 1)
    with pytest.raises(InvalidOption, match="has a limit 'a' already"):
        app.limit({"a": ANY}, 2)


def test_serial_calls_of_a_channel_run_one_after_another(env: WorkerEnv, app: App) -> None:
    gate, seen = Gate(), Signal()

    @app.task(queue="mail", serial=True, channel=lambda to, n: {"to": to})
    def send(to: str, n: int) -> None:
        seen((to, n))
        gate()

    for n in (1, 2):
        send.push("ann", n)
        send.push("bob", n)
    start(env, app, mail=10)
    assert sorted(seen.wait(2)) == [("ann", 1), ("bob", 1)]
    assert env.counts.active == 2
    gate.open()
    assert sorted(seen.wait(4)[2:]) == [("ann", 2), ("bob", 2)]
    version = env.outside.queue("mail").info().version
    other = App(client=env.outside)
    other.tasks = app.tasks
    env.workers += other.work()
    assert env.outside.queue("mail").info().version == version


def test_serial_needs_a_channel(app: App) -> None:
    with pytest.raises(InvalidOption, match="give channel= too"):
        app.task(queue="mail", serial=True)


def test_a_task_may_delay_its_channel(env: WorkerEnv, app: App) -> None:
    """By ``RetryAfter`` or ``RetryLater``: the others of the channel wait, too."""
    seen = Signal()

    @app.task(queue="mail", channel=lambda key, n: {"key": key})
    def call(key: str, n: int) -> None:
        seen(n)
        raise RetryLater("1h")

    for n in (1, 2):
        call.push("k", n)
    start(env, app, mail=1)
    seen.wait()
    until(lambda: env.counts.active == 0, "the settle")
    assert seen.seen == [1]


def test_async_clients_are_awaited(url: str) -> None:
    app = App(name="shop")
    app.limit({"a": ANY}, 1)

    async def main() -> None:
        ran = asyncio.Event()

        @app.task(queue="mail")
        async def send() -> None:
            ran.set()

        async with await headrace.aconnect(url) as hr:
            app.bind(hr)
            with pytest.raises(InvalidOption, match=r"use await app\.awork"):
                app.work()
            [worker] = await app.awork()
            await send.apush()
            await ran.wait()
            await worker.stop()
            assert [rule.id for rule in await hr.limits.list()] == ["shop-a"]

    asyncio.run(asyncio.wait_for(main(), 20))


def test_awork_needs_an_async_client(env: WorkerEnv, app: App) -> None:
    with pytest.raises(InvalidOption, match="await needs an async client"):
        asyncio.run(app.awork())


def test_nothing_is_said_of_apps_that_declare_nothing(
    env: WorkerEnv, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(client=env.hr)
    app.task(queue="mail", name="t")(lambda: None)
    with caplog.at_level(logging.WARNING):
        env.workers += app.work()
    assert not caplog.records
