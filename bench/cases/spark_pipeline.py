"""A record pipeline on Spark, topic to topic: how many records, and how long one takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bench import ours
from bench.cases.spark_write import bodies
from bench.context import Contender, Lab
from bench.measure import percentile
from bench.peers.spark import Spark, drained, timed

import headrace

if TYPE_CHECKING:
    import pyarrow as pa

IN = "orders"
WAIT_SECONDS = 30.0


def handled(order: dict[str, Any]) -> dict[str, Any]:
    """What the pipeline does with each record."""
    return {"order": order["order"], "city": order["city"], "eur": order["total"] * 1.19}


def end_to_end(lab: Lab) -> Iterator[Contender]:
    """All records of a topic through the pipeline; against reading them, and writing as many."""
    spark: Spark = lab.peer("spark")
    server: ours.Postgres = lab.peer("postgres")
    count, url = lab.settings.writes, server.at("spark_pipeline")
    frame = bodies(lab, spark, count)
    headrace.connect(url).close()
    frame.write.format("headrace").mode("append").options(url=url, topic=IN).save()
    read = spark.session.read.format("headrace").options(url=url, topic=IN, columns="seq,ts,body")
    shown = spark.facts("exactly once", server.facts.client, server.version)

    def piped(turn: int) -> dict[str, float]:
        with headrace.connect(url) as hr:
            name, to = f"pipeline-{turn}", f"piped-{turn}"
            proc = hr.pipelines.create(name, source=IN, to=to, processor=handled, count=count)
            found = timed(spark, server, count, lambda: proc.run_once(spark=spark.session))
            assert hr.topic(to).length() == count
            proc.delete()
        return found

    def parts(turn: int) -> dict[str, float]:
        writing = frame.write.format("headrace").mode("append").options(url=url, topic=f"w-{turn}")
        reading = timed(spark, server, count, lambda: drained(read.load()))
        written = timed(spark, server, count, writing.save)
        return min(reading, written, key=lambda found: found["rate"])

    yield Contender("piped", "A record pipeline, topic to topic", "records/s", shown, piped)
    yield Contender("parts", "The slower of reading and writing", "records/s", shown, parts)


def one_record(lab: Lab) -> Iterator[Contender]:
    """One record at a time, idle before: from its commit to its result in the other topic."""
    spark: Spark = lab.peer("spark")
    server: ours.Postgres = lab.peer("postgres")
    url = server.at("spark_latency")
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    shown = spark.facts("exactly once", server.facts.client, server.version)
    for key, title, options in (
        ("latency spark", "One record, Spark", {"spark": spark.session}),
        ("latency inline", "One record, inline engine", {"engine": "inline"}),
    ):
        yield Contender(key, title, "ms", shown, _through(lab, hr, key.split()[1], options))
    yield Contender(
        "latency bare", "createDataFrame, mapInArrow, toArrow", "ms", shown, _bare(lab, spark)
    )
    yield Contender(
        "latency loop", "commit, claim, ack_commit in a loop", "ms", shown, _loop(lab, hr)
    )


def _through(
    lab: Lab, hr: headrace.Headrace, name: str, options: dict[str, Any]
) -> Callable[[int], dict[str, float]]:
    source, to = f"{name}-in", f"{name}-out"
    hr.commit(source, lab.bodies[0])
    proc = hr.pipelines.create(name, source=source, to=to, processor=handled)
    proc.run_once(**options)

    def one(turn: int) -> float:
        wanted = hr.topic(to).info().next_seq + 1
        hr.commit(source, lab.bodies[turn])
        start = time.perf_counter()
        while hr.topic(to).info().next_seq < wanted:
            if time.perf_counter() - start > WAIT_SECONDS:
                raise TimeoutError(f"no result in topic {to}")
            time.sleep(0.0005)
        return time.perf_counter() - start

    def sample(turn: int) -> dict[str, float]:
        proc.start(**options)
        try:
            return _percentiles(lab, one)
        finally:
            proc.stop()

    return sample


def _bare(lab: Lab, spark: Spark) -> Callable[[int], dict[str, float]]:
    import pyarrow as pa

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def one(turn: int) -> float:
        table = pa.table({"seq": [turn], "body": ["{}"]})
        start = time.perf_counter()
        frame = spark.session.createDataFrame(table).coalesce(1)
        frame.mapInArrow(same, "seq long, body string").toArrow()
        return time.perf_counter() - start

    return lambda turn: _percentiles(lab, one)


def _loop(lab: Lab, hr: headrace.Headrace) -> Callable[[int], dict[str, float]]:
    hr.commit("loop-in", lab.bodies[0])
    proc = hr.procs.create("loop", "loop-in")
    claim = proc.claim(1)
    assert claim is not None
    claim.ack()

    def one(turn: int) -> float:
        hr.commit("loop-in", lab.bodies[turn])
        start = time.perf_counter()
        claim = proc.claim(1)
        assert claim is not None
        claim.ack_commit([("loop-out", handled(claim.records[0].body))])
        return time.perf_counter() - start

    return lambda turn: _percentiles(lab, one)


def _percentiles(lab: Lab, one: Callable[[int], float]) -> dict[str, float]:
    one(0)
    each = -(-lab.settings.latencies // lab.settings.rounds)
    times = [one(turn) * 1000 for turn in range(1, each + 1)]
    return {"p50": percentile(times, 50), "p95": percentile(times, 95)}
