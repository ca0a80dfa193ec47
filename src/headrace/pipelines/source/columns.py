"""Records as Arrow columns, made page by page and never one by one."""

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


class Lines:
    """The records of a page: their bodies, and what else is known of each."""

    def __init__(self, page: StoredPage) -> None:
        self.topic = page.topic
        self.batches = page.batches
        self.first = page.first
        self.count = page.last - page.first + 1
        # The first and the last row may hold records on either side that were not asked for.
        self._skipped = page.first - page.batches[0].base_seq
        self.stored = sum(batch.count for batch in page.batches)
        self._counts = [batch.count for batch in page.batches]

    def column(self, name: str) -> pa.Array:
        """One of the columns that every record has."""
        return _MAKERS[name](self)

    def topics(self) -> pa.Array:
        return pa.repeat(pa.scalar(self.topic), self.count)

    def seqs(self) -> pa.Array:
        return pa.array(np.arange(self.first, self.first + self.count))

    def times(self) -> pa.Array:
        times = np.array([batch.ts for batch in self.batches]) * 1000
        return self.asked(pa.array(np.repeat(times, self._counts))).view(TYPES["ts"])

    def ids(self) -> pa.Array:
        times = pa.array([str(batch.ts) for batch in self.batches])
        places = pa.array(np.repeat(np.arange(len(self.batches)), self._counts))
        return pc.binary_join_element_wise(
            times.take(self.asked(places)), self.seqs().cast(pa.string()), "-"
        )

    def bodies(self) -> pa.Array:
        return self.asked(self._split(self.text()))

    def headers(self) -> pa.Array:
        """JSON objects; null for records that have none."""
        if all(batch.headers is None for batch in self.batches):
            return pa.nulls(self.count, pa.string())
        texts = [
            b"null" + b"\nnull" * (batch.count - 1) if batch.headers is None else batch.headers
            for batch in self.batches
        ]
        lines = self.asked(self._split(b"\n".join(texts)))
        return pc.if_else(pc.equal(lines, "null"), pa.scalar(None, pa.string()), lines)

    def _split(self, text: bytes) -> pa.Array:
        ends = np.array([0, len(text)], np.int32)
        whole = pa.StringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(text))
        lines = pc.split_pattern(whole, "\n").flatten()
        if len(lines) != self.stored:
            raise self.malformed(len(lines))
        return lines

    def malformed(self, found: int) -> MalformedRecord:
        """That the stored rows have not as many lines as records."""
        return MalformedRecord(
            f"the rows of topic {self.topic!r} from record :{self.batches[0].base_seq} on have "
            f"{found} lines where {self.stored} were written: were they changed by hand?",
            topic=self.topic,
        )

    def text(self) -> bytes:
        """The bodies of the rows as they are stored: JSON lines, also those not asked for."""
        return b"\n".join([batch.body for batch in self.batches])

    def asked(self, column: Any) -> Any:
        """What was asked for, of a column or table with all records of the rows."""
        return column.slice(self._skipped, self.count)


_MAKERS: dict[str, Callable[[Lines], pa.Array]] = {
    "topic": Lines.topics,
    "seq": Lines.seqs,
    "id": Lines.ids,
    "ts": Lines.times,
    "headers": Lines.headers,
    "body": Lines.bodies,
}


class RecordColumns:
    """Makes Arrow batches of the plain columns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.schema = pa.schema([(name, TYPES[name]) for name in names])

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        lines = Lines(page)
        arrays = [lines.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
