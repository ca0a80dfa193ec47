"""State over records: windows by their time, and a processor of one's own."""

import headrace
from headrace.testing.clocks import FakeClock


def run(frame, url, checkpoint, name):
    """Write all that is there to topic ``name``."""
    query = (
        frame.writeStream.format("headrace")
        .options(url=url, topic=name, sink=name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def test_a_window_is_written_once_when_the_records_have_passed_it(spark, postgres_url, tmp_path):
    """By the time of the records, which the watermark follows; over a restart."""
    from pyspark.sql import functions as f

    clock = FakeClock(1_700_000_000_000 // 60_000 * 60_000)
    read = {"url": postgres_url, "topic": "sales", "proc": "minutes", "max_records_per_batch": 50}
    with headrace.connect(postgres_url, clock=clock) as hr:
        for _ in range(3):
            for _ in range(4):
                hr.commit_many("sales", [{"shop": n % 2, "eur": n} for n in range(10)])
                clock.advance(15)
        for batch in range(2):
            frame = (
                spark.readStream.format("headrace")
                .options(**read)
                .schema("shop int, eur long, _ts timestamp")
                .load()
                .withWatermark("_ts", "10 seconds")
                .groupBy(f.window("_ts", "1 minute"), "shop")
                .agg(f.sum("eur").alias("eur"), f.count("*").alias("sales"))
                .select(f.col("window.start").alias("minute"), "shop", "eur", "sales")
            )
            run(frame, postgres_url, tmp_path / "checkpoint", "minutes")
            minutes = {(row.body["minute"], row.body["shop"]) for row in hr.range("minutes")}
            # The newest minute is open until a record comes from beyond it.
            assert len(minutes) == hr.topic("minutes").length() == 4 + 2 * batch
            clock.advance(60)
            hr.commit("sales", {"shop": 0, "eur": 0})
        found = [
            (row.body["shop"], row.body["eur"], row.body["sales"]) for row in hr.range("minutes")
        ]
        assert sorted(found) == [(0, 80, 20)] * 3 + [(1, 100, 20)] * 3


def test_a_stateful_processor_keeps_what_it_knows_of_each_key(spark, sqlite_url, tmp_path):
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Total(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "eur long")

        def handleInputRows(self, key, rows, timers):
            known = self.total.get() if self.total.exists() else (0,)
            total = known[0] + sum(row.eur for row in rows)
            self.total.update((total,))
            yield Row(shop=key[0], eur=total)

    with headrace.connect(sqlite_url) as hr:
        for turn in range(2):
            hr.commit_many("sales", [{"shop": n % 3, "eur": n} for n in range(30)])
            frame = (
                spark.readStream.format("headrace")
                .options(url=sqlite_url, topic="sales", proc="totals")
                .schema("shop int, eur long")
                .load()
                .groupBy("shop")
                .transformWithState(
                    statefulProcessor=Total(),
                    outputStructType="shop int, eur long",
                    outputMode="Update",
                    timeMode="None",
                )
            )
            run(frame, sqlite_url, tmp_path / "checkpoint", "totals")
            newest = {row.body["shop"]: row.body["eur"] for row in hr.range("totals")}
            once = {shop: sum(n for n in range(30) if n % 3 == shop) for shop in range(3)}
            assert newest == {shop: eur * (turn + 1) for shop, eur in once.items()}
            assert hr.topic("totals").length() == 3 * (turn + 1)
