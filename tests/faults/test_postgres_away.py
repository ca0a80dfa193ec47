"""A PostgreSQL server that is stopped and restarted, and that drops its clients."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import headrace
from faults.children import committer, worker
from faults.crash_case import opened
from faults.load import THREADS, Load, await_progress, drop_clients, load
from faults.polling import until
from faults.processes import ChildProcesses
from faults.proxy import Proxy
from headrace.errors import StoreUnavailable
from headrace.testing import sync_facade
from headrace.testing.audit_log import AuditLog, body, check_claims, check_commits, read
from headrace.testing.postgres import PrivatePostgres

TOPICS = ["left", "right"]


async def commit_async(url: str, log: AuditLog, is_over: Callable[[], bool]) -> None:
    """Three tasks of one loop commit until it is over."""
    async with await headrace.aconnect(url) as hr:

        async def run(name: str) -> None:
            for number in itertools.count():
                if is_over():
                    return
                call, topic = f"{name}-{number}", TOPICS[number % 2]
                log.intend(call, topics=[topic, topic])
                ids = await hr.commit_many(topic, [body(call, 0), body(call, 1)])
                log.outcome(call, ids=ids)

        await asyncio.gather(*(run(f"task{n}") for n in range(3)))


def test_clients_survive_a_server_that_keeps_going_away(
    fragile: PrivatePostgres, processes: ChildProcesses, tmp_path: Path, rng: random.Random
) -> None:
    """No caller notices crashes, restarts and dropped connections. Nothing is lost or
    duplicated."""
    faults = [
        lambda: fragile.restart(immediately=True),
        lambda: fragile.restart(immediately=False),
        lambda: drop_clients(fragile, rng),
        lambda: drop_clients(fragile, rng),
    ] * 3
    rng.shuffle(faults)
    with headrace.connect(fragile.url) as hr, load(tmp_path) as work:
        start_load(hr, fragile.url, processes, work)
        for fault in faults:
            await_progress(work, processes.children)
            fault()
        await_progress(work, processes.children)
        work.stop()
        assert work.complaints() == []
        for child in processes.children:
            child.kill()
        hr.commit_many(TOPICS[0], [body("last", 0)])
        check_all(hr, work, processes)


def start_load(hr: headrace.Headrace, url: str, processes: ChildProcesses, work: Load) -> None:
    for n in range(THREADS):
        name = f"thread{n}"
        work.start(name, lambda log, n=name: committer.run(hr, log, n, TOPICS, work.is_over))
    for name in ("one", "two"):
        # One worker each, whose claim no other can take over: it alone decides the order.
        proc = worker.make(hr, name, "source", timeout=600)
        work.start(name, lambda log, p=proc: worker.run(p, log, p.name, "ack_commit", work.is_over))
    work.start("tasks", lambda log: asyncio.run(commit_async(url, log, work.is_over)))
    for _ in range(2):
        processes.start("committer", url=url, topics=TOPICS)


def check_all(hr: headrace.Headrace, work: Load, processes: ChildProcesses) -> None:
    procs = {name: read([work.log_paths.pop(name)]) for name in ("one", "two")}
    commits = [*read(work.log_paths.values()), *processes.entries()]
    found = {topic: hr.range(topic) for topic in TOPICS}
    found["left"] = [record for record in found["left"] if record.body["call"] != "last"]
    check_commits(commits, found)
    unanswered = [entry.name for entry in commits if entry.outcome is None]
    assert all(name.startswith("committer") for name in unanswered)
    for name, entries in procs.items():
        position = hr.proc(name).info().position
        check_claims(entries, position)
        worker.check_passed_on(hr.range(worker.target(name)), position, entries)


def test_connection_that_ends_inside_a_pipeline_is_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg then raises an error about the pipeline and not about the connection. It is
    recognised."""
    pipeline = psycopg.Connection.pipeline
    ends = [1]

    @contextmanager
    def ending(self: psycopg.Connection) -> Iterator[psycopg.Pipeline]:
        with pipeline(self) as open_pipeline:
            yield open_pipeline
        if ends:
            # As psycopg does when it has read the server's last message and not the end of the connection.
            ends.pop()
            try:
                raise psycopg.errors.AdminShutdown("terminating connection")
            finally:
                raise psycopg.OperationalError("cannot exit pipeline mode while busy")

    monkeypatch.setattr(psycopg.Connection, "pipeline", ending)
    with headrace.connect(postgres_url) as hr:
        # To two topics: a transaction of several statements.
        [id, _] = hr.commit([("numbers", {"n": 0}), ("others", {"n": 0})])
        assert ends == []
        assert [record.id for record in hr.range("numbers")] == [id]


@pytest.mark.parametrize("is_number_reused", [True, False])
def test_commit_lost_in_a_crash_is_not_mistaken_for_anothers(
    fragile: PrivatePostgres, is_number_reused: bool
) -> None:
    """A crash undoes a relaxed COMMIT and frees its transaction id. The client notices."""
    with headrace.connect(fragile.url) as direct, Proxy(fragile.port) as proxy:
        direct.commit("numbers", {"n": 0})
        with (
            headrace.connect(proxy.url(fragile.url), durability="relaxed") as hr,
            ThreadPoolExecutor(1) as threads,
        ):
            hr.topics.list()
            proxy.plan("after", stays_cut=True)
            answer = threads.submit(hr.commit, "numbers", {"n": 1})
            until(lambda: proxy.cuts, "the COMMIT")
            fragile.restart(immediately=True)
            assert direct.topic("numbers").length() == 1, "the crash did not undo the COMMIT"
            if is_number_reused:
                for n in range(20):
                    direct.commit("others", {"n": n})
            proxy.is_open = True
            id = answer.result(60)
        assert [record.id for record in direct.range("numbers", ":1")] == [id]


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_server_that_stays_away_is_reported_and_found_again(
    fragile: PrivatePostgres, mode: sync_facade.ClientMode
) -> None:
    """After ``patience`` the caller gets an error. The same client works when the server is
    back."""
    with opened(mode, fragile.url, patience=0.3) as hr:
        first = hr.commit("numbers", {"n": 0})
        fragile.stop()
        for call in (lambda: hr.commit("numbers", {"n": 1}), lambda: hr.range("numbers")):
            with pytest.raises(StoreUnavailable) as caught:
                call()
            assert caught.value.retryable
            assert hr.status == -1
        fragile.start()
        second = hr.commit("numbers", {"n": 2})
        assert hr.status == 1
        assert [record.id for record in hr.range("numbers")] == [first, second]
