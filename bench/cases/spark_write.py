"""Spark writes records: into a topic, all of them once, or as rows by JDBC, which promises less.

What is written comes from a Parquet file. JDBC's table has no index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from bench import ours
from bench.context import Contender, Facts, Lab
from bench.peers.spark import CORES, Spark, jdbc_options, timed

import headrace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def contenders(lab: Lab) -> Iterator[Contender]:
    spark: Spark = lab.peer("spark")
    server: ours.Postgres = lab.peer("postgres")
    count = lab.settings.writes
    frame = bodies(lab, spark, count)
    for key, title, url, facts in (
        ("write postgres", "PostgreSQL, topic", server.at("spark_write"), server.facts),
        (
            "write sqlite",
            "SQLite, topic",
            ours.sqlite_url(lab, "spark_write"),
            ours.sqlite_facts("safe"),
        ),
    ):
        yield _topic(spark, server, frame, key, title, url, facts, count)
    for key, title, options in (
        ("write jdbc", "JDBC, append", ""),
        (
            "write jdbc rewritten",
            "JDBC, append, reWriteBatchedInserts",
            "?reWriteBatchedInserts=true",
        ),
    ):
        yield _jdbc(spark, server, frame, key, title, options, count)


def bodies(lab: Lab, spark: Spark, count: int) -> DataFrame:
    """So many bodies, as JSON text, in a part for each core."""
    texts = [msgspec.json.encode(body).decode() for body in lab.bodies]
    some = spark.session.createDataFrame([(text,) for text in texts], "body string")
    path = str(lab.folder / "bodies.parquet")
    turns = spark.session.range(-(-count // len(texts)), numPartitions=CORES)
    many = turns.crossJoin(some).select("body").limit(count).repartition(CORES)
    many.write.mode("overwrite").parquet(path)
    return spark.session.read.parquet(path).coalesce(CORES)


def _topic(
    spark: Spark, server: ours.Postgres, frame: DataFrame,
    key: str, title: str, url: str, facts: Facts, count: int,
) -> Contender:  # fmt: skip
    headrace.connect(url).close()
    writing = frame.write.format("headrace").mode("append").option("url", url)
    frame.write.format("headrace").mode("append").options(url=url, topic="warm").save()

    def sample(turn: int) -> dict[str, float]:
        topic = f"out-{turn}"
        found = timed(spark, server, count, lambda: writing.option("topic", topic).save())
        with headrace.connect(url) as hr:
            assert hr.topic(topic).length() == count
        return found

    shown = spark.facts(f"exactly once, {facts.durability}", facts.client, facts.server)
    return Contender(key, title, "records/s", shown, sample)


def _jdbc(
    spark: Spark, server: ours.Postgres, frame: DataFrame,
    key: str, title: str, options: str, count: int,
) -> Contender:  # fmt: skip
    table = key.replace(" ", "_")
    given = jdbc_options(server, table)
    given["url"] += options
    server.execute(f"create table {table} (body text not null)")
    writing = frame.write.format("jdbc").mode("append").options(**given)
    writing.save()

    def sample(turn: int) -> dict[str, float]:
        server.execute(f"truncate {table}")
        found = timed(spark, server, count, writing.save)
        [[rows]] = server.execute(f"select count(*) from {table}")
        assert rows == count
        return found

    shown = spark.facts("a transaction per task", "pgjdbc", server.version)
    return Contender(key, title, "records/s", shown, sample)
