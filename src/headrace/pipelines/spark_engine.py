"""The Spark engine: executors process the records of claims.

The driver sends the records of small claims to executors as Arrow tables (``mapInArrow``), and
gets the outcomes back. Planning a source and a sink would cost more than the work. Executors read
and stage the records of large claims themselves: see ``spark_partitioned``.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import InvalidOption, SparkUnavailable
from headrace.model.pipelines import EngineName
from headrace.model.tokens import claim_token
from headrace.model.url import NODE_SCHEMES, parse_url
from headrace.pipelines.arrow import batch_of, bodies_batch_of, encode_table
from headrace.pipelines.engines import PartitionedClaim, PartitionedOutcome
from headrace.pipelines.invoke import bisect_failures
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import RangeOutcome
from headrace.pipelines.rows import Rows
from headrace.pipelines.source.ranges import SeqRange, split
from headrace.pipelines.spark_connect import (
    activate,
    activate_session_on_write,
    cancel_jobs,
    cores_of,
    has_ended,
    is_session,
    mark_jobs,
    master_of,
)
from headrace.pipelines.spark_partitioned import (
    PARTITION_COLUMNS,
    FrameTask,
    PartitionTask,
    decode_partitions,
)
from headrace.pipelines.spark_session import first_line, require_module, session
from headrace.pipelines.spark_task import (
    CANNOT_LOAD,
    OUTCOME_COLUMNS,
    SerializedProcessor,
    SparkTask,
    decode_outcomes,
)
from headrace.pipelines.store_location import absolute_url, location_of
from headrace.pipelines.time_limits import CallAbandoned, Limit, LimitedThreads, exceeded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

ROWS_PER_TASK = 500
"""The number of rows that is worth another task."""

_NO_PACKAGE = re.compile(r"No module named '(headrace|pyarrow|msgspec)[.']")


_WORKER_ENDED = ("Python worker exited unexpectedly", "ExecutorLostFailure")


class WorkerEnded(Exception):
    """A Python worker of Spark ended before its work was done."""


class SparkEngine:
    """Calls processors in Spark's executors. One session serves all threads."""

    name: EngineName = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cores = cores_of(spark)
        self._lock = threading.Lock()
        self._serialized: dict[Processor, SerializedProcessor] = {}
        self._limited_threads = LimitedThreads()
        # Made once: parsing them from text would take milliseconds for each claim.
        self._outcome_schema, self._partition_schema = (
            _struct(OUTCOME_COLUMNS),
            _struct(PARTITION_COLUMNS),
        )

    @classmethod
    def open(cls, *, master: str | None, spark: Any) -> SparkEngine:
        """An engine on the process's session, started on ``master``, or on the session ``spark``."""
        require_module("pyarrow")
        if spark is None:
            return cls(session(master=master))
        if master is not None:
            raise InvalidOption("the session spark has its master already.", option="master")
        if not is_session(spark):
            raise InvalidOption(f"spark is {spark!r:.80}: give a SparkSession.", option="spark")
        activate_session_on_write()
        return cls(spark)

    def check(self, processor: Processor) -> None:
        """Raise ``InvalidOption`` for a function that cannot be sent to executors."""
        if processor.kind != "frame":
            self._serialize(processor)

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        max_body: int,
        is_separate: bool,
        timeout: float | None,
    ) -> list[RangeOutcome]:
        if processor.kind == "frame":

            def process_all(some: Rows) -> Sequence[str]:
                return self._run_limited(
                    timeout, lambda: self._through_frame(processor, some, max_body)
                )

            return bisect_failures(process_all, rows, self.check_alive)
        task = SparkTask(self._serialize(processor), max_body, is_separate, rows.topic, timeout)
        is_bodies_only = processor.kind == "record" and not processor.takes_record
        frame = self._frame(
            rows,
            tasks=1 if processor.kind == "batch" else self._cores,
            is_bodies_only=is_bodies_only,
        )
        try:
            return decode_outcomes(frame.mapInArrow(task, self._outcome_schema).toArrow())
        except Exception as error:
            raise self._explain(error) from error

    def can_partition(self, processor: Processor, url: str) -> bool:
        """Whether executors can open the database."""
        return parse_url(url).scheme not in ("memory", *NODE_SCHEMES)

    def process_partitioned(
        self,
        processor: Processor,
        claim: PartitionedClaim,
        url: str,
        *,
        max_body: int,
        timeout: float | None,
    ) -> PartitionedOutcome:
        """One task per core reads its partition, processes it and stages the results."""
        if processor.kind == "frame":
            return self._partitioned_through_frame(processor, claim, url, max_body, timeout)
        pa = require_module("pyarrow")
        task = PartitionTask(self._serialize(processor), location_of(url), claim, max_body, timeout)
        records = SeqRange(claim.topic, claim.first_seq, claim.last_seq)
        parts = [{"first": part.first, "last": part.last} for part in split([records], self._cores)]
        frame = self._spark.createDataFrame(pa.Table.from_pylist(parts))
        try:
            return decode_partitions(frame.mapInArrow(task, self._partition_schema).toArrow())
        except Exception as error:
            raise self._explain(error) from error

    def check_alive(self) -> None:
        """Run an empty task: if that fails, no record is to blame."""
        self._limited_threads.check()
        pa = require_module("pyarrow")
        frame = self._spark.createDataFrame(pa.table({"n": [1]}))
        try:
            frame.mapInArrow(_identity, frame.schema).toArrow()
        except Exception as error:
            raise self._explain(error) from error

    def end_thread(self) -> None:
        """End the thread's ``LimitedThread``; the session belongs to no thread."""
        self._limited_threads.end(_do_nothing)

    def _run_limited(self, timeout: float | None, work: Callable[[], T]) -> T:
        """Run ``work``; after ``timeout`` seconds its Spark jobs are cancelled, with their workers."""
        if timeout is None:
            return work()
        mark = f"headrace-{claim_token()}"
        is_late = threading.Event()

        def cancel() -> None:
            is_late.set()
            cancel_jobs(self._spark, mark)

        def marked(limit: Limit) -> T:
            activate(self._spark)
            mark_jobs(self._spark, mark)
            with limit:
                return work()

        try:
            return self._limited_threads.call(marked, timeout, cancel)
        except CallAbandoned:
            raise
        except BaseException as error:  # the error of the cancelled job, or the interrupt
            if is_late.is_set():
                raise exceeded(timeout) from error
            raise

    def _frame(self, rows: Rows, *, tasks: int, is_bodies_only: bool = False) -> DataFrame:
        """The rows as a DataFrame, in order, in as many partitions as they are worth."""
        pa = require_module("pyarrow")
        batch = bodies_batch_of(rows) if is_bodies_only else batch_of(rows)
        frame = self._spark.createDataFrame(pa.Table.from_batches([batch]))
        # Spark makes one partition of neighbouring rows per core; coalesce merges neighbours.
        return frame.coalesce(min(tasks, -(-rows.count // ROWS_PER_TASK)))

    def _through_frame(self, processor: Processor, rows: Rows, max_body: int) -> Sequence[str]:
        result = _call_with_frame(processor, self._frame(rows, tasks=self._cores))
        if result is None:
            return ()
        try:
            return encode_table(result.toArrow(), max_body=max_body)
        except Exception as error:
            raise self._explain(error) from error

    def _partitioned_through_frame(
        self,
        processor: Processor,
        claim: PartitionedClaim,
        url: str,
        max_body: int,
        timeout: float | None,
    ) -> PartitionedOutcome:
        """Read by the source for DataFrames, call the function, and stage its result.

        A failure does not say which record caused it: then the last record counts as failed.
        """
        source = self._spark.read.format("headrace").options(
            url=absolute_url(url),
            topic=claim.topic,
            start=f":{claim.first_seq}",
            end=f":{claim.last_seq}",
        )
        records = source.load()
        if claim.skipped:
            records = records.where(~records["seq"].isin(list(claim.skipped)))
        task = FrameTask(location_of(url), tuple(claim.targets), max_body)

        def work() -> PartitionedOutcome:
            result = _call_with_frame(processor, records)
            if result is None:
                return PartitionedOutcome((), None)
            return decode_partitions(result.mapInArrow(task, self._partition_schema).toArrow())

        try:
            return self._run_limited(timeout, work)
        except BaseException as error:  # the user's code may raise anything
            explained = self._explain(error) if isinstance(error, Exception) else error
            if isinstance(explained, SparkUnavailable):
                raise explained from error
            return PartitionedOutcome((), claim.last_seq)

    def _serialize(self, processor: Processor) -> SerializedProcessor:
        with self._lock:
            serialized = self._serialized.get(processor)
            if serialized is None:
                serialized = self._serialized[processor] = _serialize_processor(processor)
            return serialized

    def _explain(self, error: Exception) -> Exception:
        """A known error of Spark in one line; other errors as they are."""
        if has_ended(self._spark):
            return SparkUnavailable(
                f"the Spark session has ended: {first_line(str(error))}", missing="spark"
            )
        text = str(error)
        if any(message in text for message in _WORKER_ENDED):
            return WorkerEnded(
                "Spark's Python worker ended while it processed this: it crashed, was killed "
                "(perhaps for memory), or the processor ended its process"
            )
        master = master_of(self._spark)
        missing = _NO_PACKAGE.search(text)
        if missing:
            return SparkUnavailable(
                f"the executors of {master} have no {missing[1]} in their Python: install "
                "headrace[spark] there, in the Python that PYSPARK_PYTHON names.",
                missing=missing[1],
            )
        if CANNOT_LOAD in text:
            line = text[text.index(CANNOT_LOAD) :].splitlines()[0]
            return SparkUnavailable(
                f"{line.removeprefix('headrace: ')} (on {master}): install its module there, or "
                "send it with the setting spark.submit.pyFiles.",
                missing="processor",
            )
        return error


def _identity(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _do_nothing() -> None:
    pass


def _struct(columns: Mapping[str, str]) -> Any:
    types = require_module("pyspark.sql.types")
    kinds = {"bigint": types.LongType, "string": types.StringType}
    return types.StructType([types.StructField(name, kinds[columns[name]]()) for name in columns])


def _call_with_frame(processor: Processor, frame: DataFrame) -> DataFrame | None:
    result: DataFrame | None = processor.function(frame)
    if result is not None and not hasattr(result, "mapInArrow"):
        raise TypeError(
            f"a DataFrame processor returns a DataFrame or None, not {type(result).__name__}"
        )
    return result


def _serialize_processor(processor: Processor) -> SerializedProcessor:
    cloudpickle = require_module("pyspark.cloudpickle")
    pickled = None
    if processor.reference is None:
        try:
            pickled = cloudpickle.dumps(processor.function)
        except Exception as error:
            # An object that the function refers to may raise anything.
            raise InvalidOption(
                f"processor {processor.name} cannot be sent to Spark's executors: "
                f"{type(error).__name__}: {error}. Let it make what it needs where it runs, or "
                "run it with engine='inline'.",
                option="processor",
            ) from error
    return SerializedProcessor(
        processor.kind,
        processor.reference,
        pickled,
        tuple(path for path in sys.path if path),
        processor.name,
    )
