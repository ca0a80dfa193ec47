"""Headrace's pipelines against Spark's own ways, in one run: ``python -m bench.spark --help``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench import ours
from bench.cases import spark_pipeline, spark_read, spark_write
from bench.context import Case, Settings
from bench.goals import Goal, Value, at_most, faster
from bench.peers import spark
from bench.run import Plan, run


@dataclass(frozen=True)
class SparkSettings(Settings):
    """How much is read and written."""

    records: int = 5_000_000
    writes: int = 1_000_000


STARTERS = {"postgres": ours.start_postgres, "spark": spark.start}

# Records a second that its system procs take, whatever the machine: they run by a timer.
PIPEPROC = 45

PHASES = [
    [Case("read", spark_read.plain)],
    [Case("typed", spark_read.typed)],
    [Case("write", spark_write.contenders)],
    [Case("pipeline", spark_pipeline.end_to_end)],
    [Case("latency", spark_pipeline.one_record)],
]

GOALS = [
    faster("Read PostgreSQL vs Spark's JDBC", "read postgres", "read jdbc", 1, 1.5),
    faster("Read PostgreSQL vs Parquet", "read postgres", "read parquet", 0.3, 0.6),
    faster("Read SQLite vs Spark's JDBC on PostgreSQL", "read sqlite", "read jdbc", 1, 2),
    faster(
        "Read a declared schema, PostgreSQL, vs JDBC text + from_json",
        "typed postgres", "typed jdbc", 1.2, 2.5,
    ),
    faster(
        "Read a declared schema, SQLite, vs JDBC text + from_json",
        "typed sqlite", "typed jdbc", 1.2, 2.5,
    ),
    faster("Write PostgreSQL vs JDBC append", "write postgres", "write jdbc", 2, 3),
    faster(
        "Write PostgreSQL vs JDBC, reWriteBatchedInserts",
        "write postgres", "write jdbc rewritten", 1, 1.8,
    ),
    faster(
        "A record pipeline vs the slower of reading and writing", "piped", "parts", 0.3, 0.5
    ),
    at_most(
        "One record on Spark vs createDataFrame, mapInArrow, toArrow, p50",
        Value("latency spark", "p50"), Value("latency bare", "p50"), 1.5, 1.2,
    ),
    at_most(
        "One record on the inline engine vs a loop of claim and commit, p50",
        Value("latency inline", "p50"), Value("latency loop", "p50"), 3, 2,
    ),
    Goal(
        "A record pipeline on Spark; PipeProc's timer allows 45 a second",
        Value("piped"), None, 500 * PIPEPROC, 2000 * PIPEPROC, unit=" records/s",
    ),
]  # fmt: skip

PLAN = Plan(
    name="spark",
    title="Headrace pipelines against Spark's own ways",
    absolute="Records a second, topic to topic. More is better.",
    about=__doc__,
    settings=SparkSettings(),
    quick=SparkSettings(rounds=3, latencies=60, records=500_000, writes=200_000),
    starters=STARTERS,
    phases=PHASES,
    goals=GOALS,
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
