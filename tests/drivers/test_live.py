"""Live procs as loops, and wake-ups that really wake."""

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
from headrace.client import live as live_module
from headrace.testing.postgres import PrivatePostgres
from headrace.waking import bell

COMMIT = "import sys, headrace; headrace.connect(sys.argv[1]).commit('t', {'from': 'afar'})"


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits does not look by itself: a record that arrives was announced."""
    for wait in ("POLL", "SURE_POLL"):
        monkeypatch.setattr(bell, wait, 3600.0)


@pytest.fixture
def hr(store_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(store_url) as client:
        yield client


def test_a_record_is_acked_when_the_next_is_asked_for(hr: headrace.Headrace) -> None:
    hr.commit_many("t", [{"n": n} for n in range(3)])
    with hr.live("t") as live:
        records = iter(live)
        assert next(records).body == {"n": 0}
        assert live.inspect().last_acked_range == ""
        first = live.inspect().claimed
        assert next(records).body == {"n": 1}
        assert live.inspect().last_acked_range == first
        assert live.ack_commit([("out", {"own": True})]).range
        assert next(records).body == {"n": 2}
    assert hr.length("out") == 1


def test_who_leaves_the_loop_gets_the_record_again(hr: headrace.Headrace) -> None:
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
    """It is extended behind the reader's back."""
    monkeypatch.setattr(live_module, "BEAT", 0.01)
    hr.commit("t", {})
    with hr.live("t") as live:
        records = iter(live)
        next(records)
        before = live.inspect().claimed_until
        for _ in range(1000):
            if live.inspect().claimed_until > before:
                break
            time.sleep(0.005)
        assert live.inspect().claimed_until > before


@pytest.mark.usefixtures("only_hints")
def test_a_commit_of_this_process_wakes_at_once(hr: headrace.Headrace) -> None:
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
        hr.proc("p", topic="in").claim().ack_commit([("t", {"n": 2})])
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
    """On PostgreSQL the notification rides on COMMIT."""
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


def test_polling_alone_is_good_enough(durable_url: str) -> None:
    """Every hint is switched off, on both sides."""
    with headrace.connect(durable_url) as hr, headrace.connect(durable_url) as other:
        hr._store.wakes.is_hinting = other._store.wakes.is_hinting = False
        with hr.live("t", mode="live") as live:
            arrived = threading.Semaphore(0)
            live.changes(lambda claim: arrived.release())
            for n in range(3):
                other.commit("t", {"n": n})
                assert arrived.acquire(timeout=20)


def test_a_listener_that_is_cut_off_does_not_make_it_deaf(
    postgres: PrivatePostgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks by itself until it listens again."""
    monkeypatch.setattr(bell, "RETRY", 0.0)
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


def test_nobody_waits_nobody_is_notified(postgres: PrivatePostgres, postgres_url: str) -> None:
    """A NOTIFY makes all committing transactions queue up, so it is sent only to somebody."""
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
