"""A PostgreSQL server that is stopped, restarted, and told to drop its clients."""

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
from faults.crew import Crew
from faults.load import THREADS, Load, await_progress, drop_clients, load
from faults.proxy import Proxy
from faults.scene import opened
from faults.waiting import until
from headrace.errors import StoreUnavailable
from headrace.testing import faces
from headrace.testing.ledger import Ledger, body, check_claims, check_commits, read
from headrace.testing.postgres import PrivatePostgres

TOPICS = ["left", "right"]


async def commit_async(url: str, book: Ledger, is_over: Callable[[], bool]) -> None:
    """Three tasks of one loop commit until it is over."""
    async with await headrace.aconnect(url) as hr:

        async def run(name: str) -> None:
            for number in itertools.count():
                if is_over():
                    return
                call, topic = f"{name}-{number}", TOPICS[number % 2]
                book.intend(call, topics=[topic, topic])
                ids = await hr.commit_many(topic, [body(call, 0), body(call, 1)])
                book.outcome(call, ids=ids)

        await asyncio.gather(*(run(f"task{n}") for n in range(3)))


def test_clients_ride_out_a_server_that_keeps_going_away(
    fragile: PrivatePostgres, crew: Crew, tmp_path: Path, rng: random.Random
) -> None:
    """No caller notices crashes, restarts and dropped connections; nothing is lost or doubled."""
    faults = [
        lambda: fragile.restart(immediately=True),
        lambda: fragile.restart(immediately=False),
        lambda: drop_clients(fragile, rng),
        lambda: drop_clients(fragile, rng),
    ] * 3
    rng.shuffle(faults)
    with headrace.connect(fragile.url) as hr, load(tmp_path) as work:
        start_load(hr, fragile.url, crew, work)
        for fault in faults:
            await_progress(work, crew.children)
            fault()
        await_progress(work, crew.children)
        work.stop()
        assert work.complaints() == []
        for child in crew.children:
            child.kill()
        hr.commit_many(TOPICS[0], [body("last", 0)])
        check_all(hr, work, crew)


def start_load(hr: headrace.Headrace, url: str, crew: Crew, work: Load) -> None:
    for n in range(THREADS):
        name = f"thread{n}"
        work.start(name, lambda book, n=name: committer.run(hr, book, n, TOPICS, work.is_over))
    for name in ("one", "two"):
        # One worker each, whose claim is safe from others: it alone decides the order.
        proc = worker.make(hr, name, "source", timeout=600)
        work.start(
            name, lambda book, p=proc: worker.run(p, book, p.name, "ack_commit", work.is_over)
        )
    work.start("tasks", lambda book: asyncio.run(commit_async(url, book, work.is_over)))
    for _ in range(2):
        crew.start("committer", url=url, topics=TOPICS)


def check_all(hr: headrace.Headrace, work: Load, crew: Crew) -> None:
    procs = {name: read([work.ledgers.pop(name)]) for name in ("one", "two")}
    commits = [*read(work.ledgers.values()), *crew.entries()]
    found = {topic: hr.range(topic) for topic in TOPICS}
    found["left"] = [record for record in found["left"] if record.body["call"] != "last"]
    check_commits(commits, found)
    unanswered = [entry.name for entry in commits if entry.outcome is None]
    assert all(name.startswith("committer") for name in unanswered)
    for name, entries in procs.items():
        position = hr.proc(name).inspect().position
        check_claims(entries, position)
        worker.check_passed_on(hr.range(worker.target(name)), position, entries)


def test_connection_that_ends_inside_a_pipeline_is_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What psycopg raises then, about the pipeline and no longer about the end, is understood."""
    pipeline = psycopg.Connection.pipeline
    ends = [1]

    @contextmanager
    def ending(self: psycopg.Connection) -> Iterator[psycopg.Pipeline]:
        with pipeline(self) as open_pipeline:
            yield open_pipeline
        if ends:
            # As psycopg does when the server's last words are in and the end is not.
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
    """A crash that undoes a relaxed COMMIT, and gives its number away, is seen through."""
    with headrace.connect(fragile.url) as direct, Proxy(fragile.port) as proxy:
        direct.commit("numbers", {"n": 0})
        with (
            headrace.connect(proxy.url(fragile.url), durability="relaxed") as hr,
            ThreadPoolExecutor(1) as threads,
        ):
            hr.topics()
            proxy.plan("after", stays_cut=True)
            answer = threads.submit(hr.commit, "numbers", {"n": 1})
            until(lambda: proxy.cuts, "the COMMIT")
            fragile.restart(immediately=True)
            assert direct.length("numbers") == 1, "the crash did not undo the COMMIT"
            if is_number_reused:
                for n in range(20):
                    direct.commit("others", {"n": n})
            proxy.is_open = True
            id = answer.result(60)
        assert [record.id for record in direct.range("numbers", ":1")] == [id]


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_server_that_stays_away_is_reported_and_found_again(
    fragile: PrivatePostgres, face: faces.FaceName
) -> None:
    """After ``patience`` the caller is told; the same client works when the server is back."""
    with opened(face, fragile.url, patience=0.3) as hr:
        first = hr.commit("numbers", {"n": 0})
        fragile.stop()
        for call in (lambda: hr.commit("numbers", {"n": 1}), lambda: hr.range("numbers")):
            with pytest.raises(StoreUnavailable) as caught:
                call()
            assert caught.value.retryable
            assert hr.status() == -1
        fragile.start()
        second = hr.commit("numbers", {"n": 2})
        assert hr.status() == 1
        assert [record.id for record in hr.range("numbers")] == [first, second]
