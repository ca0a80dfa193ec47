"""A streaming query from a topic to a topic, with faults at given batches.

Runs until all records are written; a driver that is killed does not get that far. Each fault
happens once: it leaves a file behind first.
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from headrace.pipelines.session import session, settings_for
from headrace.pipelines.sink.adapters import StreamWriter
from pyspark_headrace import DefaultSource

# As the other tests have it: quick to start, which is most of the work here.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class FaultyWriter(StreamWriter):
    """Writes as it should, except where a fault is planned."""

    def __init__(self, given, schema, *, overwrite):
        own = {"folder", "faults", "jvm"}
        super().__init__(
            {k: v for k, v in given.items() if k not in own}, schema, overwrite=overwrite
        )
        self.folder = Path(given["folder"])
        self.faults = json.loads(given["faults"])
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

    def commit(self, messages, batchId):  # noqa: N803
        if self.is_due(batchId, "killed before the commit"):
            self.kill()
        if self.is_due(batchId, "killed during the commit"):
            self.store.probe = lambda operation, point: (
                self.kill() if (operation, point) == ("publish", "commit") else None
            )
        super().commit(messages, batchId)
        if self.is_due(batchId, "killed after the commit"):
            self.kill()


class FaultySource(DefaultSource):
    """The format ``headrace``, with faults."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return FaultyWriter(self.options, schema, overwrite=overwrite)


def main(url, folder, faults, batch_size):
    master = "local[2,3]"
    java = f"{settings_for(master)['spark.driver.extraJavaOptions']} {QUICK_JAVA}"
    config = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    spark = session(master=master, config=config)
    spark.dataSource.register(FaultySource)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    query = (
        spark.readStream.format("headrace")
        .options(url=url, topic="in", proc="reader", max_records_per_batch=batch_size)
        .load()
        .repartition(2)
        .writeStream.format("faulty")
        .options(url=url, topic="out", sink="s", folder=folder, faults=json.dumps(faults), jvm=jvm)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
