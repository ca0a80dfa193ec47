"""Rows as Arrow batches, and results of processors as lines. pyarrow is imported when needed."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.errors import InvalidBody
from headrace.model.codec import encode_bodies
from headrace.pipelines.rows import Rows
from headrace.pipelines.spark_session import require_module

_decode = msgspec.json.Decoder().decode


def schema() -> Any:
    """The schema that batch processors and DataFrames get."""
    pa = require_module("pyarrow")
    return pa.schema(
        [
            ("topic", pa.string()),
            ("seq", pa.int64()),
            ("id", pa.string()),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("headers", pa.string()),
            ("body", pa.string()),
        ]
    )


def batch_of(rows: Rows) -> Any:
    """Rows as a ``pyarrow.RecordBatch``."""
    pa = require_module("pyarrow")
    columns = [
        [rows.topic] * rows.count,
        rows.seqs,
        rows.ids,
        [ts * 1000 for ts in rows.times],
        [None if text == "null" else text for text in rows.headers],
        rows.bodies,
    ]
    fields = schema()
    arrays = [pa.array(values, type=f.type) for values, f in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def bodies_batch_of(rows: Rows) -> Any:
    """Only what a function of bodies needs: each column costs time, even for few rows."""
    pa = require_module("pyarrow")
    return pa.RecordBatch.from_arrays(
        [pa.array(rows.seqs, pa.int64()), pa.array(rows.bodies, pa.string())],
        names=["seq", "body"],
    )


def rows_of(batch: Any, topic: str) -> Rows:
    """The rows of a batch of either kind, all of one topic."""
    pa = require_module("pyarrow")
    if "topic" not in batch.schema.names:
        seqs, bodies = batch.column("seq").to_pylist(), batch.column("body").to_pylist()
        return Rows(topic, seqs, [0] * len(seqs), bodies, [None] * len(seqs))
    return Rows(
        topic,
        batch.column("seq").to_pylist(),
        [us // 1000 for us in batch.column("ts").cast(pa.int64()).to_pylist()],
        batch.column("body").to_pylist(),
        batch.column("headers").to_pylist(),
    )


def encode_table(result: Any, *, max_body: int) -> list[str]:
    """A batch processor's result as lines; ``InvalidBody`` if it has another type."""
    if result is None:
        return []
    if not hasattr(result, "to_pylist") or not hasattr(result, "schema"):
        raise InvalidBody(
            "a batch processor returns a pyarrow RecordBatch or Table, or None, not "
            f"{type(result).__name__}.",
            path="$",
        )
    names = result.schema.names
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidBody(
            f"the result has two columns {duplicate!r}: rename one of them.", path="$"
        )
    if "body" not in names:
        return encode_bodies(result.to_pylist(), max_body=max_body)
    bodies = [_body(value, row) for row, value in enumerate(result.column("body").to_pylist())]
    return encode_bodies(bodies, max_body=max_body)


def _body(value: Any, row: int) -> Any:
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidBody(
            f"row {row} of the result has a body that is not JSON: {error}.", path=f"$[{row}].body"
        ) from error
