"""Topics and queues written by Spark."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import headrace
from headrace import pipelines
from headrace.errors import InvalidOption


@pytest.fixture
def hr(durable_url):
    with headrace.connect(durable_url) as client:
        client.url = durable_url
        yield client


def write(frame, hr, **options):
    frame.write.format("headrace").mode("append").options(url=hr.url, **options).save()


def run(
    spark, hr, checkpoint, start=">", transform=lambda frame: frame, output="append", **options
):
    """Write all that topic ``in`` holds as a stream, some records at a time."""
    reader = spark.readStream.format("headrace").options(
        url=hr.url, topic="in", proc="reader", start=start, max_records_per_batch=100
    )
    query = (
        transform(reader.load())
        .writeStream.format("headrace")
        .outputMode(output)
        .options(url=hr.url, sink="s", **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def numbers(hr, topic):
    return [record.body["n"] for record in hr.iterate(topic)]


def test_a_frame_is_written_as_it_is(spark, hr):
    """Rows as objects, JSON with headers, topics by a column, documents; in order, all or none."""
    frame = spark.range(5000, numPartitions=3).select(
        f.col("id").alias("n"), f.array("id").alias("list"), f.lit(1.0).alias("x")
    )
    write(frame, hr, topic="typed")
    records = hr.range("typed")
    assert [record.body for record in records] == [
        {"n": n, "list": [n], "x": 1.0} for n in range(5000)
    ]
    assert len({record.ts for record in records}) == 1

    copy = (
        spark.read.format("headrace")
        .options(url=hr.url, topic="typed", end=":99")
        .load()
        .withColumn("topic", f.when(f.col("seq") % 2 == 0, "even").otherwise("odd"))
        .withColumn("headers", f.create_map(f.lit("from"), f.col("id")))
    )
    write(copy, hr)
    assert numbers(hr, "odd") == list(range(1, 100, 2))
    first = hr.range("even", limit=1)[0]
    assert (first.body, first.headers) == (records[0].body, {"from": records[0].id})

    hr.push("mail", {"n": -1}, subject="7")
    documents = spark.range(20).select(
        f.col("id").cast("string").alias("subject"), f.col("id").alias("n")
    )
    write(documents, hr, queue="mail", mode="upsert")
    assert sorted(
        item.payload["n"] for item in hr.queues.create("mail", exist_ok=True).claim(99)
    ) == list(range(20))

    broken = frame.select(f.when(f.col("n") < 4990, "{}").otherwise("{").alias("body"))
    with pytest.raises(PySparkException, match=r"row 1657 of partition 2: .* is not JSON"):
        write(broken, hr, topic="typed")
    assert hr.topic("typed").length() == 5000


def test_a_lost_checkpoint_stops_a_stream_until_its_sink_is_reset(spark, hr, tmp_path):
    """It would write twice or skip. With a start and a reset it does neither."""
    hr.commit_many("in", [{"n": n} for n in range(150)])
    run(spark, hr, tmp_path / "first", topic="out")
    assert (sorted(numbers(hr, "out")), hr.sinks.info("s").batch) == (list(range(150)), 1)

    hr.commit_many("in", [{"n": n} for n in range(150, 170)])
    with pytest.raises(PySparkException, match=r"SinkTaken: .*headrace sink reset s"):
        run(spark, hr, tmp_path / "second", topic="out")
    assert hr.topic("out").length() == 150

    hr.sinks.reset("s")
    run(spark, hr, tmp_path / "third", start=":150", topic="out")
    assert sorted(numbers(hr, "out")) == list(range(170))


def test_a_stream_fills_a_queue(spark, hr, tmp_path):
    """Aggregates as documents: with complete output each batch replaces those before it."""
    hr.commit_many("in", [{"n": n % 3} for n in range(150)])

    def totals(frame):
        n = f.get_json_object("body", "$.n")
        return frame.groupBy(n.alias("subject")).agg(f.count("*").alias("total"))

    queue = {"queue": "totals", "mode": "upsert"}
    run(spark, hr, tmp_path / "checkpoint", transform=totals, output="complete", **queue)
    found = {
        item.subject: item.payload["total"]
        for item in hr.queues.create("totals", exist_ok=True).claim(9)
    }
    assert found == {"0": 50, "1": 50, "2": 50}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "no column 'topic'"),
        ({"topic": "a b"}, "'a b' cannot name a topic"),
        ({"topic": "t", "sink": "s"}, "no option 'sink'"),
        ({"topic": "t", "url": "memory://x"}, "a store in memory exists in one only"),
        ({"topic": "t", "url": "http://127.0.0.1:7070"}, "not through a node"),
    ],
)
def test_the_error_names_the_mistake(spark, sqlite_url, options, named):
    given = {"url": sqlite_url} | options
    with pytest.raises(PySparkException, match=named):
        spark.range(1).write.format("headrace").mode("append").options(**given).save()


def test_nothing_is_overwritten(spark, sqlite_url):
    with pytest.raises(PySparkException, match="can only be added"):
        spark.range(1).write.format("headrace").mode("overwrite").options(
            url=sqlite_url, topic="t"
        ).save()


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_any_thread_may_write(spark, hr, tmp_path):
    """Spark searches formats in the session of the thread, and a thread may have none."""
    hr.commit_many("in", [{"n": n} for n in range(10)])
    frame = spark.range(3).toDF("n")

    def work():
        write(frame, hr, topic="out")
        run(spark, hr, tmp_path / "checkpoint", topic="streamed")
        assert pipelines.session() is spark

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InvalidOption, match="runs in this process already"):
            pool.submit(pipelines.session, master="local[7]").result(120)
        pool.submit(work).result(120)
    assert (numbers(hr, "out"), numbers(hr, "streamed")) == ([0, 1, 2], list(range(10)))
