"""The writers of Spark's Python data source API, over the plain classes beside this one."""

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
from headrace.contract.values import Part
from headrace.errors import InvalidOption
from headrace.model.url import parse_url
from headrace.pipelines.places import absolute, opened, place_of
from headrace.pipelines.plainly import plainly
from headrace.pipelines.sink import publishing
from headrace.pipelines.sink.options import SinkOptions, sink_options
from headrace.pipelines.sink.publishing import Message
from headrace.pipelines.sink.writer import TaskWriter, columns_of
from headrace.stores import open_store

# Stores that this process has seen, so that their tables are made once.
_made: set[str] = set()


class TaskMessage(WriterCommitMessage):
    """A message as Spark wants it."""

    def __init__(self, message: Message) -> None:
        self.message = message


class _Writing:
    """What both writers do in the executors."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self._refuse_variants(schema)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        columns_of(options, self.schema)  # what cannot be written is refused here, not in a task
        _make(options.url)
        self.place = place_of(options.url)

    @property
    def store(self) -> Store:
        return opened(self.place)

    def stage(self, token: str, parts: Sequence[Part]) -> None:
        store = self.store
        store.run(store.stage(token, parts))

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        task = TaskContext.get()
        assert task is not None, "Spark calls this in a task"
        writer = TaskWriter(self.options, self.schema, self.stage)
        staged = writer.write(iterator, task.partitionId())
        return TaskMessage(Message(staged, task.getLocalProperty("sql.streaming.queryId") or ""))

    def _refuse_variants(self, schema: StructType) -> None:
        for field in schema.fields:
            if "variant" in field.dataType.simpleString():
                raise InvalidOption(
                    f"column {field.name!r} is a VARIANT: write to_json({field.name}) instead.",
                    option=field.name,
                )


class BatchWriter(_Writing, DataSourceArrowWriter):
    """``df.write.format("headrace")``: all of it or nothing, once per job."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption(
                "a topic is only ever added to, and so is a queue: write with mode('append').",
                option="mode",
            )
        super().__init__(sink_options(given, is_stream=False), schema)
        # Made when the write is planned: whoever commits it later has the same.
        self.job = uuid.uuid4().hex

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publishing.publish_job(self.store, self.options, _ours(messages), self.job)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        publishing.discard(self.store, _ours(messages))


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """``df.writeStream.format("headrace")``: each batch once, whatever happens between."""

    def __init__(self, given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        options = sink_options(given, is_stream=True)
        if overwrite and options.mode != "upsert":
            raise InvalidOption(
                "with output mode complete each batch holds all that the last one held, and would "
                "be added to it: use append, or write to a queue with the option mode=upsert.",
                option="mode",
            )
        super().__init__(options, schema)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        publishing.publish_batch(self.store, self.options, _ours(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        publishing.discard(self.store, _ours(messages))


def _ours(messages: Sequence[WriterCommitMessage | None]) -> list[Message | None]:
    return [each.message if isinstance(each, TaskMessage) else None for each in messages]


def _make(url: str) -> None:
    """Make a store's tables if there are none: the first write may be the first of all."""
    where = absolute(url)
    parts = parse_url(where)
    is_gone = parts.scheme == "sqlite" and not Path(parts.location).exists()
    if where not in _made or is_gone:
        open_store(where).close()
        _made.add(where)
