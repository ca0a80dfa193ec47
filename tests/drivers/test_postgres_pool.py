"""The connections of a client to PostgreSQL: how many, for what, and until when."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace
from faults.interrupts import interrupted
from headrace.drivers.postgres.pool import ConnectionSlots
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
    """The number of connections of this test at the server."""
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


def test_a_connection_returned_to_a_closed_client_is_closed(
    named_url: str, connections: Callable[[], int]
) -> None:
    """It was in use when the client was closed, and nothing else would ever close it."""
    hr = headrace.connect(named_url)
    with hr.transaction() as tx:
        tx.commit("t", {})
        hr.close()
    await_none(connections)


def test_an_async_connection_returned_to_a_closed_client_is_closed(
    named_url: str, connections: Callable[[], int]
) -> None:
    """The same on an event loop that continues."""

    async def main() -> None:
        hr = await headrace.aconnect(named_url)
        async with hr.transaction() as tx:
            await tx.commit("t", {})
            await hr.close()
        await asyncio.to_thread(await_none, connections)

    asyncio.run(main())


def test_transactions_leave_connections_for_other_operations(postgres_url: str) -> None:
    """However many are open, an operation beside them does not wait."""
    with headrace.connect(postgres_url) as hr:
        hr.queues.create("q")
        # Daemons: if they wait for each other, nothing else must wait for them.
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


def test_async_transactions_leave_connections_for_other_operations(postgres_url: str) -> None:
    """The same on an event loop."""

    async def push(hr: Any) -> None:
        async with hr.transaction() as tx:
            await tx.push("q", "inside")
            await hr.push("q", "beside")

    async def main() -> int:
        hr = await headrace.aconnect(postgres_url)
        try:
            queue = await hr.queues.create("q")
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*[push(hr) for _ in range(MANY)])
            return (await queue.stats()).pending
        finally:
            await hr.close()

    assert asyncio.run(main()) == 2 * MANY


def test_handlers_in_transactions_do_not_keep_a_worker_from_its_store(postgres_url: str) -> None:
    """Leases are extended and finished items settled while all other handlers are in
    transactions."""
    is_over = threading.Event()
    done = threading.Event()

    def handle(item: Item) -> None:
        if item.payload == "short":
            return
        with hr.transaction() as tx:
            tx.commit("t", {})
            is_over.wait(PATIENCE)

    with headrace.connect(postgres_url) as hr:
        queue = hr.queues.create("q", lease=1.0, max_crashes=1, exist_ok=True)
        queue.push_many(["long"] * 10)
        worker = queue.start_worker(handle, concurrency=MANY, chunk=1)
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


class Crowd:
    """Threads that repeatedly take a place and leave it after a moment."""

    def __init__(self, size: int, threads: int, seconds: float) -> None:
        self.places = ConnectionSlots(size)
        self.most = 0
        self._give_up = time.monotonic() + seconds
        self._threads = threads

    def run(self) -> float:
        """The longest wait for a place, in seconds."""
        with ThreadPoolExecutor(self._threads) as threads:
            return max(
                done.result(60)
                for done in [threads.submit(self._work) for _ in range(self._threads)]
            )

    def _work(self) -> float:
        longest = 0.0
        hold = threading.Event()
        while (begun := time.monotonic()) < self._give_up:
            owner = object()
            assert self.places.acquire(owner) or self.places.wait(owner, 30)
            longest = max(longest, time.monotonic() - begun)
            self.most = max(self.most, len(self.places.owners))
            hold.wait(0.0003)
            self.places.left_by(self.places.owners.pop(owner, None))
        return longest


@pytest.mark.parametrize("threads", [11, 60])
def test_no_thread_waits_long_for_a_place_that_others_soon_leave(threads: int) -> None:
    """Each thread gets its turn, and there are never more owners than places."""
    crowd = Crowd(10, threads, 1.5)
    assert crowd.run() < 0.5
    assert crowd.most == 10
    assert not crowd.places.owners
    assert not crowd.places.waiting


def waiter_for(
    places: ConnectionSlots, owner: object, seconds: float
) -> tuple[threading.Thread, list[bool]]:
    """A thread that waits for a place, and its result."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(places.wait(owner, seconds)))
    thread.start()
    wait_for(lambda: owner in places.waiting or bool(answers))
    return thread, answers


def test_a_place_goes_to_the_first_waiter() -> None:
    """Neither the owner that leaves nor a later waiter can take it before."""
    places = ConnectionSlots(1)
    assert places.acquire("owner")
    waiters = [waiter_for(places, name, 20) for name in ("first", "second")]
    for name, (thread, answers) in zip(("first", "second"), waiters, strict=True):
        places.left_by(places.owners.pop(next(iter(places.owners))))
        assert not places.acquire("owner")
        thread.join(20)
        assert answers == [True]
        assert list(places.owners) == [name]


def test_a_waiter_that_gives_up_leaves_its_turn_to_the_next() -> None:
    places = ConnectionSlots(1)
    assert places.acquire("owner")
    hasty, hasty_answers = waiter_for(places, "hasty", 0.2)
    patient, answers = waiter_for(places, "patient", 20)
    hasty.join(20)
    assert hasty_answers == [False]
    places.left_by(places.owners.pop("owner"))
    patient.join(20)
    assert answers == [True]
    assert not places.waiting


def test_places_left_together_go_to_as_many_waiters() -> None:
    """Even if only the first of them is notified."""
    places = ConnectionSlots(2)
    assert places.acquire(1)
    assert places.acquire(2)
    waiters = [waiter_for(places, name, 20) for name in (3, 4)]
    places.owners.clear()
    places.left_by(None)
    for thread, answers in waiters:
        thread.join(20)
        assert answers == [True]
    assert set(places.owners) == {3, 4}


@pytest.mark.parametrize("is_free", [True, False])
def test_an_interrupted_waiter_blocks_no_other(is_free: bool) -> None:
    """Its turn goes to the next. If it already had a place, its owner leaves the place."""
    for at in range(1, 1000):
        places = ConnectionSlots(1)
        if not is_free:
            assert places.acquire("owner")
        error = interrupted(functools.partial(places.wait, "waiter", 0.001), at)
        places.left_by(places.owners.pop("waiter", None))
        assert not places.waiting
        places.owners.pop("owner", None)
        assert places.acquire("other")
        if error is None:
            return
    raise AssertionError("the wait has no end")
