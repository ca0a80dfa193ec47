"""The connections of a client to PostgreSQL: how many, for whom, and until when."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import headrace
from headrace.testing.postgres import PrivatePostgres
from headrace.worker import Item

PATIENCE = 20.0
MANY = 12
"""More transactions at a time than a client has connections for them."""


@pytest.fixture
def named_url(postgres_url: str, request: pytest.FixtureRequest) -> str:
    return f"{postgres_url}&application_name={request.node.name[:60]}"


@pytest.fixture
def connections(postgres: PrivatePostgres, request: pytest.FixtureRequest) -> Callable[[], int]:
    """How many connections of this test the server has."""
    query = "select count(*) from pg_stat_activity where application_name = %s"
    return lambda: postgres.execute(query, request.node.name[:60])[0][0]


def await_none(connections: Callable[[], int]) -> None:
    """Wait until the server has noticed that all are closed."""
    is_over = threading.Event()
    for _ in range(200):
        if connections() == 0:
            return
        is_over.wait(0.05)
    assert connections() == 0


def test_connection_that_comes_back_to_a_closed_client_is_closed(
    named_url: str, connections: Callable[[], int]
) -> None:
    """It was out when the client was closed, and nobody else would ever close it."""
    hr = headrace.connect(named_url)
    with hr.transaction() as tx:
        tx.commit("t", {})
        hr.close()
    await_none(connections)


def test_async_connection_that_comes_back_to_a_closed_client_is_closed(
    named_url: str, connections: Callable[[], int]
) -> None:
    """The same on an event loop, which goes on."""

    async def main() -> None:
        hr = await headrace.aconnect(named_url)
        async with hr.transaction() as tx:
            await tx.commit("t", {})
            await hr.close()
        await asyncio.to_thread(await_none, connections)

    asyncio.run(main())


def test_transactions_leave_connections_for_all_else(postgres_url: str) -> None:
    """However many are open, an operation beside them is not kept waiting."""
    with headrace.connect(postgres_url) as hr:
        hr.queue("q")
        # Daemons: if they wait for each other, nobody else must wait for them.
        threads = [
            threading.Thread(target=push_in_and_beside, args=(hr,), daemon=True)
            for _ in range(MANY)
        ]
        for thread in threads:
            thread.start()
        give_up = time.monotonic() + PATIENCE
        for thread in threads:
            thread.join(max(give_up - time.monotonic(), 0))
        assert not any(thread.is_alive() for thread in threads)
        assert hr.queue("q").stats().pending == 2 * MANY


def push_in_and_beside(hr: Any) -> None:
    with hr.transaction() as tx:
        tx.push("q", "inside")
        hr.push("q", "beside")


def test_async_transactions_leave_connections_for_all_else(postgres_url: str) -> None:
    """The same on an event loop."""

    async def push(hr: Any) -> None:
        async with hr.transaction() as tx:
            await tx.push("q", "inside")
            await hr.push("q", "beside")

    async def main() -> int:
        hr = await headrace.aconnect(postgres_url)
        try:
            queue = await hr.queue("q")
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*[push(hr) for _ in range(MANY)])
            return (await queue.stats()).pending
        finally:
            await hr.close()

    assert asyncio.run(main()) == 2 * MANY


def test_handlers_in_transactions_do_not_keep_a_worker_from_its_store(postgres_url: str) -> None:
    """Their leases are kept, and who is done is settled, while all others sit in transactions."""
    is_over = threading.Event()
    done = threading.Event()

    def handle(item: Item) -> None:
        if item.payload == "short":
            return
        with hr.transaction() as tx:
            tx.commit("t", {})
            is_over.wait(PATIENCE)

    with headrace.connect(postgres_url) as hr:
        queue = hr.queue("q", lock_duration=1.0, max_crashes=1)
        queue.push_many(["long"] * 10)
        worker = queue.register_worker(handle, concurrency=MANY, chunk=1)
        worker.on("data", lambda _: done.set())
        wait_for(lambda: worker.busy == 10)
        queue.push("short")
        is_settled = done.wait(5)
        is_over.set()
        worker.stop()
        assert is_settled, "an item that was done was not settled"
        assert (worker.done, worker.lost) == (11, 0)


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(400):
        if condition():
            return
        pause.wait(0.05)
    assert condition()
