"""Streams whose driver, tasks or database are killed: each record is written once."""

import random

import pytest

import headrace
from headrace.testing.postgres import PrivatePostgres
from spark.children import stream
from spark.faulty import KILLS, check, check_nothing_twice, fill, query_of, run


@pytest.mark.timeout(900)
def test_each_record_is_written_once_whatever_is_killed(spark, sqlite_url, postgres_url, tmp_path):
    """The driver before and after its commit, a task half-way; more by ``make test-faults``.

    Two streams of one driver, one on each store. When it is dead they go on here.
    """
    count = 700
    queries = [
        query_of(
            *(sqlite_url, tmp_path / "a", {0: "a task fails", 1: "killed after the commit"}, 300)
        ),
        query_of(
            *(postgres_url, tmp_path / "b", {0: "a task fails", 1: "killed before the commit"}, 300)
        ),
    ]
    for query in queries:
        fill(query, count)
    assert not run(queries, tmp_path), "nobody was killed"
    for query in queries:
        check_nothing_twice(query)
        assert stream.start(spark, query).awaitTermination(120)
        check(query, count)


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
    query = query_of(durable_url, tmp_path / "stream", faults, size := chosen.choice([50, 400]))
    fill(query, 12 * size)
    kills = 0
    while not run([query], tmp_path):
        kills += 1
        assert kills <= len(faults), (tmp_path / "log").read_text()[-4000:]
        check_nothing_twice(query)
    assert kills == len(faults)
    check(query, 12 * size)
