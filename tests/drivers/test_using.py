"""The user's own transaction: their rows and our records, together or not at all."""

import asyncio
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as alchemy_async

import headrace
from headrace.errors import InvalidOption, NotCommitted, StoreBusy
from headrace.testing.postgres import PrivatePostgres


def sqlite_path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def bare(url: str) -> str:
    return url.partition("?")[0]


def alchemy_url(url: str, *, is_async: bool) -> str:
    if url.startswith("sqlite"):
        return url.replace("sqlite://", "sqlite+aiosqlite://" if is_async else "sqlite://")
    return bare(url).replace("postgresql://", "postgresql+psycopg://")


@contextmanager
def sqlite3_connection(url: str) -> Iterator[Any]:
    connection = sqlite3.connect(sqlite_path(url))
    connection.row_factory = lambda cursor, row: ["mine", *row]
    connection.execute("insert into mine values (1)")
    yield connection, connection.commit, connection.rollback
    connection.close()


@contextmanager
def psycopg_connection(url: str) -> Iterator[Any]:
    with psycopg.connect(bare(url)) as connection:
        connection.execute("insert into mine values (1)")
        yield connection, connection.commit, connection.rollback


@contextmanager
def alchemy_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(alchemy_url(url, is_async=False))
    with orm.Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


@contextmanager
def alchemy_connection(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(alchemy_url(url, is_async=False))
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("insert into mine values (1)"))
        yield connection, connection.commit, connection.rollback
    engine.dispose()


BLOCKING = [
    ("sqlite", sqlite3_connection),
    ("sqlite", alchemy_session),
    ("sqlite", alchemy_connection),
    ("postgres", psycopg_connection),
    ("postgres", alchemy_session),
    ("postgres", alchemy_connection),
]


@pytest.fixture
def mine(request: pytest.FixtureRequest, postgres: PrivatePostgres) -> Iterator[str]:
    """A store's URL, and beside it a table of the user's own."""
    url = request.getfixturevalue(f"{request.param}_url")
    if request.param == "sqlite":
        connection = sqlite3.connect(sqlite_path(url))
        connection.execute("create table mine (n integer)")
        connection.close()
        yield url
        return
    postgres.execute("create table if not exists mine (n integer)")
    yield url
    postgres.execute("drop table mine")


def rows(url: str) -> int:
    """How many rows the user's table has."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(sqlite_path(url))
        [count] = connection.execute("select count(*) from mine").fetchone()
        connection.close()
        return count
    with psycopg.connect(bare(url)) as connection:
        return connection.execute("select count(*) from mine").fetchone()[0]


def insert(connection: Any) -> None:
    statement = "insert into mine values (2)"
    is_alchemy = type(connection).__module__.startswith("sqlalchemy")
    connection.execute(sqlalchemy.text(statement) if is_alchemy else statement)


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_your_rows_and_our_records_are_committed_together(mine: str, opened: Any) -> None:
    with headrace.connect(mine) as hr:
        hr.commit_many("in", [{"n": 1}, {"n": 2}])
        hr.proc("p", topic="in")
        with opened(mine) as (connection, commit, _):
            tx = hr.using(connection)
            claim = tx.proc("p").claim(count=2)
            receipt = tx.commit("out", {"n": 3})
            claim.ack()
            insert(connection)
            commit()
        assert hr.ids(receipt) == [record.id for record in hr.range("out")]
        assert hr.proc("p").lag().records == 0
    assert rows(mine) >= 1


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_your_rollback_takes_our_records_along(mine: str, opened: Any) -> None:
    with headrace.connect(mine) as hr:
        hr.commit("t", {"n": 0})
        with opened(mine) as (connection, _, rollback):
            tx = hr.using(connection)
            receipt = tx.commit("t", {"n": 1})
            tx.commit("new", {"n": 1})
            insert(connection)
            rollback()
        assert rows(mine) == 0
        assert [info.name for info in hr.topics()] == ["t"]
        assert hr.commit("t", {"n": 2}).endswith("-1")
        if hr.capabilities.numbers_at_commit:
            with pytest.raises(NotCommitted):
                hr.ids(receipt)


@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(bare(url)) as connection:
        yield connection


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[Any]:
    engine = alchemy_async.create_async_engine(alchemy_url(url, is_async=True))
    async with alchemy_async.AsyncSession(engine) as session:
        yield session
    await engine.dispose()


@asynccontextmanager
async def async_connection(url: str) -> AsyncIterator[Any]:
    engine = alchemy_async.create_async_engine(alchemy_url(url, is_async=True))
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


ASYNC = [
    ("sqlite", async_session),
    ("sqlite", async_connection),
    ("postgres", async_psycopg),
    ("postgres", async_session),
    ("postgres", async_connection),
]


@pytest.mark.parametrize(("mine", "opened"), ASYNC, indirect=["mine"])
def test_the_same_from_async_code(mine: str, opened: Any) -> None:
    """Commit once, roll back once; claims and acks included."""

    async def scenario() -> None:
        async with await headrace.aconnect(mine) as hr:
            await hr.commit_many("in", [{"n": 1}, {"n": 2}])
            await hr.proc("p", topic="in")
            async with opened(mine) as connection:
                tx = hr.using(connection)
                proc = await tx.proc("p")
                claim = await proc.claim()
                await claim.ack()
                kept = await tx.commit([("out", {"n": 1}), ("out", {"n": 2})])
                await async_insert(connection)
                await connection.commit()
                lost = await hr.using(connection).commit("out", {"n": 3})
                await async_insert(connection)
                await connection.rollback()
            assert await hr.ids(kept) == [record.id for record in await hr.range("out")]
            assert (await (await hr.proc("p")).lag()).records == 1
            if hr.capabilities.numbers_at_commit:
                with pytest.raises(NotCommitted):
                    await hr.ids(lost)

    asyncio.run(scenario())
    assert rows(mine) == 1


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_your_rows_and_our_items_are_one_transaction(mine: str, opened: Any) -> None:
    """Pushes, upserts, outcomes and commits: rolled back once, committed once."""
    with headrace.connect(mine) as hr:
        q = hr.queue("q")
        q.push("work", subject="w")
        [item] = q.claim()
        for is_kept in (False, True):
            with opened(mine) as (connection, commit, rollback):
                tx = hr.using(connection)
                pushed = tx.push_many("q", [1, headrace.Doc(2, subject="s")])
                assert tx.upsert("q", 3, subject="s").id == pushed.ids[1]
                tx.commit("t", {"n": 1})
                [settled] = tx.settle("q", [item.outcome("complete")])
                assert settled.state == "completed"
                insert(connection)
                (commit if is_kept else rollback)()
            stats = q.stats()
            assert (stats.pending, stats.active) == ((2, 0) if is_kept else (0, 1))
        assert [item.payload for item in q.claim(5)] == [1, 3]
        assert hr.length("t") == 1
    assert rows(mine) >= 1


@pytest.mark.parametrize(("mine", "opened"), ASYNC, indirect=["mine"])
def test_the_same_with_items_from_async_code(mine: str, opened: Any) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(mine) as hr:
            q = await hr.queue("q")
            await q.push("work")
            [item] = await q.claim()
            async with opened(mine) as connection:
                tx = hr.using(connection)
                await tx.push("q", "lost")
                await tx.settle("q", [item.outcome("complete")])
                await async_insert(connection)
                await connection.rollback()
                tx = hr.using(connection)
                await tx.push("q", "kept")
                await tx.settle("q", [item.outcome("complete")])
                await async_insert(connection)
                await connection.commit()
            assert [item.payload for item in await q.claim(5)] == ["kept"]
            assert (await q.stats()).active == 1

    asyncio.run(scenario())
    assert rows(mine) == 1


async def async_insert(connection: Any) -> None:
    statement = "insert into mine values (2)"
    is_alchemy = type(connection).__module__.startswith("sqlalchemy")
    await connection.execute(sqlalchemy.text(statement) if is_alchemy else statement)


def test_a_connection_in_autocommit_is_refused(sqlite_url: str, postgres_url: str) -> None:
    """There is no transaction to take part in."""
    with headrace.connect(sqlite_url) as hr:
        connection = sqlite3.connect(sqlite_path(sqlite_url), isolation_level=None)
        with pytest.raises(InvalidOption, match=r"autocommit.*BEGIN IMMEDIATE"):
            hr.using(connection)
        connection.execute("begin")
        hr.using(connection).commit("t", {})
        connection.execute("commit")
        connection.close()
        assert hr.length("t") == 1
    with (
        headrace.connect(postgres_url) as hr,
        psycopg.connect(bare(postgres_url), autocommit=True) as connection,
    ):
        with pytest.raises(InvalidOption, match="autocommit"):
            hr.using(connection)
        with connection.transaction():
            hr.using(connection).commit("t", {})
        assert hr.length("t") == 1


def test_a_connection_to_elsewhere_is_refused(sqlite_url: str, postgres_url: str) -> None:
    with headrace.connect(sqlite_url) as hr, headrace.connect(postgres_url) as pg:
        other = sqlite3.connect(":memory:")
        with pytest.raises(InvalidOption, match=r"in memory.*must be the same file"):
            hr.using(other)
        for client in (hr, pg):
            with pytest.raises(InvalidOption, match=r"not a builtins\.str"):
                client.using("a string")
        with pytest.raises(InvalidOption, match="psycopg"):
            pg.using(other)
        other.close()
    with headrace.connect("memory://") as memory, pytest.raises(InvalidOption, match="memory"):
        memory.using(object())


def test_a_plain_operation_beside_your_own_write_lock_is_refused(sqlite_url: str) -> None:
    """On SQLite it would wait for this very thread."""
    with headrace.connect(sqlite_url) as hr:
        connection = sqlite3.connect(sqlite_path(sqlite_url))
        tx = hr.using(connection)
        tx.commit("t", {})
        with pytest.raises(StoreBusy, match="transaction open"):
            hr.commit("t", {})
        connection.commit()
        hr.commit("t", {})
        connection.close()
        assert hr.length("t") == 2


def test_a_transaction_that_began_as_a_reader_is_told(sqlite_url: str) -> None:
    """Its snapshot is old, so it cannot write; the message says how to begin."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        connection = sqlite3.connect(sqlite_path(sqlite_url), isolation_level=None)
        connection.execute("begin")
        connection.execute("select * from headrace_topic").fetchall()
        hr.commit("t", {})
        with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
            hr.using(connection).commit("t", {})
        connection.execute("rollback")
        connection.close()


def test_long_transactions_do_not_hold_others_up(postgres_url: str) -> None:
    """On PostgreSQL a record in an open transaction blocks no other commit."""
    with headrace.connect(postgres_url) as hr, psycopg.connect(bare(postgres_url)) as connection:
        hr.commit("t", {"n": 0})
        receipt = hr.using(connection).commit("t", {"n": 1})
        hr.using(connection).commit("new", {"n": 1})
        assert hr.commit("t", {"n": 2}).endswith("-1")
        assert hr.commit("new", {"n": 2}).endswith("-0")
        connection.commit()
        assert [record.body["n"] for record in hr.range("t")] == [0, 2, 1]
        assert hr.ids(receipt) == [hr.range("t")[-1].id]


def test_eight_long_writers_two_topics_in_any_order(postgres_url: str) -> None:
    """No deadlock reaches a user, numbers are dense, and a reader never sees a gap fill."""
    with headrace.connect(postgres_url) as hr:
        hr.commit([("a", {}), ("b", {})])
        faults: list[object] = []
        stop = threading.Event()

        def write(seed: int) -> None:
            chance = random.Random(seed)
            try:
                with psycopg.connect(bare(postgres_url)) as connection:
                    for n in range(15):
                        tx = hr.using(connection)
                        for topic in chance.sample(["a", "b"], 2):
                            tx.commit(topic, {"seed": seed, "n": n})
                            connection.execute("select pg_sleep(%s)", (chance.random() / 100,))
                        if chance.random() < 0.2:
                            connection.rollback()
                        else:
                            connection.commit()
            except Exception as error:
                faults.append(error)

        def read() -> None:
            seen = {"a": 0, "b": 0}
            while not stop.is_set():
                for topic, last in seen.items():
                    numbers = [record.seq for record in hr.range(topic)]
                    if numbers != list(range(len(numbers))) or len(numbers) < last:
                        faults.append((topic, last, numbers))
                    seen[topic] = len(numbers)

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=write, args=(seed,)) for seed in range(8)]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        reader.join()
        assert not faults
        both = [{(r.body.get("seed"), r.body.get("n")) for r in hr.range(t)} for t in ("a", "b")]
        assert both[0] == both[1]
