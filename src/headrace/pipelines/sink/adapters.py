"""The writers of Spark's Python data source API, over the plain classes of this package."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.contract.store import Store
from headrace.contract.values import CommitPart
from headrace.errors import InvalidOption
from headrace.model.url import parse_url
from headrace.pipelines.error_messages import without_traceback
from headrace.pipelines.sink import publish
from headrace.pipelines.sink.options import SinkOptions, sink_options
from headrace.pipelines.sink.publish import PublishMessage
from headrace.pipelines.sink.writer import TaskWriter, columns_of
from headrace.pipelines.store_location import absolute_url, location_of, open_at
from headrace.stores import open_store

# URLs whose tables this process has created or found.
_created: set[str] = set()


class TaskMessage(WriterCommitMessage):
    """A ``PublishMessage`` in the class that Spark requires."""

    def __init__(self, message: PublishMessage) -> None:
        self.message = message


class _ExecutorWrites:
    """The part of both writers that runs in executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self._refuse_variants(schema)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        columns_of(options, self.schema)  # refuses an unsupported schema here, not in a task
        _create_tables(options.url)
        self.location = location_of(options.url)

    @property
    def store(self) -> Store:
        return open_at(self.location)

    def stage(self, token: str, parts: Sequence[CommitPart]) -> None:
        store = self.store
        store.run(store.sinks.stage(token, parts))

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        task = TaskContext.get()
        assert task is not None, "Spark calls this in a task"
        writer = TaskWriter(self.options, self.schema, self.stage)
        staged = writer.write(iterator, task.partitionId())
        return TaskMessage(
            PublishMessage(staged, task.getLocalProperty("sql.streaming.queryId") or "")
        )

    def _refuse_variants(self, schema: StructType) -> None:
        for field in schema.fields:
            if "variant" in field.dataType.simpleString():
                raise InvalidOption(
                    f"column {field.name!r} is a VARIANT: write to_json({field.name}) instead.",
                    option=field.name,
                )


class BatchWriter(_ExecutorWrites, DataSourceArrowWriter):
    """``df.write.format("headrace")``: atomic, and once per job."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption(
                "records and items can only be added, not overwritten: write with mode('append').",
                option="mode",
            )
        super().__init__(sink_options(given, is_stream=False), schema)
        # Made when the write is planned, so that every commit of this job has the same key.
        self.job = uuid.uuid4().hex

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish.publish_job(self.store, self.options, _publish_messages(messages), self.job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        publish.discard(self.store, _publish_messages(messages))


class StreamWriter(_ExecutorWrites, DataSourceStreamArrowWriter):
    """``df.writeStream.format("headrace")``: each batch once, also after failures."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        options = sink_options(given, is_stream=True)
        if overwrite and options.mode != "upsert":
            raise InvalidOption(
                "with output mode complete each batch repeats the rows of the last one, which "
                "would be added again: use append, or write to a queue with the option mode=upsert.",
                option="mode",
            )
        super().__init__(options, schema)

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        publish.publish_batch(self.store, self.options, _publish_messages(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        publish.discard(self.store, _publish_messages(messages))


def _publish_messages(
    messages: Sequence[WriterCommitMessage | None],
) -> list[PublishMessage | None]:
    return [each.message if isinstance(each, TaskMessage) else None for each in messages]


def _create_tables(url: str) -> None:
    """Create a store's tables if there are none: this may be the first write to the store."""
    absolute = absolute_url(url)
    parts = parse_url(absolute)
    is_missing = parts.scheme == "sqlite" and not Path(parts.location).exists()
    if absolute not in _created or is_missing:
        open_store(absolute).close()
        _created.add(absolute)
