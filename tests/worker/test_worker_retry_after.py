"""A handler that returns "retry after": its whole channel waits, and continues automatically."""

from collections.abc import Iterator
from typing import Any

import pytest
from worker_fixtures import Signal, WorkerEnv, events_of, until

from headrace.errors import InvalidOption
from headrace.testing.clocks import FakeClock
from headrace.worker import Item, RetryAfter, RetryLater

API = {"account": 7}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def env(url: str, clock: FakeClock) -> Iterator[WorkerEnv]:
    env = WorkerEnv(url, clock=clock)
    yield env
    env.close()


@pytest.mark.parametrize("kind", ["returned", "raised", "async"])
def test_the_whole_channel_waits(env: WorkerEnv, clock: FakeClock, kind: str) -> None:
    """Including prefetched items. Other channels continue. No attempt is counted, nothing failed,
    and nothing has to wake the worker."""
    called = Signal()
    first, *_ = env.push(1, 2, 3, channel=API)
    env.push(4, channel={"account": 8})

    def handle(item: Item) -> Any:
        called(item.payload)
        if called.seen != [1]:
            return None
        if kind == "raised":
            raise RetryLater("1m")
        return RetryAfter(delay="1m")

    async def ahandle(item: Item) -> Any:
        return handle(item)

    worker = env.work(ahandle if kind == "async" else handle, chunk=10, concurrency=1)
    trouble = events_of(worker, "error")
    until(lambda: (env.counts.active, env.counts.pending) == (0, 3), "a channel that waits")
    assert called.seen == [1, 4]
    assert env.item(first).attempts == 0
    clock.advance(60)
    called.wait(5)
    until(lambda: worker.done == 4, "the rest")
    assert called.seen == [1, 4, 1, 2, 3]
    assert (worker.failed, trouble.seen) == (0, [])


@pytest.mark.parametrize("options", [{}, {"delay": 1, "at": 1}, {"delay": -1}])
def test_a_wrong_time_is_refused_where_it_is_given(options: Any) -> None:
    with pytest.raises(InvalidOption):
        RetryAfter(**options)
    with pytest.raises(InvalidOption):
        RetryLater(**options)
