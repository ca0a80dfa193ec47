"""The readers of Spark's Python data source API, over the plain classes beside this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
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
from headrace.pipelines.places import Place, opened, place_of
from headrace.pipelines.plainly import plainly, plainly_each
from headrace.pipelines.source.batch import BatchRead
from headrace.pipelines.source.columns import RecordColumns
from headrace.pipelines.source.filters import Condition
from headrace.pipelines.source.options import SourceOptions, source_options
from headrace.pipelines.source.pages import pages
from headrace.pipelines.source.ranges import SeqRange
from headrace.pipelines.source.stream import StreamRead
from headrace.pipelines.source.typed import TypedColumns

_SPARK_TYPES = {
    "topic": StringType(),
    "seq": LongType(),
    "id": StringType(),
    "ts": TimestampType(),
    "headers": StringType(),
    "body": StringType(),
}
_SIGNS = {
    datasource.EqualTo: "=",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
    datasource.In: "in",
}


class Part(InputPartition):
    """A range for one task, and where its store is."""

    def __init__(self, place: Place, records: SeqRange, proc: str = "") -> None:
        self.place = place
        self.records = records
        self.proc = proc


def record_schema(columns: Sequence[str]) -> StructType:
    """The columns of records, as Spark has them."""
    return StructType([StructField(name, _SPARK_TYPES[name]) for name in columns])


class _Decoding:
    """What both readers do in the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.place = place_of(options.url)
        self.schema = schema
        self._columns()  # a schema that cannot be is refused here, not in a task

    def _columns(self) -> RecordColumns | TypedColumns:
        if self.schema == record_schema(self.options.columns):
            return RecordColumns(self.options.columns)
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        return TypedColumns(wanted, self.options.corrupt_column)

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Part):
            return  # Spark makes up a partition where there is none
        columns = self._columns()
        store = opened(partition.place)
        for page in pages(store, partition.records, partition.proc):
            yield columns.batch(page)


class BatchReader(_Decoding, DataSourceReader):
    """``spark.read.format("headrace")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(source_options(given, is_stream=False), schema)
        self.conditions: list[Condition] = []
        self.pushFilters = _Pushing(self)  # type: ignore[method-assign]  # see there

    def is_ours(self, column: str) -> bool:
        """Whether a column is one of the record, and not a field of the body."""
        if self.schema == record_schema(self.options.columns):
            return True
        return column.startswith("_") and column[1:] in _SPARK_TYPES

    @plainly
    def partitions(self) -> list[InputPartition]:
        planned = BatchRead(opened(self.place), self.options).ranges(self.conditions)
        return [Part(self.place, records) for records in planned]


class _Pushing:
    """``pushFilters`` of a reader, as Spark wants it where push-down is off.

    It refuses readers with a ``pushFilters`` of their own then, and knows them by the function
    behind the method. A session that was not made by us should be able to read all the same.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        for each in filters:
            sign = _SIGNS.get(type(each))
            attribute: tuple[str, ...] = getattr(each, "attribute", ())
            if sign is not None and len(attribute) == 1 and self._reader.is_ours(attribute[0]):
                value: Any = getattr(each, "value", None)
                self._reader.conditions.append(Condition(attribute[0], sign, value))
        return filters  # Spark looks at each record again: bounds need not be exact


class StreamReader(_Decoding, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream.format("headrace")``."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(source_options(given, is_stream=True), schema)
        self._opened: StreamRead | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def stream(self) -> StreamRead:
        if self._opened is None:
            self._opened = StreamRead(opened(self.place), self.options)
        return self._opened

    @plainly
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return self.stream.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.max_records
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @plainly
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.stream.latest(start, most)

    @plainly
    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return self.stream.newest()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.stream.end_at_present()

    @plainly
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [
            Part(self.place, records, self.options.proc_of(records.topic))
            for records in self.stream.ranges(start, end)
        ]

    @plainly
    def commit(self, end: dict[str, int]) -> None:
        self.stream.commit(end)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that cannot be: it says why when it is asked for anything.

    Raised by ``streamReader`` the reason would be lost: Spark then goes on to stop the reader that
    it has not got, and reports that instead.
    """

    def __init__(self, reason: HeadraceError) -> None:
        self.reason = reason

    def _refuse(self, *args: Any) -> Any:
        raise self.reason.with_traceback(None)

    # Of any form, since none of them is carried out.
    initialOffset: Any = _refuse  # noqa: N815
    latestOffset: Any = _refuse  # noqa: N815
    partitions: Any = _refuse
    read: Any = _refuse
    getDefaultReadLimit: Any = _refuse  # noqa: N815
    prepareForTriggerAvailableNow: Any = _refuse  # noqa: N815
