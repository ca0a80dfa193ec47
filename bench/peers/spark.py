"""Spark itself, on two cores of this machine, with a JDBC driver for PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.context import Facts, Lab
from bench.ours import Postgres
from bench.peers.servers import unpacked

from headrace.pipelines import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
JAR = "libpostgresql-jdbc-java"


class Spark:
    """A session, and what its process and those it started have cost."""

    def __init__(self, lab: Lab) -> None:
        self.jar = unpacked(JAR, "usr/share/java/postgresql.jar")
        self.session: SparkSession = session(
            "bench",
            master=f"local[{CORES}]",
            config={
                "spark.driver.memory": "3g",
                "spark.jars": str(self.jar),
                "spark.local.dir": str(lab.folder),
            },
        )
        jvm = self.session.sparkContext._jvm  # noqa: SLF001  # the only way to ask which Java it is
        self._pid = int(jvm.java.lang.ProcessHandle.current().pid())
        self.java = str(jvm.java.lang.System.getProperty("java.version"))

    def facts(self, durability: str, client: str, server: str) -> Facts:
        spark = f"Spark {self.session.version}, Java {self.java}, local[{CORES}]"
        return Facts(durability, f"{client}, {spark}" if client else spark, server)

    def jdbc(self, server: Postgres, table: str, count: int) -> DataFrame:
        """A table with a row per record, as Spark's own reader has it."""
        return (
            self.session.read.format("jdbc")
            .options(**jdbc_options(server, table))
            .options(partitionColumn="seq", lowerBound=0, upperBound=count, numPartitions=CORES)
            .load()
        )

    def cpu(self, server: Postgres | None = None) -> float:
        """CPU seconds of Spark, its Pythons and the server's processes, since they started."""
        roots = [self._pid] if server is None else [self._pid, server.pid]
        return sum(tree_seconds(pid) for pid in roots)


def jdbc_options(server: Postgres, table: str) -> dict[str, str]:
    parts = urlsplit(server.url)
    return {
        "url": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        "user": parts.username or "",
        "password": parts.password or "",
        "driver": "org.postgresql.Driver",
        "dbtable": table,
        # Without it the driver loads all rows into memory.
        "fetchsize": "10000",
    }


def drained(frame: DataFrame) -> None:
    """Run a query to its end, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def timed(
    spark: Spark, server: Postgres | None, count: int, run: Callable[[], None]
) -> dict[str, float]:
    """Records a second, and CPU microseconds of a record, of all processes that took part."""
    cpu, start = spark.cpu(server), time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    return {"rate": count / seconds, "cpu": (spark.cpu(server) - cpu) / count * 1e6}


@contextmanager
def start(lab: Lab) -> Iterator[Spark]:
    spark = Spark(lab)
    try:
        yield spark
    finally:
        spark.session.stop()


def tree_seconds(pid: int) -> float:
    """CPU of a process, of its descendants, and of those of them that are gone."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        child = int(place.parent.name)
        parents.setdefault(int(fields[1]), []).append(child)
        ticks[child] = sum(int(field) for field in fields[11:15])
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        total += ticks.get(each, 0)
        waiting += parents.get(each, [])
    return total / os.sysconf("SC_CLK_TCK")
