"""Tasks cancelled at every await point: nothing leaks, and outcomes are reported correctly."""

import asyncio
import itertools
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

import headrace
from faults.cancels import HOWS, Ending, How, cancelled_at
from headrace.compat.aio import gopq
from headrace.compat.gopq_values import Location
from headrace.drivers.http.connections import MAX_TASK_CONNECTIONS
from headrace.drivers.http.store import HttpStore
from headrace.drivers.memory.store import MemoryStore
from headrace.drivers.postgres.connections import POOL_SIZE
from headrace.drivers.postgres.store import PostgresStore
from headrace.drivers.sqlite.store import SqliteStore
from headrace.model.query.key_values import KeyValues
from headrace.testing.postgres import PrivatePostgres

CANCELS = int(os.environ.get("HEADRACE_CANCELS", "150"))
MAX_POINTS = 200
SECONDS = 60 + CANCELS / 5

pytestmark = pytest.mark.timeout(60 + SECONDS)

with_transactions = pytest.mark.parametrize("url", ["memory", "sqlite", "postgres"], indirect=True)
"""For tests of transactions: a node keeps none open."""

Client = headrace.AsyncHeadrace
Call = Callable[[Client, int], Awaitable[Any]]


def what_is_held(hr: Client) -> list[str]:
    """What of the client is in use, awaited or in progress."""
    store = hr._store
    held = {
        "waits": bool(hr._waits._open),
        "commits": not hr._flushes._idle.is_set(),
        "pushes": not hr._pushes._idle.is_set(),
    }
    if isinstance(store, SqliteStore):
        held["write lock"] = store.connections._gate.lock.locked()
        held["readers"] = bool(store.connections.readings)
        held["turn"] = store.threads.here().turn.locked()
    elif isinstance(store, PostgresStore):
        pool = store.connections.async_pool()
        held["places"] = pool._places._value < POOL_SIZE
        held["places of transactions"] = pool._lasting_places._value < POOL_SIZE
    elif isinstance(store, HttpStore):
        mine = store._async_connections._loops.get(asyncio.get_running_loop())
        held["connections"] = mine is not None and mine._free._value < MAX_TASK_CONNECTIONS
    else:
        assert isinstance(store, MemoryStore)
        held["lock"] = store._shared.lock.locked()
        held["undo"] = bool(store.data.undo)
    return [name for name, is_held in held.items() if is_held]


async def no_open_transactions(url: str, postgres: PrivatePostgres) -> None:
    """Wait until the server has no session with an open transaction."""
    if not url.startswith("postgres"):
        return
    sql = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"
    async with asyncio.timeout(10):
        while True:
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                if connection.execute(sql).fetchone() == (0,):
                    return
            await asyncio.sleep(0.01)


async def each_point(
    hr: Client,
    call: Call,
    check: Callable[[int, Ending], Awaitable[None]],
    hows: Sequence[How] = HOWS,
    *,
    is_alone: bool = True,
) -> int:
    """Cancel the call at its first await point, its second, and so on until it has no more."""
    numbers = itertools.count()
    cancels = 0
    for how in hows:
        for point in range(1, MAX_POINTS):
            n = next(numbers)
            ending = await cancelled_at(call(hr, n), point, how)
            if not ending.was_reached:
                assert ending.error is None, ending.error
                await check(n, ending)
                break
            cancels += ending.is_cancelled
            # The last cancellation may have been too late. All others are raised.
            assert ending.error is None or ending.is_cancelled, ending.error
            # Threads of workers run beside it.
            assert not is_alone or what_is_held(hr) == []
            await check(n, ending)
            assert not is_alone or what_is_held(hr) == []
        else:
            raise AssertionError("it never ends")
    assert cancels or isinstance(hr._store, MemoryStore)
    return cancels


@pytest.fixture(params=["memory", "sqlite", "postgres", "node"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param != "node":
        yield str(request.getfixturevalue(f"{request.param}_url"))
        return
    served = request.getfixturevalue("served")
    with served.serving(request.getfixturevalue("memory_url")):
        yield served.tcp_url


def run(url: str, scenario: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(SECONDS):
            async with await headrace.aconnect(url, **options) as hr:
                await scenario(hr)

    asyncio.run(main())


async def ended(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a task of the test, whatever is cancelled meanwhile."""
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
    if not task.cancelled():
        task.result()


async def stored(hr: Client, n: int) -> tuple[int, int]:
    """How many records and items of this number exist."""
    records = []
    if await hr.topics.list(prefix="t"):
        records = [record async for record in hr.iterate("t") if record.body["n"] == n]
    items = await hr.queue("q").items(limit=1000)
    return len(records), sum(item.payload == n for item in items)


async def transact(hr: Client, n: int) -> None:
    """A transaction of several operations."""
    async with hr.transaction() as tx:
        await tx.commit("t", {"n": n})
        await asyncio.sleep(0)
        await tx.push("q", n)
        await tx.commit_many("t", [{"n": n}, {"n": n}])


@with_transactions
def test_transactions(url: str, postgres: PrivatePostgres) -> None:
    """Everything is stored or nothing. It is if the block ended without an error."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        await hr.commit("t", {"n": -1})

        async def check(n: int, ending: Ending) -> None:
            found = await stored(hr, n)
            assert found in ([(3, 1)] if ending.error is None else [(0, 0), (3, 1)])

        await each_point(hr, transact, check)
        await no_open_transactions(url, postgres)

    run(url, scenario)


async def gopqs(hr: Client, *, is_unique: bool = False, **settings: Any) -> gopq.Queue:
    """A queue of gopq on the client of the test."""
    queue = await hr.queues.create("q", exist_ok=True, unique_content=is_unique, **settings)
    return gopq.Queue(hr, queue, Location("", "q", is_private=False), is_unique=is_unique)


WRITES: dict[str, tuple[Call, tuple[int, int]]] = {
    "commit": (lambda hr, n: hr.commit("t", {"n": n}), (1, 0)),
    "commit_many": (lambda hr, n: hr.commit_many("t", [{"n": n}] * 3), (3, 0)),
    "commit_to_several": (lambda hr, n: hr.commit([("t", {"n": n}), ("u", {"n": n})]), (1, 0)),
    "push": (lambda hr, n: hr.push("q", n), (0, 1)),
    "push_many": (lambda hr, n: hr.push_many("q", [n] * 3), (0, 3)),
    "upsert": (lambda hr, n: hr.upsert("q", n, subject=str(n)), (0, 1)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes(url: str, name: str) -> None:
    """All of a call is stored or nothing. It is if the call returned."""
    call, whole = WRITES[name]

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        await hr.commit([("t", {"n": -1}), ("u", {"n": -1})])

        async def check(n: int, ending: Ending) -> None:
            found = await stored(hr, n)
            assert found in ([whole] if ending.error is None else [(0, 0), whole])

        await each_point(hr, call, check)

    run(url, scenario)


READS: dict[str, Call] = {
    "length": lambda hr, _: hr.topic("t").length(),
    "range": lambda hr, _: hr.range("t"),
    "topics": lambda hr, _: hr.topics.list(),
    "stats": lambda hr, _: hr.queues.stats("q"),
}


@pytest.mark.parametrize("name", READS)
def test_reads(url: str, name: str) -> None:
    """A caller that is gone holds nothing."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        await hr.commit("t", {"n": -1})

        async def check(n: int, ending: Ending) -> None:
            assert await hr.topic("t").length() == 1

        await each_point(hr, READS[name], check)

    run(url, scenario)


def test_callers_that_share_a_transaction(url: str) -> None:
    """Each caller that was not cancelled gets its own answer."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        neighbours: list[asyncio.Task[Any]] = []

        async def push(hr: Client, n: int) -> None:
            neighbours.extend(asyncio.create_task(hr.push("q", -1)) for _ in range(2))
            try:
                await asyncio.sleep(0)
                await hr.push("q", n)
            finally:
                neighbours.extend(asyncio.create_task(hr.push("q", -1)) for _ in range(2))

        async def check(n: int, ending: Ending) -> None:
            for pushed in await asyncio.gather(*neighbours):
                assert pushed.pushed == 1
            _, found = await stored(hr, n)
            assert found in ((1,) if ending.error is None else (0, 1))

        numbers = itertools.count()
        for how in HOWS:
            for point in range(1, 20):
                n = next(numbers)
                await check(n, await cancelled_at(push(hr, n), point, how))
        assert what_is_held(hr) == []
        assert (await stored(hr, -1))[1] == len(neighbours)

    run(url, scenario)


def test_claims(url: str) -> None:
    """Items are claimed, or pending as before. No lease keeps them from others."""

    async def scenario(hr: Client) -> None:
        q = hr.queue("q")
        await q.push_many(range(3))

        async def claim(hr: Client, n: int) -> list[Any]:
            return await q.claim(2, lease=3600)

        async def check(n: int, ending: Ending) -> None:
            stats = await q.stats()
            if ending.error is None:
                assert (stats.pending, stats.active) == (1, 2)
                await q.release(ending.result)
                stats = await q.stats()
            assert (stats.pending, stats.active) == (3, 0)

        await each_point(hr, claim, check)

    run(url, scenario)


def test_waiting_claims(url: str) -> None:
    """As above, while the queue is empty, and when an item has come."""

    async def scenario(hr: Client) -> None:
        q = await hr.queues.create("q")

        async def claim(hr: Client, n: int) -> list[Any]:
            pushing = asyncio.create_task(_push_when_waiting(hr))
            try:
                return await q.claim(lease=3600, wait=20)
            finally:
                pushing.cancel()
                await ended(pushing)

        async def check(n: int, ending: Ending) -> None:
            assert not hr._waits._open
            for item in ending.result or ():
                await item.release()
            stats = await q.stats()
            assert stats.active == 0
            for item in await q.claim(10):
                await item.complete()

        await each_point(hr, claim, check)

    async def _push_when_waiting(hr: Client) -> None:
        while not hr._waits._open:
            await asyncio.sleep(0)
        await hr.push("q", 1)

    run(url, scenario)


def test_outcomes(url: str) -> None:
    """An outcome counts once or not at all, together with its pushes."""

    async def scenario(hr: Client) -> None:
        q = hr.queue("work")
        await hr.queues.create("q")
        claimed: dict[int, Any] = {}

        async def complete(hr: Client, n: int) -> None:
            await claimed[n].complete(then=[headrace.Push("q", n)])

        async def give(n: int) -> None:
            await q.push(n)
            [claimed[n]] = await q.claim(lease=3600)

        async def check(n: int, ending: Ending) -> None:
            _, found = await stored(hr, n)
            active = (await q.stats()).active
            assert (active, found) in ([(0, 1)] if ending.error is None else [(0, 1), (1, 0)])
            if active:
                await claimed[n].complete()
            await give(n + 1)

        await give(0)
        await each_point(hr, complete, check)

    run(url, scenario)


def test_locks(url: str) -> None:
    """After a cancellation nothing holds the lock or waits for it."""

    async def scenario(hr: Client) -> None:
        async def hold(hr: Client, n: int) -> None:
            async with hr.lock({"a": 1}, lease=3600):
                await asyncio.sleep(0)

        async def check(n: int, ending: Ending) -> None:
            assert await hr.locks.list() == []
            assert not hr._lease_keeper._tasks

        await each_point(hr, hold, check)

    run(url, scenario)


def test_waiting_for_locks(url: str) -> None:
    """A cancelled waiter gives up its place, and releases a lock that was granted meanwhile."""

    async def scenario(hr: Client) -> None:
        async def hold(hr: Client, n: int) -> None:
            other = hr.lock({"a": 1}, lease=3600)
            await other.acquire()
            releasing = asyncio.create_task(_release_when_awaited(hr, other))
            try:
                async with hr.lock({"a": 1}, lease=3600, wait=20):
                    pass
            finally:
                await ended(releasing)

        async def check(n: int, ending: Ending) -> None:
            assert await hr.locks.list() == []
            assert not hr._lease_keeper._tasks

        await each_point(hr, hold, check)

    async def _release_when_awaited(hr: Client, lock: Any) -> None:
        for _ in range(200):
            if hr._waits._open:
                break
            await asyncio.sleep(0)
        await lock.release()

    run(url, scenario)


@pytest.mark.parametrize("is_full", [False, True])
def test_slots(url: str, is_full: bool) -> None:
    """After a cancellation nothing is counted, whether a slot was free immediately or later."""

    async def scenario(hr: Client) -> None:
        await hr.limits.set({"api": "a"}, 2, name="rule")

        async def hold(hr: Client, n: int) -> None:
            giving = None
            if is_full:
                other = await hr.slots({"api": "a"}, 2, lease=3600).acquire()
                giving = asyncio.create_task(_give_back_when_awaited(hr, other))
            try:
                async with hr.slots({"api": "a"}, lease=3600, wait=20):
                    await asyncio.sleep(0)
            finally:
                if giving is not None:
                    await ended(giving)

        async def check(n: int, ending: Ending) -> None:
            if is_full:
                await hr.counters.set({"api": "a"}, 0)
            assert [counter for counter in await hr.counters.list() if counter.count] == []
            assert not hr._lease_keeper._tasks

        await each_point(hr, hold, check)

    async def _give_back_when_awaited(hr: Client, slots: Any) -> None:
        for _ in range(200):
            if hr._waits._open:
                break
            await asyncio.sleep(0)
        await slots.release()

    run(url, scenario)


def test_claims_of_procs(url: str) -> None:
    """A claim without a caller does not keep the records from others."""

    async def scenario(hr: Client) -> None:
        await hr.commit_many("t", [{"n": n} for n in range(3)])
        proc = await hr.procs.create("p", "t", max_attempts=-1, lease=3600)

        async def claim(hr: Client, n: int) -> Any:
            return await proc.claim(2)

        async def check(n: int, ending: Ending) -> None:
            if ending.error is None:
                await ending.result.nack()
            again = await proc.claim(2)
            assert again is not None
            assert [record.body["n"] for record in again] == [0, 1]
            await again.nack()

        await each_point(hr, claim, check)

        async def available(hr: Client, n: int) -> Any:
            return await hr.procs.claim_any([proc], count=2)

        async def check_available(n: int, ending: Ending) -> None:
            await check(n, ending)

        await each_point(hr, available, check_available)

    run(url, scenario)


def test_acks(url: str) -> None:
    """Ack and commit are both applied, or neither is."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        proc = await hr.procs.create("p", "s")
        claims: dict[int, Any] = {}

        async def ack(hr: Client, n: int) -> Any:
            return await claims[n].ack_commit([("t", {"n": n})])

        async def give(n: int) -> None:
            await hr.commit("s", {"n": n})
            claim = await proc.claim()
            assert claim is not None
            claims[n] = claim

        async def check(n: int, ending: Ending) -> None:
            found, _ = await stored(hr, n)
            lag = (await proc.lag()).records
            assert (found, lag) in ([(1, 0)] if ending.error is None else [(1, 0), (0, 1)])
            if lag:
                await claims[n].ack()
            await give(n + 1)

        await give(0)
        await each_point(hr, ack, check)

    run(url, scenario)


def test_dequeues(url: str) -> None:
    """An item that a cancelled dequeue removed is not lost: it is in the queue again."""

    async def scenario(hr: Client) -> None:
        queue = await gopqs(hr)
        await queue.enqueue(b"it")

        async def dequeue(hr: Client, n: int) -> Any:
            return await queue.dequeue(timeout=20)

        async def check(n: int, ending: Ending) -> None:
            message = ending.result or await queue.try_dequeue()
            assert message.item == b"it"
            assert await queue.len() == 0
            await queue.enqueue(b"it")

        await each_point(hr, dequeue, check)

    run(url, scenario)


@pytest.mark.parametrize("keep", ["all", "none"])
def test_dequeues_of_unique_items(url: str, keep: Any) -> None:
    """Even if content that was once there is skipped for ever."""

    async def scenario(hr: Client) -> None:
        queue = await gopqs(hr, is_unique=True, unique="forever", keep=keep)
        await queue.enqueue(b"0")

        async def dequeue(hr: Client, n: int) -> Any:
            return await queue.dequeue(timeout=20)

        async def check(n: int, ending: Ending) -> None:
            message = ending.result or await queue.try_dequeue()
            assert message.item == str(n).encode()
            await queue.enqueue(message.item)
            assert await queue.len() == 0
            await queue.enqueue(str(n + 1).encode())

        await each_point(hr, dequeue, check)

    run(url, scenario)


@pytest.mark.parametrize("keep", ["all", "none"])
@pytest.mark.parametrize("other", [None, "s"], ids=["another", "same subject"])
def test_a_cancelled_dequeue_puts_back_all_of_its_item(
    url: str, monkeypatch: pytest.MonkeyPatch, keep: Any, other: str | None
) -> None:
    """Even if the queue is full by then. Only a subject that another item has by now is dropped."""

    async def scenario(hr: Client) -> None:
        queue = await gopqs(hr, keep=keep)
        await queue.queue.update(max_items=1)
        await queue.queue.push(
            {"n": 1}, subject="s", headers={"h": "x"}, priority=7, channel={"k": "v"}
        )
        arun, is_filled = hr._store.arun, False

        async def filling(op: Any) -> Any:
            nonlocal is_filled
            result = await arun(op)
            if op.name == "queues.settle" and not is_filled:
                is_filled = True
                await queue.queue.push({"n": 2}, subject=other)
                task.cancel()
            return result

        monkeypatch.setattr(hr._store, "arun", filling)
        task = asyncio.create_task(queue.dequeue(timeout=20))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert is_filled
        found = {item.payload["n"]: item for item in await queue.queue.claim(5)}
        assert sorted(found) == [1, 2]
        assert found[1].subject == (None if other else "s")
        assert (found[1].headers, found[1].priority, found[1].attempts) == ({"h": "x"}, 7, 1)
        assert found[1].channel == KeyValues.of({"k": "v"})
        stats = await queue.queue.stats()
        assert (stats.active, stats.completed) == (2, 0)

    run(url, scenario)


def test_updates_of_queues(url: str) -> None:
    """Workers do not stay stopped, and the settings are the old ones or the new ones."""

    async def scenario(hr: Client) -> None:
        q = await hr.queues.create("q", max_attempts=5, exist_ok=True)
        done: asyncio.Queue[Any] = asyncio.Queue()
        worker = await hr.start_worker("q", lambda item: None)
        worker.on("data", done.put_nowait)

        async def update(hr: Client, n: int) -> None:
            await q.update(max_attempts=10 + n, time_limit=20)

        async def check(n: int, ending: Ending) -> None:
            assert ending.error is not None or (await q.info()).settings.max_attempts == 10 + n
            await q.push(n)
            async with asyncio.timeout(2):
                await done.get()

        # The first points only: each stops the worker, and waits until it runs again.
        for point in (1, 2, 4):
            ending = await cancelled_at(update(hr, point), point, "twice")
            await check(point, ending)
        await worker.stop()

    run(url, scenario)


def test_connecting_and_closing(url: str, postgres: PrivatePostgres) -> None:
    """Each ends with an open client, or with everything closed."""

    async def scenario(hr: Client) -> None:
        async def use(hr: Client, n: int) -> None:
            async with await headrace.aconnect(url) as mine:
                await mine.commit("t", {"n": n})

        async def check(n: int, ending: Ending) -> None:
            await hr.commit("t", {"n": -1})

        await each_point(hr, use, check)
        if url.startswith("postgres"):
            sql = (
                "select count(*) from pg_stat_activity "
                "where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
            async with asyncio.timeout(10):
                while True:
                    with psycopg.connect(postgres.url, autocommit=True) as connection:
                        [count] = connection.execute(sql).fetchone() or (0,)
                        if count <= POOL_SIZE + 2:
                            return
                    await asyncio.sleep(0.01)

    run(url, scenario)


def test_stopping_workers(url: str) -> None:
    """A worker whose stop was cancelled still stops, and releases its items."""

    async def scenario(hr: Client) -> None:
        q = hr.queue("q")
        await hr.queues.create("q")  # a worker that is stopped early does not

        async def stop(hr: Client, n: int) -> None:
            worker = await hr.start_worker("q", lambda item: None)
            workers.append(worker)
            await worker.stop()

        async def check(n: int, ending: Ending) -> None:
            assert await workers[-1].join(10)
            assert (await q.stats()).active == 0

        workers: list[Any] = []
        await each_point(hr, stop, check, ("early", "twice"), is_alone=False)

    run(url, scenario)


def test_live(url: str) -> None:
    """A cancelled reader of a topic releases its records."""

    async def scenario(hr: Client) -> None:
        await hr.commit_many("t", [{"n": n} for n in range(3)])

        async def follow(hr: Client, n: int) -> list[Any]:
            found = []
            async with hr.live("t", count=2) as live:
                async for record in live:
                    found.append(record.body["n"])
                    if len(found) == 3:
                        break
            return found

        async def check(n: int, ending: Ending) -> None:
            assert ending.error is not None or ending.result == [0, 1, 2]
            async with asyncio.timeout(10):
                while await hr.procs.list():
                    await asyncio.sleep(0.001)

        await each_point(hr, follow, check)

    run(url, scenario)


@with_transactions
def test_transactions_that_wait_for_a_connection(url: str, postgres: PrivatePostgres) -> None:
    """Cancelled ones leave the line. The others get their turn."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        begun, go_on = asyncio.Semaphore(0), asyncio.Event()

        async def hold(n: int) -> None:
            async with hr.transaction() as tx:
                await tx.push("q", n)
                begun.release()
                await go_on.wait()

        tasks = [asyncio.create_task(hold(n)) for n in range(3 * POOL_SIZE)]
        await begun.acquire()
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        async with asyncio.timeout(20):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results[::2]:
            assert isinstance(result, asyncio.CancelledError)
        assert results[1::2] == [None] * (len(tasks) // 2)
        found = [item.payload for item in await hr.queue("q").items(limit=1000)]
        assert sorted(found) == list(range(1, len(tasks), 2))
        assert what_is_held(hr) == []
        await no_open_transactions(url, postgres)

    run(url, scenario)


def test_blocked_statements(postgres_url: str) -> None:
    """They are cancelled at the server. Cancelling a task inside a transaction, and waiting for its
    end, does not take for ever."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")

        async def wait(hr: Client) -> None:
            async with hr.transaction() as tx:
                await tx.push("q", 2, subject="same")

        for call in (wait(hr), hr.upsert("q", 2, subject="same")):
            async with hr.transaction() as tx:
                await tx.push("q", 1, subject="same")
                waiting = asyncio.create_task(call)
                await asyncio.wait([waiting], timeout=0.2)
                assert not waiting.done()
                waiting.cancel()
                async with asyncio.timeout(10):
                    with pytest.raises(asyncio.CancelledError):
                        await waiting
            [item] = await hr.queue("q").claim()
            assert item.payload == 1
            await item.complete()
            assert what_is_held(hr) == []

    run(postgres_url, scenario)


@with_transactions
def test_half_of_an_operation_is_never_committed(url: str) -> None:
    """Even if a transaction continues after one of its calls was cancelled."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")

        async def transact(point: int, how: How, n: int) -> Ending:
            async with hr.transaction() as tx:
                await tx.push("q", -1)
                ending = await cancelled_at(tx.push_many("q", [n, n]), point, how)
                await tx.commit("t", {"n": n})
            return ending

        numbers = itertools.count()
        for how in HOWS:
            for point in range(1, 8):
                n = next(numbers)
                ending = await transact(point, how, n)
                whole = [(1, 2)] if ending.error is None else [(1, 0), (1, 2)]
                assert await stored(hr, n) in whole
        q = hr.queue("q")
        stats, [counted] = await q.stats(), await hr.queues.stats("q", exact=True)
        assert stats.pending == counted.pending

    run(url, scenario)


class Storm:
    """Tasks of one client that do all kinds of things and are cancelled, with an audit log."""

    def __init__(self, hr: Client, rng: random.Random) -> None:
        self._hr = hr
        self._rng = rng
        self._numbers = itertools.count()
        self.cancels = 0
        self.begun: set[int] = set()
        self.acked: set[int] = set()

    async def work(self, cancels: int) -> None:
        while self.cancels < cancels:
            kind = self._rng.choice((self._write, self._write, self._take, self._hold))
            await kind()

    async def _cancel(self, awaitable: Awaitable[Any]) -> Ending:
        ending = await cancelled_at(
            awaitable, self._rng.choice((1, 2, 3, 4, 5, 6, 8, 12)), self._rng.choice(HOWS)
        )
        self.cancels += ending.is_cancelled
        assert ending.error is None or ending.is_cancelled, ending.error
        return ending

    async def _write(self) -> None:
        n = next(self._numbers)
        self.begun.add(n)
        call: Awaitable[Any] = self._rng.choice(
            (self._transact, self._commit_twice, self._push_and_commit)
        )(n)
        if (await self._cancel(call)).error is None:
            self.acked.add(n)

    async def _transact(self, n: int) -> None:
        await transact(self._hr, n)

    async def _commit_twice(self, n: int) -> None:
        await self._hr.commit([("t", {"n": n}), ("t", {"n": n}), ("t", {"n": n})])

    async def _push_and_commit(self, n: int) -> None:
        async with self._hr.transaction() as tx:
            await asyncio.gather(tx.commit_many("t", [{"n": n}] * 3), tx.push("other", n))

    async def _take(self) -> None:
        async def take() -> None:
            q = self._hr.queue("work")
            await q.push(0)
            claimed.extend(await q.claim(2, lease=3600, wait=0.05))

        claimed: list[Any] = []
        await self._cancel(take())
        for item in claimed:
            await item.complete()

    async def _hold(self) -> None:
        async def hold() -> None:
            async with self._hr.lock({"a": self._rng.randrange(2)}, lease=3600, wait=20):
                await asyncio.sleep(0)
            async with self._hr.slots({"api": "a"}, lease=3600, wait=20):
                await asyncio.sleep(0)

        await self._cancel(hold())


@with_transactions
def test_storm(url: str, rng: random.Random, postgres: PrivatePostgres) -> None:
    """Many tasks, cancelled at random: acknowledged work is stored completely, and the client works
    as before."""

    async def scenario(hr: Client) -> None:
        await hr.queues.create("q")
        await hr.commit("t", {"n": -1})
        await hr.limits.set({"api": "a"}, 2, name="rule")
        storm = Storm(hr, rng)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(16):
                tasks.create_task(storm.work(CANCELS))
        found = Counter([record.body["n"] async for record in hr.iterate("t")])
        del found[-1]
        assert storm.acked <= set(found) <= storm.begun
        assert set(found.values()) == {3}
        # Nothing was claimed by a caller that was cancelled before its answer.
        assert (await hr.queue("work").stats()).active == 0
        assert await hr.locks.list() == []
        assert [counter for counter in await hr.counters.list() if counter.count] == []
        assert what_is_held(hr) == []
        await no_open_transactions(url, postgres)
        print(f"{storm.cancels} cancels, {len(storm.acked)} of {len(storm.begun)} acknowledged")

    run(url, scenario)
