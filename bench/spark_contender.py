"""The player of ``bench.commits`` for Spark: topics read, written and piped, by public names only."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from bench.cases.spark_pipeline import handled
from bench.contender import Figures, QueuePlayer
from bench.old_names import with_present_names
from bench.peers.spark import CORES, drained, tree_seconds

import headrace
from headrace.pipelines import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN = "orders"
RECORDS = 200_000


class Player(QueuePlayer):
    """A Spark session, and a topic with records. Each figure is of one job over all of them."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-bench-spark-")
        config = {"spark.driver.memory": "1g", "spark.local.dir": self._folder.name}
        self._spark = session("bench", master=f"local[{CORES}]", config=config)
        self._hr: Any = with_present_names(headrace.connect(where))
        self._turn = 0

    def prepare(self) -> None:
        """Fill a topic, by Spark."""
        self._frame = self._bodies()
        self._write(IN)

    def read_rate(self, seconds: float) -> Figures:
        """``seconds`` is not used, here and below: a job has its own length."""
        reading = self._spark.read.format("headrace")
        frame = reading.options(url=self.where, topic=IN, columns="seq,ts,body").load()
        return self._timed(lambda: drained(frame))

    def write_rate(self, seconds: float) -> Figures:
        return self._timed(lambda: self._write(self._next("out")))

    def pipe_rate(self, seconds: float) -> Figures:
        name = self._next("pipe")
        proc = self._hr.pipelines.create(
            name, source=IN, to=f"{name}-out", processor=handled, count=RECORDS
        )
        figures = self._timed(lambda: proc.run_once(spark=self._spark))
        (proc.delete if hasattr(proc, "delete") else proc.destroy)()
        return figures

    def _next(self, word: str) -> str:
        self._turn += 1
        return f"{word}-{self._turn}"

    def _bodies(self) -> DataFrame:
        texts = [(msgspec.json.encode(body).decode(),) for body in self.bodies]
        some = self._spark.createDataFrame(texts, "body string")
        turns = self._spark.range(-(-RECORDS // len(texts)), numPartitions=CORES)
        path = f"{self._folder.name}/bodies.parquet"
        many = turns.crossJoin(some).select("body").limit(RECORDS)
        many.repartition(CORES).write.parquet(path)
        return self._spark.read.parquet(path).coalesce(CORES)

    def _write(self, topic: str) -> None:
        writing = self._frame.write.format("headrace").mode("append")
        writing.options(url=self.where, topic=topic).save()

    def _timed(self, job: Callable[[], object]) -> Figures:
        """Records a second, and CPU of this process, the JVM and its Pythons for each."""
        cpu, start = tree_seconds(os.getpid()), time.perf_counter()
        job()
        took = time.perf_counter() - start
        used = tree_seconds(os.getpid()) - cpu
        return {"rate": RECORDS / took, "client cpu": used / RECORDS * 1e6}
