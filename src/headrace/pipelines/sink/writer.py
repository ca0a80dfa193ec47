"""What a task does: stage the rows of its partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.sinks import QUEUE, Staged, StagedCount
from headrace.contract.values import CommitPart
from headrace.errors import InvalidBody, InvalidInput
from headrace.model.names import writable_topic
from headrace.model.tokens import claim_token
from headrace.pipelines.sink.columns import DocumentColumns, SinkColumns, SinkLines
from headrace.pipelines.sink.json_text import first_duplicate
from headrace.pipelines.sink.options import SinkOptions
from headrace.pipelines.sink.rows import RowBuilder, check_header_lines, check_lines, check_size

# How much is staged in one statement: enough to make the round trip cheap, and small in memory.
FLUSH_BYTES = 4 * 1024 * 1024

Stage = Callable[[str, Sequence[CommitPart]], None]


class TaskWriter:
    """Stages the rows of one attempt of a task, under a unique token."""

    def __init__(self, options: SinkOptions, schema: pa.Schema, stage: Stage) -> None:
        self.token = claim_token()
        self._options = options
        self._stage = stage
        self._columns = columns_of(options, schema)
        self._builders: dict[str, RowBuilder] = {}
        self._unstaged: list[CommitPart] = []
        self._bytes = 0
        self._counts: dict[str, StagedCount] = {}

    def write(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Staged:
        """Stage all rows; an error names the row, counted from 0 in its partition."""
        before = 0
        for batch in batches:
            try:
                self._add(batch)
            except InvalidInput as error:
                raise _with_row(error, before, partition) from error
            before += len(batch)
        for builder in self._builders.values():
            self._stage_later(builder.remaining())
        self._flush()
        return Staged(self.token, tuple(self._counts.values()))

    def _add(self, batch: pa.RecordBatch) -> None:
        if isinstance(self._columns, DocumentColumns):
            self._add_documents(batch, self._columns)
        else:
            self._add_records(self._columns.lines(batch))

    def _add_documents(self, batch: pa.RecordBatch, columns: DocumentColumns) -> None:
        payloads = columns.payloads(batch)
        bodies = payloads.bodies
        if not payloads.is_checked:
            bodies = check_lines(bodies, "payload", is_record=False)
        check_size(bodies, "payload", self._options.max_body)
        documents = columns.documents(batch, bodies)
        self._add_lines(QUEUE + self._options.queue, documents, None)

    def _add_records(self, lines: SinkLines) -> None:
        bodies = lines.bodies
        if not lines.is_checked:
            bodies = check_lines(bodies, "body", is_record=True)
        check_size(bodies, "body", self._options.max_body)
        headers = check_header_lines(lines.headers)
        if lines.topics is None:
            self._add_lines(self._options.topic, bodies, headers)
            return
        for topic in pc.unique(lines.topics).to_pylist():
            writable_topic(topic)
            is_topic = pc.equal(lines.topics, topic)
            topic_headers = None if headers is None else headers.filter(is_topic)
            self._add_lines(topic, bodies.filter(is_topic), topic_headers)

    def _add_lines(self, target: str, bodies: pa.Array, headers: pa.Array | None) -> None:
        if target not in self._builders:
            self._builders[target] = RowBuilder(target)
        self._stage_later(self._builders[target].add(bodies, headers))

    def _stage_later(self, parts: Iterable[CommitPart]) -> None:
        for part in parts:
            before = self._counts.get(part.topic, StagedCount(part.topic, 0, 0))
            self._counts[part.topic] = StagedCount(
                part.topic, before.rows + 1, before.records + part.count
            )
            self._unstaged.append(part)
            self._bytes += len(part.body)
            if self._bytes >= FLUSH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._unstaged:
            self._stage(self.token, self._unstaged)
            self._unstaged, self._bytes = [], 0


def columns_of(options: SinkOptions, schema: pa.Schema) -> SinkColumns | DocumentColumns:
    """The mapping of a DataFrame's columns; refuses a schema that cannot be written."""
    if (duplicate := first_duplicate(schema.names)) is not None:
        raise InvalidBody(
            f"there are two columns {duplicate!r}: rename or drop one of them.",
            path=duplicate,
            column=duplicate,
        )
    return (DocumentColumns if options.queue else SinkColumns)(options, schema)


def _with_row(error: InvalidInput, before: int, partition: int) -> InvalidInput:
    """The error with the number of the row in the whole partition."""
    row = error.details.get("row")
    where = f"rows {before} and on" if row is None else f"row {before + row}"
    details = {**error.details, "partition": partition}
    if row is not None:
        details["row"] = before + row
    return type(error)(
        f"{where} of partition {partition}: {error.message} Nothing was written.", **details
    )
