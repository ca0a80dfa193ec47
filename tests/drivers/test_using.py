"""The user's own transaction: their rows and our records, together or not at all."""

import asyncio
import random
import sqlite3
import threading
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as alchemy_async

import headrace
from headrace.errors import InvalidOption, NotCommitted, NotConnected, StoreBusy, StoreError
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
    """A store's URL, and the user's own table beside it."""
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
        hr.procs.create("p", "in")
        with opened(mine) as (connection, commit, _):
            tx = hr.using(connection)
            claim = tx.proc("p").claim(count=2)
            receipt = tx.commit("out", {"n": 3})
            claim.ack()
            insert(connection)
            commit()
        assert hr.resolve(receipt) == [record.id for record in hr.range("out")]
        assert hr.proc("p").lag().records == 0
    assert rows(mine) >= 1


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_your_rollback_removes_our_records(mine: str, opened: Any) -> None:
    with headrace.connect(mine) as hr:
        hr.commit("t", {"n": 0})
        with opened(mine) as (connection, _, rollback):
            tx = hr.using(connection)
            receipt = tx.commit("t", {"n": 1})
            tx.commit("new", {"n": 1})
            insert(connection)
            rollback()
        assert rows(mine) == 0
        assert [info.name for info in hr.topics.list()] == ["t"]
        assert hr.commit("t", {"n": 2}).endswith("-1")
        if hr.capabilities.numbers_at_commit:
            with pytest.raises(NotCommitted):
                hr.resolve(receipt)


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
    """One commit and one rollback, including claims and acks."""

    async def scenario() -> None:
        async with await headrace.aconnect(mine) as hr:
            await hr.commit_many("in", [{"n": 1}, {"n": 2}])
            await hr.procs.create("p", "in")
            async with opened(mine) as connection:
                tx = hr.using(connection)
                proc = tx.proc("p")
                claim = await proc.claim()
                await claim.ack()
                kept = await tx.commit([("out", {"n": 1}), ("out", {"n": 2})])
                await async_insert(connection)
                await connection.commit()
                lost = await hr.using(connection).commit("out", {"n": 3})
                await async_insert(connection)
                await connection.rollback()
            assert await hr.resolve(kept) == [record.id for record in await hr.range("out")]
            assert (await hr.proc("p").lag()).records == 1
            if hr.capabilities.numbers_at_commit:
                with pytest.raises(NotCommitted):
                    await hr.resolve(lost)

    asyncio.run(scenario())
    assert rows(mine) == 1


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_your_rows_and_our_items_are_one_transaction(mine: str, opened: Any) -> None:
    """Pushes, upserts, outcomes and commits, rolled back once and committed once."""
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
        assert hr.topic("t").length() == 1
    assert rows(mine) >= 1


@pytest.mark.parametrize(("mine", "opened"), ASYNC, indirect=["mine"])
def test_the_same_with_items_from_async_code(mine: str, opened: Any) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(mine) as hr:
            q = hr.queue("q")
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


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_a_transaction_that_is_over_refuses_operations(
    mine: str, opened: Any, is_kept: bool
) -> None:
    """The connection would begin another one, which nobody may ever commit."""
    with headrace.connect(mine) as hr:
        hr.queues.create("q")
        with opened(mine) as (connection, commit, rollback):
            tx = hr.using(connection)
            tx.push("q", 1)
            (commit if is_kept else rollback)()
            for _ in range(2):
                with pytest.raises(NotConnected, match="this transaction is over: call using"):
                    tx.push("q", 2)
            if type(connection).__module__.startswith("sqlalchemy"):
                insert(connection)
                with pytest.raises(NotConnected, match="this transaction is over"):
                    tx.topics.list()
            hr.using(connection).push("q", 3)
            commit()
        with pytest.raises(NotConnected, match="this transaction is over"):
            tx.push("q", 4)
        assert [item.payload for item in hr.queue("q").claim(5)] == ([1, 3] if is_kept else [3])


@pytest.mark.parametrize(("mine", "opened"), ASYNC, indirect=["mine"])
def test_the_same_refusal_in_async_code(mine: str, opened: Any) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(mine) as hr:
            async with opened(mine) as connection:
                tx = hr.using(connection)
                await tx.push("q", 1)
                await connection.commit()
                with pytest.raises(NotConnected, match="this transaction is over"):
                    await tx.push("q", 2)
                await hr.using(connection).push("q", 3)
                await connection.commit()
            with pytest.raises(NotConnected, match="this transaction is over"):
                await tx.push("q", 4)
            assert [item.payload for item in await hr.queue("q").claim(5)] == [1, 3]

    asyncio.run(scenario())


@pytest.mark.parametrize("mine", ["sqlite", "postgres"], indirect=True)
def test_a_session_kept_after_its_block_is_refused(mine: str) -> None:
    """Also before the first operation, and in a scoped session; savepoints are parts of it."""
    engine = sqlalchemy.create_engine(alchemy_url(mine, is_async=False))
    scoped = orm.scoped_session(orm.sessionmaker(engine))
    with headrace.connect(mine) as hr:
        with orm.Session(engine) as session, session.begin():
            unused = hr.using(session)
            tx = hr.using(session)
            with session.begin_nested():
                tx.push("q", 1)
            tx.push("q", 2)
        with scoped.begin():
            in_scope = hr.using(scoped)
            in_scope.push("q", 3)
        for over in (unused, tx, in_scope):
            with pytest.raises(NotConnected, match="this transaction is over"):
                over.push("q", 4)
        assert [item.payload for item in hr.queue("q").claim(5)] == [1, 2, 3]
    scoped.remove()
    engine.dispose()


def test_a_psycopg_block_that_is_over_refuses_operations(postgres_url: str) -> None:
    with headrace.connect(postgres_url) as hr:
        hr.queues.create("q")
        with psycopg.connect(bare(postgres_url), autocommit=True) as connection:
            with connection.transaction():
                tx = hr.using(connection)
                with connection.transaction():
                    tx.push("q", 1)
                tx.push("q", 2)
            with pytest.raises(NotConnected, match="this transaction is over"):
                tx.push("q", 3)
        assert hr.queue("q").stats().pending == 2


def test_a_connection_in_autocommit_is_refused(sqlite_url: str, postgres_url: str) -> None:
    """It has no transaction to join."""
    with headrace.connect(sqlite_url) as hr:
        connection = sqlite3.connect(sqlite_path(sqlite_url), isolation_level=None)
        with pytest.raises(InvalidOption, match=r"autocommit.*BEGIN IMMEDIATE"):
            hr.using(connection)
        connection.execute("begin")
        hr.using(connection).commit("t", {})
        connection.execute("commit")
        connection.close()
        assert hr.topic("t").length() == 1
    with (
        headrace.connect(postgres_url) as hr,
        psycopg.connect(bare(postgres_url), autocommit=True) as connection,
    ):
        with pytest.raises(InvalidOption, match="autocommit"):
            hr.using(connection)
        with connection.transaction():
            hr.using(connection).commit("t", {})
        assert hr.topic("t").length() == 1


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
    """On SQLite it would wait for its own thread."""
    with headrace.connect(sqlite_url) as hr:
        connection = sqlite3.connect(sqlite_path(sqlite_url))
        tx = hr.using(connection)
        tx.commit("t", {})
        with pytest.raises(StoreBusy, match="transaction open"):
            hr.commit("t", {})
        connection.commit()
        hr.commit("t", {})
        connection.close()
        assert hr.topic("t").length() == 2


def test_a_transaction_that_began_as_a_reader_is_refused(sqlite_url: str) -> None:
    """Its snapshot is old, so it cannot write. The message says how to begin."""
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


def test_long_transactions_do_not_block_others(postgres_url: str) -> None:
    """On PostgreSQL a record in an open transaction blocks no other commit."""
    with headrace.connect(postgres_url) as hr, psycopg.connect(bare(postgres_url)) as connection:
        hr.commit("t", {"n": 0})
        receipt = hr.using(connection).commit("t", {"n": 1})
        hr.using(connection).commit("new", {"n": 1})
        assert hr.commit("t", {"n": 2}).endswith("-1")
        assert hr.commit("new", {"n": 2}).endswith("-0")
        connection.commit()
        assert [record.body["n"] for record in hr.range("t")] == [0, 2, 1]
        assert hr.resolve(receipt) == [hr.range("t")[-1].id]


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


@pytest.mark.parametrize("mine", ["sqlite", "postgres"], indirect=True)
def test_an_engine_is_refused_with_a_remedy(mine: str) -> None:
    """An engine has no transaction to join."""
    engine = sqlalchemy.create_engine(alchemy_url(mine, is_async=False))
    with (
        headrace.connect(mine) as hr,
        pytest.raises(InvalidOption, match=r"with engine\.begin\(\) as connection"),
    ):
        hr.using(engine)
    engine.dispose()

    async def scenario() -> None:
        later = alchemy_async.create_async_engine(alchemy_url(mine, is_async=True))
        async with await headrace.aconnect(mine) as hr:
            with pytest.raises(InvalidOption, match=r"with engine\.begin\(\) as connection"):
                hr.using(later)
            with pytest.raises(InvalidOption, match="has not been started"):
                hr.using(later.connect())
        await later.dispose()

    asyncio.run(scenario())


def test_another_library_below_sqlalchemy_is_refused_with_a_remedy(postgres_url: str) -> None:
    """Its parameter style differs from ours."""

    async def scenario() -> None:
        # The library itself is not needed to recognise it.
        library = types.SimpleNamespace(paramstyle="numeric_dollar")
        engine = alchemy_async.create_async_engine("postgresql+asyncpg://h/db", module=library)
        async with await headrace.aconnect(postgres_url) as hr:
            with pytest.raises(InvalidOption, match=r"asyncpg.*postgresql\+psycopg://"):
                hr.using(alchemy_async.AsyncSession(engine))

    asyncio.run(scenario())


def test_a_session_on_another_kind_of_database_is_refused(
    sqlite_url: str, postgres_url: str
) -> None:
    for url, other, message in (
        (sqlite_url, postgres_url, r"psycopg.*sqlite://"),
        (postgres_url, sqlite_url, r"pysqlite.*postgresql\+psycopg://"),
    ):
        engine = sqlalchemy.create_engine(alchemy_url(other, is_async=False))
        with headrace.connect(url) as hr, orm.Session(engine) as session:
            with pytest.raises(InvalidOption, match=message):
                hr.using(session)
            with pytest.raises(InvalidOption, match="no engine"):
                hr.using(orm.Session())
        engine.dispose()


@pytest.fixture
def elsewhere(postgres: PrivatePostgres, postgres_url: str) -> Iterator[str]:
    """Another database of the same server, with tables of the same names."""
    postgres.execute("create database elsewhere")
    url = postgres_url.replace("/postgres?", "/elsewhere?")
    headrace.connect(url).close()
    yield url
    postgres.execute("drop database elsewhere with (force)")


def test_another_database_of_the_same_server_is_refused(postgres_url: str, elsewhere: str) -> None:
    """Records committed there would never be found here."""
    engine = sqlalchemy.create_engine(alchemy_url(elsewhere, is_async=False))
    with headrace.connect(postgres_url) as hr, headrace.connect(elsewhere) as there:
        with psycopg.connect(bare(elsewhere)) as connection:
            for _ in range(2):
                with pytest.raises(InvalidOption, match="another database"):
                    hr.using(connection).commit("t", {})
        with orm.Session(engine) as session:
            with pytest.raises(InvalidOption, match="another database"):
                hr.using(session).push("q", 1)
            there.using(session).commit("here", {})
            session.commit()
        assert [info.name for info in there.topics.list()] == ["here"]
    engine.dispose()

    async def scenario() -> None:
        async with (
            await headrace.aconnect(postgres_url) as hr,
            async_psycopg(elsewhere) as connection,
            async_session(elsewhere) as session,
        ):
            for candidate in (connection, session):
                with pytest.raises(InvalidOption, match="another database"):
                    await hr.using(candidate).commit("t", {})

    asyncio.run(scenario())


@pytest.fixture
def humble(postgres: PrivatePostgres, postgres_url: str) -> Iterator[str]:
    """A role that may not ask which server this is, as with some providers."""
    function = "function pg_catalog.pg_control_system()"
    postgres.execute("create role humble login")
    schema = postgres_url.rpartition("=")[2]
    for what in (
        f"schema {schema}",
        *(f"all {kind} in schema {schema}" for kind in ("tables", "sequences")),
    ):
        postgres.execute(f"grant all on {what} to humble")
    postgres.execute(f"revoke execute on {function} from public")
    yield "//humble@"
    postgres.execute(f"grant execute on {function} to public")
    postgres.execute("drop owned by humble cascade")
    postgres.execute("drop role humble")


@pytest.mark.parametrize("client", ["as humble", "with all rights"])
def test_a_role_that_may_not_know_the_server_can_use_its_own_transactions(
    postgres_url: str, elsewhere: str, humble: str, client: str
) -> None:
    """The question would abort the transaction. Another database is still refused."""
    theirs = postgres_url.replace("//headrace@", humble)
    away = elsewhere.replace("//headrace@", humble)
    with headrace.connect(theirs if client == "as humble" else postgres_url) as hr:
        for opened in (psycopg_plain, alchemy_session):
            with opened(theirs) as (connection, commit, _):
                hr.using(connection).commit("t", {})
                commit()
            with opened(away) as (connection, _, rollback):
                with pytest.raises(InvalidOption, match="another database"):
                    hr.using(connection).commit("t", {})
                rollback()
        assert hr.topic("t").length() == 2

    async def scenario() -> None:
        async with await headrace.aconnect(theirs) as hr:
            for opened in (async_psycopg, async_session):
                async with opened(theirs) as connection:
                    await hr.using(connection).commit("t", {})
                    await connection.commit()
                async with opened(away) as connection:
                    with pytest.raises(InvalidOption, match="another database"):
                        await hr.using(connection).commit("t", {})
            assert await hr.topic("t").length() == 4

    asyncio.run(scenario())


@contextmanager
def psycopg_plain(url: str) -> Iterator[Any]:
    with psycopg.connect(bare(url)) as connection:
        yield connection, connection.commit, connection.rollback


@pytest.mark.parametrize(("mine", "opened"), BLOCKING, indirect=["mine"])
def test_database_errors_in_your_transaction_are_our_errors(mine: str, opened: Any) -> None:
    """Through SQLAlchemy too, which wraps the library's errors in its own."""
    with headrace.connect(mine) as hr, opened(mine) as (connection, _, rollback):
        tx = hr.using(connection)
        name = f"{mine.rpartition('=')[2]}.topic" if "postgres" in mine else "headrace_topic"
        statement = f"alter table {name} rename to lost_topic"
        is_alchemy = type(connection).__module__.startswith("sqlalchemy")
        connection.execute(sqlalchemy.text(statement) if is_alchemy else statement)
        with pytest.raises(StoreError):
            tx.commit("t", {})
        rollback()


def test_a_connection_that_is_busy_or_closed_is_our_error(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        first = sqlite3.connect(sqlite_path(sqlite_url))
        hr.using(first).commit("t", {})
        second = sqlite3.connect(sqlite_path(sqlite_url), timeout=0)
        with pytest.raises(StoreBusy):
            hr.using(second)
        first.rollback()
        second.close()
        with pytest.raises(InvalidOption, match="closed"):
            hr.using(second)
        first.close()
