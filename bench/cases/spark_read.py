"""Spark reads a whole topic, or as many rows of a table, and keeps nothing.

All read the columns seq, ts and body. ``typed`` also makes columns of six fields of the body.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from bench import ours
from bench.context import Contender, Facts, Lab
from bench.peers.spark import Spark, drained, timed

import headrace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC = "orders"
COLUMNS = "seq,ts,body"
FIELDS = (
    "`order` long, customer string, city string, placed_at timestamp, total double, express boolean"
)
FILL_SECONDS = 900


def plain(lab: Lab) -> Iterator[Contender]:
    """The text of the records."""
    reading = _Reading(lab)
    facts, postgres, sqlite = reading.server.facts, reading.postgres, reading.sqlite
    of_file = ours.sqlite_facts("safe")
    parquet = str(lab.folder / "orders.parquet")
    reading.table.write.option("compression", "zstd").parquet(parquet)
    chosen, everything = {"columns": COLUMNS}, {}
    for key, title, url, options, known in (
        ("read postgres", "PostgreSQL, topic", postgres, chosen, facts),
        ("read postgres all", "PostgreSQL, topic, all columns", postgres, everything, facts),
        ("read sqlite", "SQLite, topic", sqlite, chosen, of_file),
        ("read sqlite all", "SQLite, topic, all columns", sqlite, everything, of_file),
    ):
        yield reading.contender(key, title, partial(reading.topic, url, **options), known)
    yield reading.contender("read jdbc", "JDBC, a row each", lambda: reading.table, reading.jdbc)
    files = partial(reading.spark.session.read.parquet, parquet)
    yield reading.contender("read parquet", "Parquet, zstd", files, Facts("", "", "files"))


def typed(lab: Lab) -> Iterator[Contender]:
    """Six fields of the body as columns."""
    reading = _Reading(lab)
    for key, title, url, facts in (
        ("typed postgres", "PostgreSQL, declared schema", reading.postgres, reading.server.facts),
        ("typed sqlite", "SQLite, declared schema", reading.sqlite, ours.sqlite_facts("safe")),
    ):
        yield reading.contender(key, title, partial(reading.topic, url, schema=FIELDS), facts)
    decoded = partial(_from_json, reading.table)
    yield reading.contender("typed jdbc", "JDBC, text, from_json", decoded, reading.jdbc)


class _Reading:
    """Makes contenders of queries."""

    def __init__(self, lab: Lab) -> None:
        self.spark: Spark = lab.peer("spark")
        self.server: ours.Postgres = lab.peer("postgres")
        self.postgres, self.sqlite = (
            self.server.at("spark_read"),
            ours.sqlite_url(lab, "spark_read"),
        )
        self.count = lab.settings.records
        _fill(self.server, self.sqlite, self.count)
        self.table = self.spark.jdbc(self.server, "one_row", self.count)
        self.jdbc = Facts("", "pgjdbc", self.server.version)

    def topic(self, url: str, **options: str) -> DataFrame:
        reading = self.spark.session.read.format("headrace")
        return reading.options(url=url, topic=TOPIC, **options).load()

    def contender(
        self, key: str, title: str, frame: Callable[[], DataFrame], facts: Facts
    ) -> Contender:
        drained(frame())  # compile, connect, and read all once: figures are warm

        def sample(turn: int) -> dict[str, float]:
            return timed(self.spark, self.server, self.count, lambda: drained(frame()))

        shown = self.spark.facts("", facts.client, facts.server)
        return Contender(key, title, "records/s", shown, sample)


def _from_json(table: DataFrame) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    return table.select(from_json(col("body"), FIELDS).alias("fields")).select("fields.*")


def _fill(server: ours.Postgres, sqlite: str, count: int) -> None:
    """The topic on both databases, and a table with a row per record; once."""
    [[found]] = server.execute("select to_regclass('one_row')::text")
    if found:
        return
    print(f"  filling topics with {count:,} records", flush=True)
    for url in (server.at("spark_read"), sqlite):
        headrace.connect(url).close()
        command = [sys.executable, "-m", "bench.fill", url, TOPIC, str(count)]
        subprocess.run(command, check=True, timeout=FILL_SECONDS)
    server.execute(
        "create table one_row as select seq, ts, body::text as body from spark_read.record"
    )
    server.execute("alter table one_row add primary key (seq)")
    server.execute("vacuum analyze")
    server.execute("checkpoint")
