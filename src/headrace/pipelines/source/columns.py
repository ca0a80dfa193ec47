"""Records as Arrow columns, made page by page and never record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.values import StoredPage
from headrace.errors import MalformedRecord

TYPES = {
    "topic": pa.string(),
    "seq": pa.int64(),
    "id": pa.string(),
    "ts": pa.timestamp("us", tz="UTC"),
    "headers": pa.string(),
    "body": pa.string(),
}


class SourceLines:
    """The records of a page, as columns."""

    def __init__(self, page: StoredPage) -> None:
        self.topic = page.topic
        self.batches = page.batches
        self.first = page.first
        self.count = page.last - page.first + 1
        # The first and the last batch may hold records that were not requested.
        self._skipped = page.first - page.batches[0].base_seq
        self.stored = sum(batch.count for batch in page.batches)
        self._counts = [batch.count for batch in page.batches]

    def column(self, name: str) -> pa.Array:
        """One of the columns that every record has."""
        return _COLUMN_MAKERS[name](self)

    def topics(self) -> pa.Array:
        return pa.repeat(pa.scalar(self.topic), self.count)

    def seqs(self) -> pa.Array:
        return pa.array(np.arange(self.first, self.first + self.count))

    def times(self) -> pa.Array:
        times = np.array([batch.ts for batch in self.batches]) * 1000
        return self.requested(pa.array(np.repeat(times, self._counts))).view(TYPES["ts"])

    def ids(self) -> pa.Array:
        times = pa.array([str(batch.ts) for batch in self.batches])
        indexes = pa.array(np.repeat(np.arange(len(self.batches)), self._counts))
        return pc.binary_join_element_wise(
            times.take(self.requested(indexes)), self.seqs().cast(pa.string()), "-"
        )

    def bodies(self) -> pa.Array:
        return self.requested(self._split(self.text()))

    def headers(self) -> pa.Array:
        """JSON objects; null for records that have none."""
        if all(batch.headers is None for batch in self.batches):
            return pa.nulls(self.count, pa.string())
        texts = [
            b"null" + b"\nnull" * (batch.count - 1) if batch.headers is None else batch.headers
            for batch in self.batches
        ]
        lines = self.requested(self._split(b"\n".join(texts)))
        return pc.if_else(pc.equal(lines, "null"), pa.scalar(None, pa.string()), lines)

    def _split(self, text: bytes) -> pa.Array:
        ends = np.array([0, len(text)], np.int32)
        whole = pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(text))
        lines = pc.split_pattern(whole, "\n").flatten()
        if len(lines) != self.stored:
            raise self.malformed(len(lines))
        return lines

    def malformed(self, line_count: int) -> MalformedRecord:
        """The error for stored batches that have fewer or more lines than records."""
        return MalformedRecord(
            f"the rows of topic {self.topic!r} from record :{self.batches[0].base_seq} on have "
            f"{line_count} lines where {self.stored} were written: were they changed by hand?",
            topic=self.topic,
        )

    def text(self) -> bytes:
        """The stored bodies of the batches as JSON lines, including records not requested."""
        return b"\n".join([batch.body for batch in self.batches])

    def requested(self, column: Any) -> Any:
        """The requested records of a column or table that has all records of the batches."""
        return column.slice(self._skipped, self.count)


_COLUMN_MAKERS: dict[str, Callable[[SourceLines], pa.Array]] = {
    "topic": SourceLines.topics,
    "seq": SourceLines.seqs,
    "id": SourceLines.ids,
    "ts": SourceLines.times,
    "headers": SourceLines.headers,
    "body": SourceLines.bodies,
}


class SourceColumns:
    """Makes Arrow batches of the plain columns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.schema = pa.schema([(name, TYPES[name]) for name in names])

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        lines = SourceLines(page)
        arrays = [lines.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
