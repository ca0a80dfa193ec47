"""What a task does: rows in, staged rows out, and a message about them for the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.sinks import QUEUE, Staged, StagedCount
from headrace.contract.values import Part
from headrace.errors import InvalidInput
from headrace.model.names import check_topic
from headrace.model.tokens import claim_token
from headrace.pipelines.sink.columns import DocumentColumns, Lines, RecordColumns
from headrace.pipelines.sink.options import SinkOptions
from headrace.pipelines.sink.rows import Gathering, check_size, checked, checked_headers

# As much as is sent in one go: enough that the way does not count, little enough to hold.
FLUSH_BYTES = 4 * 1024 * 1024

Stage = Callable[[str, Sequence[Part]], None]


class TaskWriter:
    """Stages the rows of one attempt of a task, under a token that nobody else has."""

    def __init__(self, options: SinkOptions, schema: pa.Schema, stage: Stage) -> None:
        self.token = claim_token()
        self._options = options
        self._stage = stage
        self._columns = columns_of(options, schema)
        self._gathering: dict[str, Gathering] = {}
        self._waiting: list[Part] = []
        self._bytes = 0
        self._counts: dict[str, StagedCount] = {}

    def write(self, batches: Iterable[pa.RecordBatch], partition: int = 0) -> Staged:
        """Stage all rows; what went wrong names the row, counted from 0 in its partition."""
        before = 0
        for batch in batches:
            try:
                self._add(batch)
            except InvalidInput as error:
                raise _placed(error, before, partition) from error
            before += len(batch)
        for gathering in self._gathering.values():
            self._take(gathering.rest())
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
            bodies = checked(bodies, "payload", is_record=False)
        check_size(bodies, "payload", self._options.max_body)
        documents = columns.documents(batch, bodies)
        self._gather(QUEUE + self._options.queue, documents, None)

    def _add_records(self, lines: Lines) -> None:
        bodies = lines.bodies
        if not lines.is_checked:
            bodies = checked(bodies, "body", is_record=True)
        check_size(bodies, "body", self._options.max_body)
        headers = checked_headers(lines.headers)
        if lines.topics is None:
            self._gather(self._options.topic, bodies, headers)
            return
        for topic in pc.unique(lines.topics).to_pylist():
            check_topic(topic)
            is_mine = pc.equal(lines.topics, topic)
            beside = None if headers is None else headers.filter(is_mine)
            self._gather(topic, bodies.filter(is_mine), beside)

    def _gather(self, target: str, bodies: pa.Array, headers: pa.Array | None) -> None:
        if target not in self._gathering:
            self._gathering[target] = Gathering(target)
        self._take(self._gathering[target].add(bodies, headers))

    def _take(self, parts: Iterable[Part]) -> None:
        for part in parts:
            before = self._counts.get(part.topic, StagedCount(part.topic, 0, 0))
            self._counts[part.topic] = StagedCount(
                part.topic, before.rows + 1, before.records + part.count
            )
            self._waiting.append(part)
            self._bytes += len(part.body)
            if self._bytes >= FLUSH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._stage(self.token, self._waiting)
            self._waiting, self._bytes = [], 0


def columns_of(options: SinkOptions, schema: pa.Schema) -> RecordColumns | DocumentColumns:
    """What a DataFrame's columns are; refuses a schema that cannot be written."""
    return (DocumentColumns if options.queue else RecordColumns)(options, schema)


def _placed(error: InvalidInput, before: int, partition: int) -> InvalidInput:
    """The error with the row's place in the whole partition."""
    row = error.details.get("row")
    where = f"rows {before} and on" if row is None else f"row {before + row}"
    details = {**error.details, "partition": partition}
    if row is not None:
        details["row"] = before + row
    return type(error)(
        f"{where} of partition {partition}: {error.message} Nothing was written.", **details
    )
