"""What the engine needs from a session, which is in this process or on a Connect server."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "headrace"
_LOCAL_CORES = re.compile(r"local\[(\d+)")
UNKNOWN_CORES = 4
"""How many tasks to start if a Connect server does not report how many it can run."""


def is_session(spark: object) -> bool:
    """Whether the object is a session, classic or Connect."""
    return all(hasattr(spark, name) for name in ("createDataFrame", "conf", "read"))


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cores_of(spark: SparkSession) -> int:
    """How many tasks can run concurrently."""
    if not is_connect(spark):
        return max(spark.sparkContext.defaultParallelism, 1)
    parallelism = spark.conf.get("spark.default.parallelism", None)
    local = _LOCAL_CORES.match(master_of(spark))
    return max(int(parallelism or (local[1] if local else UNKNOWN_CORES)), 1)


def master_of(spark: SparkSession) -> str:
    """The master, for people."""
    return str(spark.conf.get("spark.master", "") or "the Connect server")


def has_ended(spark: SparkSession) -> bool:
    """Whether the JVM, or the session in it, is gone."""
    try:
        if is_connect(spark):
            # Asking for the version fails if the server has ended; is_stopped covers the client.
            return bool(getattr(spark, "is_stopped", False)) or not spark.version
        return bool(spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001  # no other way
    except Exception:
        # The JVM or the server does not answer.
        return True


def activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread.

    Spark finds a Python data source by the active session of the calling thread, and a thread that
    has created no DataFrame from local data has none.
    """
    if not is_connect(spark):
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # type: ignore[union-attr]  # noqa: SLF001  # as createDataFrame does


def mark_jobs(spark: SparkSession, mark: str) -> None:
    """Mark all jobs of this thread, so that they can be cancelled with their tasks and workers."""
    if is_connect(spark):
        spark.addTag(mark)
    else:
        # Not by a tag: in a classic session it does not reach the threads that collect results.
        spark.sparkContext.setJobGroup(mark, "a processor of headrace", interruptOnCancel=True)


def cancel_jobs(spark: SparkSession, mark: str) -> None:
    """Cancel the jobs with a mark; from any thread."""
    if is_connect(spark):
        spark.interruptTag(mark)
    else:
        spark.sparkContext.cancelJobGroup(mark)


def activate_session_on_write() -> None:
    """Make writers of our format activate their session in the thread that writes."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for writer in (DataFrameWriter, DataStreamWriter):
        if not hasattr(writer.format, "is_of_headrace"):
            writer.format = _with_activation(writer.format)  # type: ignore[method-assign]  # Spark has no hook for it


def _with_activation(original: Any) -> Any:
    @wraps(original)
    def format(self: Any, source: str) -> Any:
        if source == FORMAT:
            activate(self._spark)
        return original(self, source)

    format.is_of_headrace = True  # type: ignore[attr-defined]  # marks it as patched
    return format
