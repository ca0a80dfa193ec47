"""The readers of Spark's Python data source API, over the plain classes of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from headrace.errors import HeadraceError
from headrace.pipelines.error_messages import without_traceback, without_traceback_each
from headrace.pipelines.source.batch import BatchRead
from headrace.pipelines.source.columns import SourceColumns
from headrace.pipelines.source.options import SourceOptions, source_options
from headrace.pipelines.source.pages import pages
from headrace.pipelines.source.ranges import SeqRange
from headrace.pipelines.source.stream import StreamRead
from headrace.pipelines.source.typed import TypedColumns
from headrace.pipelines.store_location import StoreLocation, location_of, open_at

_SPARK_TYPES = {
    "topic": StringType(),
    "seq": LongType(),
    "id": StringType(),
    "ts": TimestampType(),
    "headers": StringType(),
    "body": StringType(),
}


class SourcePart(InputPartition):
    """A range for one task, and the location of its store."""

    def __init__(self, location: StoreLocation, records: SeqRange, proc: str = "") -> None:
        self.location = location
        self.records = records
        self.proc = proc


def record_schema(columns: Sequence[str]) -> StructType:
    """The columns of records, as a Spark schema."""
    return StructType([StructField(name, _SPARK_TYPES[name]) for name in columns])


class _ExecutorReads:
    """The part of both readers that runs in executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.location = location_of(options.url)
        self.schema = schema
        self._columns()  # refuses an unsupported schema here, not in a task

    def _columns(self) -> SourceColumns | TypedColumns:
        if self.schema == record_schema(self.options.columns):
            return SourceColumns(self.options.columns)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        return TypedColumns(schema, self.options.corrupt_column)

    @without_traceback_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SourcePart):
            return  # Spark invents a partition if there is none
        columns = self._columns()
        store = open_at(partition.location)
        for page in pages(store, partition.records, partition.proc):
            yield columns.batch(page)


class BatchReader(_ExecutorReads, DataSourceReader):
    """``spark.read.format("headrace")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(source_options(given, is_stream=False), schema)

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        ranges = BatchRead(open_at(self.location), self.options).ranges()
        return [SourcePart(self.location, records) for records in ranges]


class StreamReader(_ExecutorReads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("headrace")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(source_options(given, is_stream=True), schema)
        self._opened: StreamRead | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def stream(self) -> StreamRead:
        if self._opened is None:
            self._opened = StreamRead(open_at(self.location), self.options)
        return self._opened

    @without_traceback
    def initialOffset(self) -> dict[str, int]:
        return self.stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        max_rows = self.options.max_records
        return ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)

    @without_traceback
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.stream.latest(start, max_rows)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, int]:
        return self.stream.newest()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self.stream.end_at_present()

    @without_traceback
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [
            SourcePart(self.location, records, self.options.proc_of(records.topic))
            for records in self.stream.ranges(start, end)
        ]

    @without_traceback
    def commit(self, end: dict[str, int]) -> None:
        self.stream.commit(end)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream with invalid options: every method raises the reason.

    If ``streamReader`` raised the reason, it would be lost: Spark would then try to stop the
    reader that it does not have, and report that instead.
    """

    def __init__(self, reason: HeadraceError) -> None:
        self.reason = reason

    def _refuse(self, *args: Any) -> Any:
        raise self.reason.with_traceback(None)

    # The signatures do not matter, since no method does anything else.
    initialOffset: Any = _refuse
    latestOffset: Any = _refuse
    partitions: Any = _refuse
    read: Any = _refuse
    getDefaultReadLimit: Any = _refuse
    prepareForTriggerAvailableNow: Any = _refuse
