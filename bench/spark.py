"""Headrace's pipelines against Spark's own ways, in one run: ``python -m bench.spark --help``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench import ours
from bench.cases import spark_read
from bench.goals import faster
from bench.lab import Case, Settings
from bench.peers import spark
from bench.run import Plan, run


@dataclass(frozen=True)
class SparkSettings(Settings):
    """How much is read and written."""

    records: int = 5_000_000


STARTERS = {"postgres": ours.start_postgres, "spark": spark.start}

PHASES = [[Case("read", spark_read.plain)], [Case("typed", spark_read.typed)]]

GOALS = [
    faster("Read PostgreSQL vs Spark's JDBC", "read postgres", "read jdbc", 1, 1.5),
    faster("Read PostgreSQL vs Parquet", "read postgres", "read parquet", 0, 0.6),
    faster("Read SQLite vs Spark's JDBC on PostgreSQL", "read sqlite", "read jdbc", 1, 2),
    faster(
        "Read a declared schema, PostgreSQL, vs JDBC text + from_json",
        "typed postgres", "typed jdbc", 1.2, 2.5,
    ),
    faster(
        "Read a declared schema, SQLite, vs JDBC text + from_json",
        "typed sqlite", "typed jdbc", 1.2, 2.5,
    ),
]  # fmt: skip

PLAN = Plan(
    name="spark",
    title="Headrace pipelines against Spark's own ways",
    absolute="Not compared.",
    about=__doc__,
    settings=SparkSettings(),
    quick=SparkSettings(rounds=3, records=500_000),
    starters=STARTERS,
    phases=PHASES,
    goals=GOALS,
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
