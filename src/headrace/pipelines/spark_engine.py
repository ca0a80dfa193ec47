"""The Spark engine: a claim goes to the executors as Arrow, and comes back as pieces.

Small claims travel through the driver: no source or sink has to be planned for them, which
would cost more than the work (``mapInArrow`` on a table that is at hand). Of large ones executors
are told the place, and read and stage by themselves: see ``spark_spans``.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidOption, SparkUnavailable
from headrace.model.url import parse_url
from headrace.pipelines.arrow import bare_batch_of, batch_of, lines_of_table
from headrace.pipelines.calling import CULPRIT, bisected
from headrace.pipelines.engines import EngineName, Span, SpanOutcome
from headrace.pipelines.places import absolute, place_of
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import Piece
from headrace.pipelines.rows import Rows
from headrace.pipelines.session import first_line, need_spark, session
from headrace.pipelines.source.ranges import SeqRange, split
from headrace.pipelines.spark_spans import OUTCOME as SPAN_OUTCOME
from headrace.pipelines.spark_spans import FrameTask, SpanTask
from headrace.pipelines.spark_spans import decoded as decoded_spans
from headrace.pipelines.spark_task import CANNOT_LOAD, OUTCOME, Shipped, Task, decoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_TASK = 500
"""Fewer are not worth a second task."""

_NO_PACKAGE = re.compile(r"No module named '(headrace|pyarrow|msgspec)[.']")


class SparkEngine:
    """Calls processors in Spark's executors. One session serves all threads."""

    name: EngineName = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cores = max(spark.sparkContext.defaultParallelism, 1)
        self._lock = threading.Lock()
        self._shipped: dict[Processor, Shipped] = {}
        # Made once: Spark takes milliseconds to read them as text, for each claim.
        self._outcome, self._span_outcome = _struct(OUTCOME), _struct(SPAN_OUTCOME)

    @classmethod
    def open(cls, *, master: str | None, spark: Any) -> SparkEngine:
        """On a master, in the process's session; or in a session that is given."""
        need_spark("pyarrow")
        if spark is None:
            return cls(session(master=master))
        if master is not None:
            raise InvalidOption("a session that is given has its master already.", option="master")
        if not hasattr(spark, "sparkContext"):
            raise InvalidOption(f"spark is {spark!r:.80}: give a SparkSession.", option="spark")
        return cls(spark)

    def check(self, processor: Processor) -> None:
        """``InvalidOption`` for a function that cannot be sent to executors."""
        if processor.kind != "frame":
            self._ship(processor)

    def process(
        self, processor: Processor, rows: Rows, *, max_body: int, is_separate: bool
    ) -> list[Piece]:
        if processor.kind == "frame":

            def whole(some: Rows) -> Sequence[str]:
                return self._through_frame(processor, some, max_body)

            return bisected(whole, rows)
        task = Task(self._ship(processor), max_body, is_separate, rows.topic)
        is_bare = processor.kind == "record" and not processor.takes_record
        frame = self._frame(
            rows, tasks=1 if processor.kind == "batch" else self._cores, is_bare=is_bare
        )
        try:
            return decoded(frame.mapInArrow(task, self._outcome).toArrow())
        except Exception as error:
            raise self._explained(error) from error

    def takes_spans(self, processor: Processor, url: str) -> bool:
        """Of stores that other processes can open."""
        return parse_url(url).scheme != "memory"

    def process_span(
        self, processor: Processor, span: Span, url: str, *, max_body: int
    ) -> SpanOutcome:
        """A task for each core reads its stretch, processes it and stages the results."""
        if processor.kind == "frame":
            return self._span_through_frame(processor, span, url, max_body)
        pa = need_spark("pyarrow")
        task = SpanTask(self._ship(processor), place_of(url), span, max_body)
        whole = SeqRange(span.topic, span.first_seq, span.last_seq)
        parts = [{"first": part.first, "last": part.last} for part in split([whole], self._cores)]
        frame = self._spark.createDataFrame(pa.Table.from_pylist(parts))
        try:
            return decoded_spans(frame.mapInArrow(task, self._span_outcome).toArrow())
        except Exception as error:
            raise self._explained(error) from error

    def rest(self) -> None:
        """Nothing of the session belongs to one thread."""

    def _frame(self, rows: Rows, *, tasks: int, is_bare: bool = False) -> DataFrame:
        """The rows as a DataFrame, in order, for no more tasks than they are worth."""
        pa = need_spark("pyarrow")
        batch = bare_batch_of(rows) if is_bare else batch_of(rows)
        frame = self._spark.createDataFrame(pa.Table.from_batches([batch]))
        # Spark makes a partition for each core, of neighbours, and coalesce joins neighbours.
        return frame.coalesce(min(tasks, -(-rows.count // ROWS_PER_TASK)))

    def _through_frame(self, processor: Processor, rows: Rows, max_body: int) -> Sequence[str]:
        result = _called(processor, self._frame(rows, tasks=self._cores))
        if result is None:
            return ()
        try:
            return lines_of_table(result.toArrow(), max_body=max_body)
        except Exception as error:
            raise self._explained(error) from error

    def _span_through_frame(
        self, processor: Processor, span: Span, url: str, max_body: int
    ) -> SpanOutcome:
        """The source for DataFrames, the function, and what the sink for DataFrames is made of.

        Whatever fails does not say which record it was: then all of them are suspected.
        """
        source = self._spark.read.format("headrace").options(
            url=absolute(url),
            topic=span.topic,
            start=f":{span.first_seq}",
            end=f":{span.last_seq}",
        )
        records = source.load()
        if span.skipped:
            records = records.where(~records["seq"].isin(list(span.skipped)))
        task = FrameTask(place_of(url), tuple(span.targets), max_body)
        try:
            result = _called(processor, records)
            if result is None:
                return SpanOutcome((), None)
            return decoded_spans(result.mapInArrow(task, self._span_outcome).toArrow())
        except CULPRIT as error:
            explained = self._explained(error) if isinstance(error, Exception) else error
            if isinstance(explained, SparkUnavailable):
                raise explained from error
            return SpanOutcome((), span.last_seq)

    def _ship(self, processor: Processor) -> Shipped:
        with self._lock:
            found = self._shipped.get(processor)
            if found is None:
                found = self._shipped[processor] = _shipped(processor)
            return found

    def _is_over(self) -> bool:
        """Whether the JVM, or the session in it, is gone."""
        try:
            return bool(self._spark.sparkContext._jsc.sc().isStopped())  # noqa: SLF001  # no other way
        except Exception:
            # There is nobody left to ask.
            return True

    def _explained(self, error: Exception) -> Exception:
        """An error of Spark's in a line, where it is one we know."""
        if self._is_over():
            return SparkUnavailable(
                f"the Spark session has ended: {first_line(str(error))}", missing="spark"
            )
        text = str(error)
        master = self._spark.sparkContext.master
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


def _struct(columns: Mapping[str, str]) -> Any:
    types = need_spark("pyspark.sql.types")
    kinds = {"bigint": types.LongType, "string": types.StringType}
    return types.StructType([types.StructField(name, kinds[columns[name]]()) for name in columns])


def _called(processor: Processor, frame: DataFrame) -> DataFrame | None:
    result: DataFrame | None = processor.function(frame)
    if result is not None and not hasattr(result, "mapInArrow"):
        raise TypeError(
            f"a DataFrame processor returns a DataFrame or None, not {type(result).__name__}"
        )
    return result


def _shipped(processor: Processor) -> Shipped:
    cloudpickle = need_spark("pyspark.cloudpickle")
    pickled = None
    if processor.reference is None:
        try:
            pickled = cloudpickle.dumps(processor.function)
        except Exception as error:
            # Whatever it holds on to raises what it likes.
            raise InvalidOption(
                f"processor {processor.name} cannot be sent to Spark's executors: "
                f"{type(error).__name__}: {error}. Let it make what it needs where it runs, or "
                "run it with engine='inline'.",
                option="processor",
            ) from error
    return Shipped(
        processor.kind,
        processor.reference,
        pickled,
        tuple(path for path in sys.path if path),
        processor.name,
    )
