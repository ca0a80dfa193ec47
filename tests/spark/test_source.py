"""Topics read by Spark."""

import json

import pytest
from pyspark.errors import PySparkException

import headrace


@pytest.fixture
def hr(durable_url):
    with headrace.connect(durable_url) as client:
        client.url = durable_url
        yield client


def reading(spark, hr, topic="orders", **options):
    return spark.read.format("headrace").options(url=hr.url, topic=topic, **options)


def run(spark, hr, tmp_path, sink, **options):
    """Read all that is there as a stream; each batch's rows go to ``sink`` with its number."""
    given = {"url": hr.url, "topic": "orders", "proc": "reader"} | options
    query = (
        spark.readStream.format("headrace")
        .options(**given)
        .load()
        .writeStream.foreachBatch(lambda frame, number: sink(number, frame.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_batch_read_has_every_record_between_its_ends(spark, hr):
    """Several reads in one test: each plan of Spark costs time."""
    hr.commit_many("orders", [{"n": n, "who": f"c{n % 7}"} for n in range(3000)])
    hr.commit("orders", {"n": 3000, "who": None}, headers={"from": "web"})
    frame = reading(spark, hr, partitions=3).load()
    assert frame.columns == ["topic", "seq", "id", "ts", "headers", "body"]
    records, found = hr.range("orders"), sorted(frame.collect(), key=lambda row: row.seq)
    assert [(row.topic, row.seq, row.id) for row in found] == [
        (record.topic, record.seq, record.id) for record in records
    ]
    assert [json.loads(row.body) for row in found] == [record.body for record in records]
    assert json.loads(found[-1].headers) == {"from": "web"}
    assert found[0].headers is None
    assert frame.rdd.getNumPartitions() == 3

    some = reading(spark, hr, start=":2991", end=":2999").load()
    assert [row.seq for row in some.collect()] == list(range(2991, 3000))

    typed = reading(spark, hr).schema("n int, who string, _seq long, _ts timestamp").load()
    assert typed.where("n = _seq and _ts is not null").groupBy("who").count().count() == 8
    [row] = (
        reading(spark, hr, schema="who long, _corrupt_record string", start=":7", end=":7")
        .load()
        .collect()
    )
    assert (row.who, json.loads(row["_corrupt_record"])) == (None, {"n": 7, "who": "c0"})


@pytest.mark.parametrize("has_pushdown", ["true", "false"])
@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_one_frame_gives_the_same_records_to_each_of_its_uses(spark, hr, has_pushdown):
    """Spark keeps one plan per ``load()``: a filter of one use must not narrow another."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, has_pushdown)
    try:
        hr.commit_many("orders", [{"n": n} for n in range(100)])
        frame = reading(spark, hr).load()
        assert (frame.where("seq >= 90").count(), frame.count()) == (10, 100)
        low, high = frame.where("seq < 10"), frame.where("seq >= 90")
        assert sorted(row.seq for row in low.union(high).collect()) == [*range(10), *range(90, 100)]
        assert low.union(frame).union(high).count() == 120
        other = frame.where("seq % 2 = 0 and seq >= 50").withColumnRenamed("seq", "twin")
        assert frame.join(other, frame.seq == other.twin).count() == 25
        assert frame.alias("a").join(frame.alias("b"), "seq").where("a.seq < 7").count() == 7
        frame.createOrReplaceTempView("one_frame")
        [row] = spark.sql(
            "select (select count(*) from one_frame where seq < 5) as few, "
            "(select count(*) from one_frame) as every, "
            "(select count(*) from one_frame where ts > '2020-01-01' and seq > 97) as last"
        ).collect()
        assert (row.few, row.every, row["last"]) == (5, 100, 2)
        assert frame.where("seq = 3").count() + spark.table("one_frame").count() == 101
        typed = reading(spark, hr).schema("n int, _seq long").load()
        assert typed.where("_seq < 4").union(typed.where("_seq >= 4")).count() == 100
    finally:
        spark.catalog.dropTempView("one_frame")
        spark.conf.set(name, before)


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_a_frame_stays_as_it_was_planned(spark, hr):
    """Its views too: what is committed later is seen by the next ``load()``."""
    hr.commit_many("orders", [{"n": n} for n in range(3)])
    frame = reading(spark, hr).load()
    frame.createOrReplaceTempView("planned")
    assert frame.count() == 3
    hr.commit("orders", {"n": 3})
    counts = [frame.count(), frame.where("seq >= 0").count(), spark.table("planned").count()]
    assert counts == [3, 3, 3]
    assert reading(spark, hr).load().count() == 4
    spark.catalog.dropTempView("planned")


def test_a_stream_reads_each_record_once_over_restarts(spark, hr, tmp_path):
    batches = {}
    hr.commit_many("orders", [{"n": n} for n in range(250)])

    def sink(number, rows):
        batches[number] = sorted(row.seq for row in rows)

    run(spark, hr, tmp_path, sink, max_records_per_batch=100)
    assert [len(rows) for rows in batches.values()] == [100, 100, 50]
    assert hr.proc("reader").info().position == 250

    hr.commit_many("orders", [{"n": n} for n in range(250, 300)])

    def failing(number, rows):
        sink(number, rows)
        raise RuntimeError("the sink is gone")

    with pytest.raises(PySparkException, match="the sink is gone"):
        run(spark, hr, tmp_path, failing)
    before = dict(batches)
    hr.commit_many("orders", [{"n": n} for n in range(300, 320)])
    run(spark, hr, tmp_path, sink)
    assert batches[3] == before[3], "a replay reads the same records"
    assert sorted(seq for rows in batches.values() for seq in rows) == list(range(320))
    assert hr.proc("reader").info().position == 320


@pytest.mark.parametrize("durable_url", ["postgres"], indirect=True)
def test_a_stream_whose_records_were_removed_stops(spark, hr, tmp_path):
    batches = {}
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    run(spark, hr, tmp_path, batches.__setitem__)
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    hr.topic("orders").set_retention(max_age=0.001)
    while hr.topic("orders").info().first_seq < 20:
        hr.admin.maintain(force=True)
    with pytest.raises(PySparkException, match="ProcOvertaken: the records :10 to :19") as caught:
        run(spark, hr, tmp_path, batches.__setitem__)
    assert "new checkpoint" in str(caught.value)
    assert list(batches) == [0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"topic": "others"}, "topic 'others' has no records"),
        ({"sart": ":7"}, "no option 'sart'"),
        (
            {"schema": "n long"},
            "record :1 of topic 'orders' does not fit the schema: n is declared",
        ),
        ({"schema": "m map<string,int>"}, "m cannot be declared as map"),
        ({"schema": "seq long, body string"}, "the option columns='seq,body'"),
    ],
)
def test_the_error_names_the_mistake(spark, sqlite_url, options, named):
    with headrace.connect(sqlite_url) as hr:
        hr.commit_many("orders", [{"n": 1}, {"n": "x"}])
    given = {"url": sqlite_url, "topic": "orders"} | options
    with pytest.raises(PySparkException, match=named) as caught:
        spark.read.format("headrace").options(**given).load().collect()
    assert str(caught.value).count(", line ") <= 1, "the traceback of our code helps no user"


def test_a_stream_without_a_name_says_so(spark, sqlite_url, tmp_path):
    """And that is the last word: nothing that went wrong after it."""
    with headrace.connect(sqlite_url) as hr:
        hr.url = sqlite_url
        with pytest.raises(
            PySparkException, match="the option 'proc' is missing: give a name"
        ) as caught:
            run(spark, hr, tmp_path, print, proc="")
    assert "During handling" not in str(caught.value)
