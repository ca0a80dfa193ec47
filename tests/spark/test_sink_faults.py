"""Streams whose driver, tasks or database are killed: each record is written once."""

import random

import pytest

import headrace
from headrace.testing.postgres import PrivatePostgres
from spark.faulty import KILLS, run_through


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("store", "faults"),
    [
        ("sqlite", {0: "killed after the commit", 1: "a task fails"}),
        ("postgres", {0: "a task fails", 1: "killed before the commit"}),
    ],
)
def test_each_record_is_written_once_whatever_is_killed(request, tmp_path, store, faults):
    """The driver before and after its commit, a task half-way; more by ``make test-faults``."""
    url = request.getfixturevalue(f"{store}_url")
    assert run_through(url, tmp_path, faults, count=1000, batch=400) == 1


def test_a_database_that_restarts_is_waited_for(spark, tmp_path):
    """Neither the stream nor a record of it is lost, and none is there twice."""
    with PrivatePostgres() as server:
        url = f"{server.url}?schema=restarted"
        with headrace.connect(url) as hr:
            hr.commit_many("in", [{"n": n} for n in range(400)])
            query = (
                spark.readStream.format("headrace")
                .options(url=url, topic="in", proc="reader", max_records_per_batch=100)
                .load()
                .writeStream.format("headrace")
                .options(url=url, topic="out", sink="s")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .start()
            )
            try:
                for round in range(2):
                    server.restart(immediately=True)
                    hr.commit_many("in", [{"n": 400 + round * 100 + n} for n in range(100)])
                query.processAllAvailable()
            finally:
                query.stop()
            assert sorted(record.body["n"] for record in hr.iterate("out")) == list(range(600))


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_seeded_kills(durable_url, tmp_path, seed):
    """Four kills of each seed on each store, 32 in all, wherever the seed has them."""
    chosen = random.Random(seed)
    batches = sorted(chosen.sample(range(12), 4))
    faults = {batch: chosen.choice(KILLS) for batch in batches}
    size = chosen.choice([50, 400])
    assert run_through(durable_url, tmp_path, faults, count=12 * size, batch=size) == 4
