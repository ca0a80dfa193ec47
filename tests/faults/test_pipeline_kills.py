"""Runners of pipelines killed with -9: the output is complete, in order and without duplicates."""

import os
import random
import signal
import threading
import time
from typing import Any

import pytest

import headrace
from faults.children import pipeline
from faults.polling import until
from faults.processes import ChildProcesses
from headrace.pipelines import runner
from headrace.testing.postgres import PrivatePostgres

RECORDS = 60
KILLS = int(os.environ.get("HEADRACE_PIPELINE_KILLS", "5"))

pytestmark = pytest.mark.timeout(200 + 20 * KILLS)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of dead runners expire soon here, and waiters poll often."""
    monkeypatch.setattr(runner, "MAX_PAUSE_SECONDS", 0.1)


def fill(url: str, count: int = RECORDS) -> None:
    with headrace.connect(url) as hr:
        for first in range(0, count, 20):
            numbers = range(first, min(first + 20, count))
            hr.commit_many("in", [{"n": n} for n in numbers])


def check(hr: headrace.Headrace, count: int = RECORDS) -> None:
    """Nothing is lost or duplicated, and the order is right. Only the bad record is a dead
    letter."""
    assert [record.body["n"] for record in hr.range("out")] == [
        n for n in range(count) if n != pipeline.BAD
    ]
    letters = [record.body["body"]["n"] for record in hr.range("p-dead")]
    assert letters == [pipeline.BAD]
    assert hr.pipeline("p").lag().records == 0


@pytest.mark.parametrize(
    "point",
    [
        ("pipelines.definition", 0, 2),
        ("procs.ack_commit", 0, 1),
        ("procs.ack_commit", "commit", 2),
        ("procs.ack_commit", "committed", 2),
        ("procs.ack_part", 0, 1),
        ("procs.ack_part", "commit", 2),
        ("procs.ack_part", "committed", 1),
    ],
    ids=lambda point: "-".join(map(str, point)),
)
def test_killed_between_the_job_and_the_commit(
    durable_url: str, processes: ChildProcesses, point: tuple[str, int | str, int]
) -> None:
    fill(durable_url)
    processes.start("pipeline", url=durable_url, point=point).await_end(-signal.SIGKILL)
    with headrace.connect(durable_url) as hr:
        # The claim of the killed runner expires.
        pipeline.make(hr).run_once(engine="inline")
        check(hr)


def test_killed_at_any_moment(
    durable_url: str, processes: ChildProcesses, rng: random.Random
) -> None:
    """One after another, and two at a time. The last runner finishes the work."""
    count = 400 * KILLS
    fill(durable_url, count)
    hits = 0
    for _ in range(KILLS):
        children = [processes.start("pipeline", url=durable_url) for _ in range(2)]
        until(lambda some=children: all(child.lines() for child in some), "runners")
        time.sleep(rng.uniform(0, 0.3))
        for child in children:
            hits += child.process.poll() is None
            child.process.kill()
            child.process.wait()
    assert hits, "no kill hit a runner at work"
    with headrace.connect(durable_url) as hr:
        pipeline.make(hr).run_once(engine="inline")
        check(hr, count)


def test_a_database_that_is_restarted_is_waited_for(fragile: PrivatePostgres) -> None:
    count = 1000
    fill(fragile.url, count)
    with headrace.connect(fragile.url) as hr, headrace.connect(fragile.url) as other:
        made = pipeline.make(hr)
        done = threading.Thread(target=lambda: made.run_once(engine="inline"))
        done.start()
        until(lambda: other.topics.list(prefix="out"), "the first results")
        fragile.restart(immediately=True)
        done.join(120)
        assert not done.is_alive()
        check(other, count)


def test_a_driver_killed_between_the_spark_job_and_the_ack(
    sqlite_url: str, postgres_url: str, processes: ChildProcesses, spark: Any
) -> None:
    """Rows that the executors staged for a large claim are never published, and the claim is
    processed again."""
    numbers = list(range(100, 160))
    urls = [sqlite_url, postgres_url]
    for url in urls:
        with headrace.connect(url) as hr:
            hr.commit_many("in", [{"n": n} for n in numbers])
    point = ("sinks.ack_publish", 0)
    child = processes.start("spark_driver", urls=urls, count=100_000, large=20, point=point)
    child.await_end(-signal.SIGKILL, seconds=180)
    for url in urls:
        with headrace.connect(url) as hr:
            made = pipeline.make(hr)
            assert (made.lag().records, hr.topics.list(prefix="out")) == (len(numbers), [])
            assert made.run_once(spark=spark) == len(numbers)
            assert [record.body["n"] for record in hr.range("out")] == numbers
