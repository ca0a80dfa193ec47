"""Streaming queries from topic to topic, with faults at given batches.

The program runs until all records are written. A driver that is killed does not get that far. Each
fault happens once: it creates a file first. The driver is killed when all queries that want that
have reached their batch.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from headrace.pipelines.sink.adapters import StreamWriter
from headrace.pipelines.spark_session import session, settings_for
from pyspark_headrace import DefaultSource

# As in the other tests: quick to start, which is most of the work here.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 120.0


class FaultyWriter(StreamWriter):
    """Writes correctly, except where a fault is planned."""

    def __init__(self, given, schema, *, overwrite):
        own = {"folder", "faults", "others", "jvm"}
        super().__init__(
            {k: v for k, v in given.items() if k not in own}, schema, overwrite=overwrite
        )
        self.folder = Path(given["folder"])
        self.faults = json.loads(given["faults"])
        self.others = [Path(path) for path in json.loads(given["others"])]
        self.jvm = int(given["jvm"])

    def is_due(self, batch, kind):
        if self.faults.get(str(batch)) != kind:
            return False
        try:
            (self.folder / f"{batch}-{kind}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def kill(self):
        give_up = time.monotonic() + PATIENCE
        while not all(any(other.glob("*-killed *")) for other in self.others):
            assert time.monotonic() < give_up, "another query does not come to its fault"
            time.sleep(0.01)
        os.kill(self.jvm, signal.SIGKILL)
        os._exit(1)

    def write(self, iterator):
        from pyspark import TaskContext

        batch = TaskContext.get().getLocalProperty("streaming.sql.batchId")

        def failing():
            for rows in iterator:
                yield rows.slice(0, len(rows) // 2)
                if self.is_due(batch, "killed in a task"):
                    self.kill()
                if self.is_due(batch, "a task fails"):
                    raise RuntimeError("a fault")
                yield rows.slice(len(rows) // 2)

        return super().write(failing())

    def commit(self, messages, batchId):
        if self.is_due(batchId, "killed before the commit"):
            self.kill()
        if self.is_due(batchId, "killed during the commit"):
            self.store.probe = lambda operation, point: (
                self.kill() if (operation, point) == ("sinks.publish", "commit") else None
            )
        super().commit(messages, batchId)
        if self.is_due(batchId, "killed after the commit"):
            self.kill()


class FaultySource(DefaultSource):
    """The format ``headrace``, with faults."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return FaultyWriter(self.options, schema, overwrite=overwrite)


def main(queries):
    master = "local[2,3]"
    java = f"{settings_for(master)['spark.driver.extraJavaOptions']} {QUICK_JAVA}"
    config = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    spark = session(master=master, config=config)
    spark.dataSource.register(FaultySource)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    started = []
    for query in queries:
        others = [other["folder"] for other in queries if other is not query]
        faults = {
            "folder": query["folder"],
            "faults": json.dumps(query["faults"]),
            "others": json.dumps(others),
            "jvm": jvm,
        }
        started.append(start(spark, query, "faulty", **faults))
    for query in started:
        query.awaitTermination()
    print("done")


def start(spark, query, sink="headrace", **more):
    """Copy topic ``in`` to topic ``out``, from the checkpoint on."""
    return (
        spark.readStream.format("headrace")
        .options(url=query["url"], topic="in", proc="reader", max_records_per_batch=query["batch"])
        .load()
        .repartition(2)
        .writeStream.format(sink)
        .options(url=query["url"], topic="out", sink="s", **more)
        .option("checkpointLocation", f"{query['folder']}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
