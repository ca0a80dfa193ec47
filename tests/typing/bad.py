"""Mistakes of a user. A type checker finds one in each line that says so."""

from datetime import UTC, datetime

import headrace
from headrace.worker import Retry, current_resources

app = headrace.App("memory://")


@app.task(queue="mail", channel={"day": 1})
async def remind(when: datetime, *, text: str = "") -> int:
    number: str = current_resources(int)  # wrong
    return len(number)


@app.middleware  # wrong
def around(call: int) -> int:
    return call


@app.lifespan  # wrong
def resources(app: headrace.App) -> int:
    return 1


def tasks() -> None:
    remind.push("soon")  # wrong
    remind.push(datetime.now(UTC), txt="x")  # wrong
    remind.options(retry=3)  # wrong
    app.task(queue="mail", retry=3)  # wrong
    app.task(queue="mail", timeout=b"5")  # wrong
    app.limit({"customer": headrace.ANY}, "1")  # wrong
    Retry(on=(5,))  # wrong


def settle_what_was_read(item: headrace.Item) -> None:
    item.complete()  # wrong


def topics(hr: headrace.Headrace) -> None:
    number: int = hr.commit("orders", {})  # wrong
    assert number
    hr.procs.create("billing")  # wrong
    hr.proc("billing").ack("token")  # wrong
    hr.topic(5)  # wrong
    with hr.transaction() as tx:
        tx.procs.wait_idle()  # wrong


def queues(hr: headrace.Headrace) -> None:
    hr.push("mail", 1, colour="red")  # wrong
    hr.queues.create("mail", lease=None, colours=1)  # wrong
    hr.queue("mail").claim(wait="long")  # wrong
    hr.schedules.add("nightly", cron=5)  # wrong
    hr.schedules.add("nightly", every=5, colour="red")  # wrong
    hr.schedules.add("nightly", every=5, misfire="never")  # wrong
    hr.start_worker("mail", print, threads=4)  # wrong
    hr.queue("mail").start_worker(print, threads=4)  # wrong
    hr.create_limit({}, 1)  # wrong
    headrace.push("mail", 1)  # wrong
    headrace.PushResult  # noqa: B018  # wrong


async def forgotten_await(hr: headrace.AsyncHeadrace) -> None:
    ids: str = hr.commit("orders", {})  # wrong
    assert ids
    with hr.lock({"site": "shop"}):  # wrong
        pass
