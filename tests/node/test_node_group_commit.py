"""Group commit across clients: what arrives together is one transaction, and each gets its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from asgi import Answer, run

from headrace.contract.op import Op
from headrace.errors import StoreUnavailable, UnknownQueue
from headrace.node.app import NodeApp
from headrace.node.guard import OpenGuard
from headrace.node.shutdown import Closing
from headrace.stores import open_store


class CountingStore:
    """A store that says how many operations it ran, and lets the first one wait for the others."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.runs: list[str] = []
        self.go_on = asyncio.Event()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def arun(self, op: Op[Any]) -> Any:
        self.runs.append(op.name)
        if len(self.runs) == 1:
            await self.go_on.wait()
        if self.error is not None and len(self.runs) == 2:
            op.accept()
            raise self.error
        return await self._inner.arun(op)


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with closing(open_store("memory://")) as store:
        yield CountingStore(store)


def app_of(store: Any, **options: Any) -> NodeApp:
    return NodeApp(store, guard=OpenGuard(), closing=Closing(), **options)


async def push_together(store: CountingStore, app: NodeApp, count: int) -> list[Answer]:
    """One push, and ``count`` pushes that come while it is under way."""
    first = asyncio.ensure_future(run(app, "queues.push", calls=[call(0)]))
    while not store.runs:
        await asyncio.sleep(0)
    others = [
        asyncio.ensure_future(run(app, "queues.push", calls=[call(n), call(-n)]))
        for n in range(1, count + 1)
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    store.go_on.set()
    return list(await asyncio.gather(first, *others))


def call(n: int) -> dict[str, Any]:
    return {"queue": "mail", "documents": [{"payload": str(n)}]}


async def test_requests_that_come_together_are_one_transaction(store: CountingStore) -> None:
    """Each gets the outcomes of its own calls, in order."""
    app = app_of(store)
    answers = await push_together(store, app, 10)
    assert store.runs == ["queues.push"] * 2
    ids = [[outcome["ids"][0] for outcome in answer.json] for answer in answers]
    assert [len(own) for own in ids] == [1] + [2] * 10
    for n, own in enumerate(ids):
        for sign, id in zip((1, -1), own, strict=False):
            item = await run(app, "queues.item", queue="mail", item=id)
            assert item.json["payload"] == str(sign * n)


async def test_commits_are_grouped_as_well(store: CountingStore) -> None:
    app = app_of(store)

    def commit(n: int) -> asyncio.Future[Answer]:
        part = {"topic": "t", "count": 1, "body": str(n)}
        return asyncio.ensure_future(run(app, "topics.commit", calls=[{"parts": [part]}]))

    first = commit(0)
    while not store.runs:
        await asyncio.sleep(0)
    others = [commit(n) for n in range(1, 6)]
    for _ in range(20):
        await asyncio.sleep(0)
    store.go_on.set()
    answers = await asyncio.gather(first, *others)
    assert store.runs == ["topics.commit"] * 2
    assert sorted(one.json[0]["spans"][0]["first_seq"] for one in answers) == list(range(6))


async def test_an_error_of_one_request_does_not_concern_the_others(store: CountingStore) -> None:
    """Each is sent again, alone."""
    store.error = UnknownQueue("there is no such queue")
    answers = await push_together(store, app_of(store), 5)
    assert store.runs == ["queues.push"] * 7
    assert [answer.status for answer in answers] == [200] * 6


async def test_a_failure_of_the_store_concerns_all(store: CountingStore) -> None:
    store.error = StoreUnavailable("the store is away")
    answers = await push_together(store, app_of(store), 5)
    assert store.runs == ["queues.push"] * 2
    assert [answer.status for answer in answers] == [200, *[503] * 5]


async def test_an_impatient_request_runs_alone(store: CountingStore) -> None:
    app = app_of(store)
    first = asyncio.ensure_future(run(app, "queues.push", calls=[call(0)]))
    while not store.runs:
        await asyncio.sleep(0)
    header = {"headrace-patience": "0.5"}
    answer = await run(app, "queues.push", header=header, calls=[call(1)])
    assert answer.status == 200
    assert not first.done()
    store.go_on.set()
    await first


async def test_grouping_can_be_left_out(store: CountingStore) -> None:
    await push_together(store, app_of(store, groups_writes=False), 5)
    assert store.runs == ["queues.push"] * 6
