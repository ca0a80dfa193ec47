"""Through a real PgBouncer in transaction mode, which gives server sessions to one client after
another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm

import headrace
from faults.polling import until
from headrace.errors import StoreError, UnsupportedStore
from headrace.testing.pgbouncer import PrivatePgBouncer
from headrace.testing.postgres import PrivatePostgres
from headrace.worker import start_worker

# Often enough that every statement would have been prepared.
MANY = 12


@pytest.fixture(scope="module")
def pooler(postgres: PrivatePostgres) -> Iterator[PrivatePgBouncer]:
    with PrivatePgBouncer(postgres, sessions=2) as pooler:
        yield pooler


@pytest.fixture
def pooled_url(postgres: PrivatePostgres, pooler: PrivatePgBouncer, postgres_url: str) -> str:
    return postgres_url.replace(postgres.url, pooler.url)


class Sessions:
    """The two server sessions of the pooler. A test decides which of them is free."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._holders = [
            stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=None))
            for _ in range(2)
        ]
        for holder in self._holders:
            holder.execute("begin")
        self.pids = [self._pid(holder) for holder in self._holders]
        for holder in self._holders:
            # Left there by another test.
            holder.execute("deallocate all")
            holder.execute("rollback")

    @contextmanager
    def only(self, free: int) -> Iterator[None]:
        """No client gets another session in this block."""
        wanted = self.pids[1 - free]
        first, second = self._holders
        first.execute("begin")
        if self._pid(first) == wanted:
            holder = first
        else:
            second.execute("begin")
            assert self._pid(second) == wanted
            first.execute("rollback")
            holder = second
        try:
            yield
        finally:
            holder.execute("rollback")

    def prepared(self) -> list[str]:
        """The names of all prepared statements in both sessions."""
        names = []
        for holder in self._holders:
            holder.execute("begin")
        for holder in self._holders:
            rows = holder.execute("select name from pg_prepared_statements").fetchall()
            names += [name for (name,) in rows]
            holder.execute("rollback")
        return names

    def _pid(self, connection: psycopg.Connection) -> int:
        [pid] = connection.execute("select pg_backend_pid()").fetchone() or [0]
        return int(pid)


@pytest.fixture
def sessions(pooler: PrivatePgBouncer) -> Iterator[Sessions]:
    with ExitStack() as stack:
        yield Sessions(pooler.url, stack)


class Undone(Exception):
    """Rolls a transaction back."""


def test_a_commit_never_runs_another_clients_rollback(
    pooled_url: str, postgres_url: str, sessions: Sessions
) -> None:
    """A transaction that has returned is stored, whichever session each part used.

    One client only commits on the first session, the other only rolls back on the second. Then the
    first client meets the second session.
    """
    with headrace.connect(postgres_url) as direct:
        direct.queues.create("q")
        with headrace.connect(pooled_url) as one, headrace.connect(pooled_url) as other:
            for n in range(MANY):
                with sessions.only(0), one.transaction() as tx:
                    tx.push("q", {"n": n})
                with sessions.only(1), suppress(Undone), other.transaction() as tx:
                    tx.push("q", {"n": "undone"})
                    raise Undone
            for n in range(MANY, 2 * MANY):
                with sessions.only(n % 2), one.transaction() as tx:
                    tx.push("q", {"n": n})
        assert pushed(direct) == list(range(2 * MANY))


def test_the_same_from_async_code(pooled_url: str, postgres_url: str, sessions: Sessions) -> None:
    async def scenario() -> None:
        async with (
            await headrace.aconnect(pooled_url) as one,
            await headrace.aconnect(pooled_url) as other,
        ):
            for n in range(MANY):
                with sessions.only(0):
                    async with one.transaction() as tx:
                        await tx.push("q", {"n": n})
                with sessions.only(1), suppress(Undone):
                    async with other.transaction() as tx:
                        await tx.push("q", {"n": "undone"})
                        raise Undone
            for n in range(MANY, 2 * MANY):
                with sessions.only(n % 2):
                    async with one.transaction() as tx:
                        await tx.push("q", {"n": n})

    with headrace.connect(postgres_url) as direct:
        direct.queues.create("q")
        asyncio.run(scenario())
        assert pushed(direct) == list(range(2 * MANY))


def test_a_pooler_that_appears_later_is_survived(
    pooled_url: str, postgres_url: str, sessions: Sessions
) -> None:
    """A client that believes in a direct connection prepares statements. A session that knows none
    of them, or already knows them, fails one transaction with an honest error. From then on the
    client prepares nothing."""
    kept = []
    with headrace.connect(postgres_url) as direct, headrace.connect(pooled_url) as hr:
        direct.queues.create("q")
        hr._store.connections._prepares = True
        for n in range(3 * MANY):
            # All are prepared in the first session before the client meets the second.
            free = 0 if n < 2 * MANY else 1
            with suppress(StoreError), sessions.only(free):
                with hr.transaction() as tx:
                    tx.push("q", {"n": n})
                kept.append(n)
        assert hr._store.connections._prepares is False
        assert len(kept) >= 3 * MANY - 2
        assert pushed(direct) == kept


def test_nothing_stays_in_a_session(pooled_url: str, sessions: Sessions) -> None:
    """Operations of one statement and of several, blocking and async, prepare nothing."""

    async def scenario() -> None:
        async with await headrace.aconnect(pooled_url) as hr:
            queue = hr.queue("r")
            for n in range(MANY):
                await queue.push({"n": n})
                for item in await queue.claim():
                    await item.complete()
                await hr.commit([("t", {"n": n}), ("u", {"n": n})])

    with headrace.connect(pooled_url) as hr:
        queue = hr.queue("q")
        proc = hr.procs.create("p", "t")
        for n in range(MANY):
            queue.push({"n": n})
            queue.push({"n": n}, subject=str(n), key=f"key{n}")
            for item in queue.claim(2):
                item.complete()
            hr.commit("t", {"n": n})
            proc.claim().ack_commit([("u", {"n": n})])
            with hr.lock({"l": 1}), hr.transaction() as tx:
                tx.commit("u", {"n": n})
        assert hr.topic("u").length() == 2 * MANY
    asyncio.run(scenario())
    assert sessions.prepared() == []


@contextmanager
def psycopg_connection(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def alchemy_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


@pytest.mark.parametrize("opened", [psycopg_connection, alchemy_session])
def test_your_own_transaction_through_the_pooler(
    pooled_url: str, postgres_url: str, sessions: Sessions, opened: Any
) -> None:
    """On a connection with psycopg's own settings none of our statements is prepared."""
    plain = pooled_url.partition("?")[0]
    with headrace.connect(postgres_url) as direct, headrace.connect(pooled_url) as hr:
        direct.queues.create("q")
        with opened(plain) as one, opened(plain) as other:
            for n in range(MANY):
                with sessions.only(0):
                    hr.using(one).push("q", {"n": n})
                    one.commit()
                with sessions.only(1):
                    hr.using(other).push("q", {"n": "undone"})
                    other.rollback()
            for n in range(MANY, 2 * MANY):
                with sessions.only(n % 2):
                    hr.using(one).push("q", {"n": n})
                    one.commit()
        assert pushed(direct) == list(range(2 * MANY))
    assert sessions.prepared() == []


def test_on_a_direct_connection_of_yours_statements_are_prepared(postgres_url: str) -> None:
    with (
        headrace.connect(postgres_url) as hr,
        psycopg.connect(postgres_url.partition("?")[0]) as mine,
    ):
        hr.queues.create("q")
        for n in range(MANY):
            hr.using(mine).push("q", {"n": n})
            mine.commit()
        assert mine.execute("select name from pg_prepared_statements").fetchall()


def test_a_waiting_claim_polls(
    postgres: PrivatePostgres, pooled_url: str, postgres_url: str
) -> None:
    """LISTEN hears nothing behind the pooler, or another client does."""
    found: list[Any] = []
    with headrace.connect(pooled_url) as hr, headrace.connect(postgres_url) as direct:
        queue = hr.queue("q")
        thread = threading.Thread(target=lambda: found.extend(queue.claim(wait=20)))
        thread.start()
        waiters = f"select id from {postgres_url.rpartition('=')[2]}.waiter"
        until(lambda: postgres.execute(waiters), "the claim to wait")
        direct.push("q", {"n": 1})
        thread.join(20)
    assert [item.payload["n"] for item in found] == [1]


def test_a_worker_through_the_pooler(pooled_url: str, postgres_url: str) -> None:
    with headrace.connect(postgres_url) as direct:
        direct.queues.create("q")
        direct.push_many("q", [{"n": n} for n in range(MANY)])
        with headrace.connect(pooled_url) as hr:
            worker = start_worker(hr, "q", lambda item: None)
            until(lambda: direct.queue("q").stats().processed == MANY, "all items done")
            worker.stop()


def test_listen_is_not_used_behind_a_pooler(
    pooler: PrivatePgBouncer, pooled_url: str, sessions: Sessions
) -> None:
    """A session with a LISTEN delivers its notifications to any client that gets it next."""
    with psycopg.connect(pooler.url, autocommit=True, prepare_threshold=None) as other:
        with sessions.only(0):
            other.execute("LISTEN elsewhere")
        with headrace.connect(pooled_url) as hr:
            queue = hr.queue("q")
            for n in range(MANY):
                with sessions.only(0):
                    other.execute("select pg_notify('elsewhere', %s)", (str(n),))
                with sessions.only(0):
                    queue.push({"n": n})
            [connection] = hr._store.connections.pool._idle
            kept = 0
            while connection.pgconn.notifies() is not None:
                kept += 1
            assert kept <= 1
        with sessions.only(0):
            other.execute("UNLISTEN *")


def test_a_pooler_without_transactions_is_refused(postgres: PrivatePostgres) -> None:
    with (
        PrivatePgBouncer(postgres, mode="statement") as pooler,
        pytest.raises(UnsupportedStore, match="pool_mode"),
    ):
        headrace.connect(pooler.url)


@pytest.mark.parametrize("auth", ["scram-sha-256", "md5", "plain"])
def test_a_wrong_password_is_refused_by_the_pooler(postgres: PrivatePostgres, auth: str) -> None:
    """The client does not retry, since that would not help."""
    with PrivatePgBouncer(postgres, auth=auth, password="right") as pooler:
        for login in ("headrace:wrong@", "headrace@", "nobody:right@"):
            with pytest.raises(StoreError, match="refused the login") as refused:
                headrace.connect(pooler.url.replace("headrace:right@", login), patience=30)
            assert not refused.value.retryable


def test_a_pooler_in_session_mode(postgres: PrivatePostgres, postgres_url: str) -> None:
    """It behaves like a server: NOTIFY arrives."""
    with PrivatePgBouncer(postgres, sessions=20, mode="session") as pooler:
        url = postgres_url.replace(postgres.url, pooler.url)
        with headrace.connect(url) as hr, headrace.connect(postgres_url) as direct:
            queue = hr.queue("q")
            with closing(hr._store.waiter("queue/q")) as waiter:
                waiter.wait(0.0)
                direct.push("q", {"n": 1})
                until(lambda: waiter.wait(1.0), "the word")
            assert [item.payload["n"] for item in queue.claim()] == [1]


def pushed(direct: headrace.Headrace) -> list[Any]:
    return [item.payload["n"] for item in direct.queue("q").claim(1000)]
