"""Code of a user, blocking and async, that type checkers accept in strict mode."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import headrace
from headrace import aio, types
from headrace.worker import Retry, TaskCall, current_resources

app = headrace.App("memory://")


@app.task(queue="mail", max_attempts=3, backoff=headrace.Backoff(first=10, longest="1h"))
def send(to: str, *, text: str = "") -> None: ...


app.limit({"customer": headrace.ANY}, 1, per="1m", name="calm")


class Resources:
    number = 7


@app.middleware
def around(call: TaskCall) -> Iterator[None]:
    assert call.attempt
    yield


@app.lifespan
async def resources(app: headrace.App) -> AsyncIterator[Resources]:
    yield Resources()


def day_of(when: datetime) -> dict[str, int]:
    return {"day": when.day}


@app.task(
    queue="mail",
    retry=Retry(max_attempts=3, on=(OSError,), give_up=FileNotFoundError),
    timeout="5s",
    serial=True,
    channel=day_of,
)
async def remind(when: datetime) -> int:
    return current_resources(Resources).number


def push_calls() -> None:
    id: int = remind.push(datetime.now(UTC))
    push: headrace.Push = remind.options(channel={"day": 1}).as_push(datetime.now(UTC))
    assert id
    assert push


def handle(item: headrace.Item, context: headrace.Context) -> headrace.Complete:
    assert item.payload
    return headrace.Complete(then=[headrace.Commit("sent", {"id": item.id})])


def topics(hr: headrace.Headrace) -> Iterator[str]:
    one: str = hr.commit("orders", {"n": 1}, key="k")
    several: list[str] = hr.commit([("orders", {"n": 1}), ("other", {"n": 2})])
    yield from (one, *several)
    for record in hr.topic("orders").range(limit=5, reverse=True):
        yield record.id
    info: types.TopicInfo = hr.topic("orders").set_retention(min_age="1h")
    yield info.name
    proc: headrace.Proc = hr.procs.create("billing", "orders", lease="30s", max_attempts=5)
    claim: headrace.Claim | None = proc.claim(10)
    if claim is not None:
        with hr.transaction() as tx:
            receipt: types.Receipt = tx.commit("out", {})
            claim.using(tx).ack()
        yield hr.resolve(receipt)[0]
    hr.procs.wait_idle([proc], timeout=1)


def queues(hr: headrace.Headrace) -> types.QueueStats:
    mail: headrace.Queue = hr.queues.create("mail", exist_ok=True, lease="5m", keep="all")
    result: types.PushResult = mail.push({"to": "ann"}, delay=timedelta(minutes=5), priority=2)
    assert result.id
    for item in mail.claim(10, wait=None):
        again: datetime | None = item.reject("no", delay="1m")
        assert again
    read: headrace.Item = mail.item(1)
    assert read.state is types.State.PLANNED
    end = mail.on("pushed", print, scope="all")
    end()
    worker: headrace.Worker = hr.start_worker("mail", handle, concurrency=4)
    worker.stop(grace=1.0)
    worker = hr.queue("post").start_worker(handle, lease="5m")
    rule: types.LimitRule = hr.limits.create({"customer": headrace.ANY}, 2, per="1m")
    assert rule.limit == 2
    with hr.slots({"api": "maps"}, 2, wait=10) as slots, hr.lock({"site": "shop"}) as lock:
        assert slots.held
        assert lock.token
    pipeline: headrace.Pipeline = hr.pipelines.create("p", source="t", processor=dict, to="u")
    lag: types.Lag = pipeline.lag()
    assert lag.records
    findings: list[types.Finding] = hr.admin.diagnose()
    assert findings
    nightly: types.ScheduleInfo = hr.schedules.add(
        "nightly",
        cron="@daily",
        zone="Europe/Berlin",
        push=headrace.Push("mail", 1),
        misfire="skip",
    )
    assert nightly.next is None or nightly.next.tzinfo is not None
    assert hr.schedules.next(every="10m", count=2)
    identifier: int = send.push("ann", text="hello")
    assert identifier
    return mail.stats()


async def asynchronous() -> AsyncIterator[str]:
    async with headrace.aconnect("memory://") as hr:
        yield await hr.commit("orders", {"n": 1})
        orders: aio.Topic = hr.topic("orders")
        async for record in orders.iterate():
            yield record.id
        mail: aio.Queue = hr.queue("mail")
        for item in await mail.claim(10):
            await item.complete()
        worker: aio.Worker = await hr.start_worker("mail", handle)
        await worker.pause()
        async with hr.lock({"site": "shop"}), hr.slots({"api": "maps"}):
            pass
        infos: list[types.ProcInfo] = await hr.procs.list()
        yield infos[0].name
    client: headrace.AsyncHeadrace = await headrace.aconnect("memory://")
    await client.close()


def main() -> None:
    with headrace.connect("memory://") as hr:
        list(topics(hr))
        queues(hr)
