"""Live procs as loops, and notifications that wake them."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import headrace
from headrace.client import live_failures
from headrace.drivers import notifier
from headrace.testing.postgres import PrivatePostgres

COMMIT = "import sys, headrace; headrace.connect(sys.argv[1]).commit('t', {'from': 'afar'})"


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off polling: a record that arrives was notified."""
    for wait in ("POLL", "SURE_POLL"):
        monkeypatch.setattr(notifier, wait, 3600.0)


@pytest.fixture
def hr(store_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(store_url) as client:
        yield client


def test_a_record_is_acked_when_the_next_is_requested(hr: headrace.Headrace) -> None:
    hr.commit_many("t", [{"n": n} for n in range(3)])
    with hr.live("t") as live:
        records = iter(live)
        assert next(records).body == {"n": 0}
        assert live.info().last_acked_range == ""
        first = live.info().claimed
        assert next(records).body == {"n": 1}
        assert live.info().last_acked_range == first
        assert live.ack_commit([("out", {"own": True})]).range
        assert next(records).body == {"n": 2}
    assert hr.topic("out").length() == 1


def test_leaving_the_loop_returns_the_record(hr: headrace.Headrace) -> None:
    hr.commit_many("t", [{"n": n} for n in range(3)])
    live = hr.live("t")
    for record in live:
        if record.seq == 1:
            break
    assert [next(iter(live)).seq for _ in range(2)] == [1, 1]
    live.close()


def test_a_slow_reader_keeps_its_claim(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client extends it in the background."""
    monkeypatch.setattr(live_failures, "LEASE_MS", 30)
    hr.commit("t", {})
    with hr.live("t") as live:
        records = iter(live)
        next(records)
        before = live.info().claimed_until
        for _ in range(1000):
            if live.info().claimed_until > before:
                break
            time.sleep(0.005)
        assert live.info().claimed_until > before


def test_slow_maintenance_delays_no_heartbeat(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_failures, "LEASE_MS", 30)
    monkeypatch.setattr(live_failures, "MAINTENANCE_SECONDS", 0.01)
    is_maintaining, may_end = threading.Event(), threading.Event()

    def maintain() -> None:
        is_maintaining.set()
        may_end.wait(20)

    monkeypatch.setattr(hr.admin, "maintain", maintain)
    hr.commit("t", {})
    with hr.live("t") as live:
        next(iter(live))
        assert is_maintaining.wait(20)
        before = live.info().claimed_until
        for _ in range(1000):
            if live.info().claimed_until > before:
                break
            time.sleep(0.005)
        assert live.info().claimed_until > before
        may_end.set()


@pytest.mark.usefixtures("only_hints")
def test_a_commit_of_this_process_wakes_immediately(hr: headrace.Headrace) -> None:
    """Plain, in a transaction, and by ack_commit."""
    hr.commit("in", {})
    found: list[Any] = []
    arrived = threading.Semaphore(0)

    def heard(claim: headrace.Claim) -> None:
        found.extend(claim)
        arrived.release()

    with hr.live("t", mode="live") as live:
        live.changes(heard)
        hr.commit("t", {"n": 0})
        assert arrived.acquire(timeout=20)
        with hr.transaction() as tx:
            tx.commit("t", {"n": 1})
        assert arrived.acquire(timeout=20)
        hr.procs.create("p", "in").claim().ack_commit([("t", {"n": 2})])
        assert arrived.acquire(timeout=20)
    assert [record.body["n"] for record in found] == [0, 1, 2]


@pytest.mark.usefixtures("only_hints")
def test_a_commit_of_another_process_wakes(durable_url: str) -> None:
    with headrace.connect(durable_url) as hr, hr.live("t", mode="live") as live:
        arrived = threading.Event()
        live.changes(lambda claim: arrived.set())
        subprocess.run([sys.executable, "-c", COMMIT, durable_url], check=True)
        assert arrived.wait(20)


@pytest.mark.usefixtures("only_hints")
def test_a_commit_of_another_process_wakes_a_task(durable_url: str) -> None:
    async def scenario() -> Any:
        async with await headrace.aconnect(durable_url) as hr, hr.live("t", mode="live") as live:
            records = live.__aiter__()
            first = asyncio.ensure_future(anext(records))
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", COMMIT, durable_url
            )
            await process.wait()
            record = await asyncio.wait_for(first, 20)
            await records.aclose()
            return record.body

    assert asyncio.run(scenario()) == {"from": "afar"}


@pytest.mark.usefixtures("only_hints")
def test_a_users_own_transaction_wakes_at_its_commit(postgres_url: str) -> None:
    """On PostgreSQL the notification is part of COMMIT."""
    with (
        headrace.connect(postgres_url) as hr,
        hr.live("t", mode="live") as live,
        psycopg.connect(postgres_url.partition("?")[0]) as connection,
    ):
        arrived = threading.Event()
        live.changes(lambda claim: arrived.set())
        hr.using(connection).commit("t", {})
        assert not arrived.wait(0.2)
        connection.commit()
        assert arrived.wait(20)


def test_polling_is_enough(durable_url: str) -> None:
    """All notifications are switched off, on both sides."""
    with headrace.connect(durable_url) as hr, headrace.connect(durable_url) as other:
        hr._store.notifier.is_hinting = other._store.notifier.is_hinting = False
        with hr.live("t", mode="live") as live:
            arrived = threading.Semaphore(0)
            live.changes(lambda claim: arrived.release())
            for n in range(3):
                other.commit("t", {"n": n})
                assert arrived.acquire(timeout=20)


def test_a_broken_listener_falls_back_to_polling(
    postgres: PrivatePostgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it listens again."""
    monkeypatch.setattr(notifier, "RETRY", 0.0)
    with headrace.connect(postgres_url) as hr, hr.live("t", mode="live") as live:
        arrived = threading.Semaphore(0)
        live.changes(lambda claim: arrived.release())
        for n in range(3):
            hr.commit("t", {"n": n})
            assert arrived.acquire(timeout=20)
            postgres.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where query ilike 'listen%' or query ilike '%waiter%' and pid <> pg_backend_pid()"
            )


def test_without_waiters_nothing_is_notified(postgres: PrivatePostgres, postgres_url: str) -> None:
    """A NOTIFY serialises all committing transactions, so it is sent only if there is a waiter."""
    schema = postgres_url.rpartition("=")[2]
    with headrace.connect(postgres_url) as hr:
        listener = psycopg.connect(postgres.url, autocommit=True)
        listener.execute(f"listen headrace_{schema}".encode())
        hr.commit("t", {})
        assert list(listener.notifies(timeout=0.1)) == []
        with hr.live("t") as live:
            records = iter(live)
            next(records)
            hr.commit("t", {})
            assert [n.payload for n in listener.notifies(timeout=5, stop_after=1)] == ["t"]
        hr.commit("t", {})
        hr.commit("t", {})
        assert len(list(listener.notifies(timeout=0.1))) <= 1
        listener.close()


ODD = [headrace.errors.StoreUnavailable("away"), RuntimeError("odd"), OSError("socket")]


def test_callbacks_survive_a_failing_store(
    hr: headrace.Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    """No error of the store ends the callbacks. Without on_error it is logged."""
    hr.commit_many("t", [{"n": n} for n in range(2)])
    with hr.live("t") as live:
        claim_now, errors = live._proc._claim_now, list(ODD)

        def failing(*call: Any) -> Any:
            if errors:
                raise errors.pop(0)
            return claim_now(*call)

        live._proc._claim_now = failing
        arrived = threading.Semaphore(0)
        live.changes(lambda claim: arrived.release())
        for _ in range(2):
            assert arrived.acquire(timeout=20)
        assert live.failures == 3
    assert len([record for record in caplog.records if record.name == "headrace"]) == 3


def test_async_callbacks_survive_a_failing_store(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(store_url) as hr:
            await hr.commit_many("t", [{"n": n} for n in range(2)])
            async with hr.live("t") as live:
                claim_now, errors = live._proc._claim_now, list(ODD)

                async def failing(*call: Any) -> Any:
                    if errors:
                        raise errors.pop(0)
                    return await claim_now(*call)

                live._proc._claim_now = failing
                arrived = asyncio.Semaphore(0)
                await live.changes(lambda claim: arrived.release())
                async with asyncio.timeout(20):
                    for _ in range(2):
                        await arrived.acquire()
                assert live.failures == 3

    asyncio.run(scenario())
    assert len([record for record in caplog.records if record.name == "headrace"]) == 3


def test_a_failed_ack_releases_the_claim(store_url: str) -> None:
    """Immediately, not at the end of the lease: leaving the loop closes its claims."""

    async def scenario() -> list[int]:
        seen: list[int] = []
        async with await headrace.aconnect(store_url) as hr:
            await hr.commit("t", {})
            async with hr.live("t") as live:
                twice = asyncio.Event()

                def callback(claim: headrace.aio.Claim) -> None:
                    seen.append(claim[0].seq)
                    if len(seen) == 1:

                        async def ack() -> str:
                            raise headrace.errors.StoreUnavailable("away")

                        claim.ack = ack
                    else:
                        twice.set()

                await live.changes(callback)
                async with asyncio.timeout(8):
                    await twice.wait()
        return seen

    assert asyncio.run(scenario()) == [0, 0]


def test_a_live_proc_whose_client_is_closed_ends(hr: headrace.Headrace) -> None:
    live = hr.live("t", mode="live")
    live.changes(print)
    hr.close()
    assert live._background is not None
    live._waiter and live._waiter.wake()
    live._background._thread.join(20)
    assert not live._background._thread.is_alive()
