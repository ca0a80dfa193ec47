"""How the columns of a DataFrame become records or documents.

With a column ``body`` (``payload`` for a queue), that column is the body: JSON text, or a struct,
map or list. Without it, each row as a whole becomes a JSON object. A schema that cannot be written
is refused before the first row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.core.documents import MAX_PRIORITY, MAX_SUBJECT_LENGTH
from headrace.errors import InvalidBody, InvalidOption
from headrace.pipelines.sink.json_text import check_type, json_text, object_text
from headrace.pipelines.sink.options import SinkOptions

# Columns of the source that are dropped: a copy of a record gets its own.
RECORD_COLUMNS = ("topic", "seq", "id", "ts")
_MS = pa.timestamp("ms", tz="UTC")


class SinkLines(NamedTuple):
    """A batch of records as columns: bodies as JSON text, headers and topics if any.

    ``is_checked`` says that the bodies were encoded here, so that they are valid JSON.
    """

    bodies: pa.Array
    headers: pa.Array | None = None
    topics: pa.Array | None = None
    is_checked: bool = False


class SinkColumns:
    """Turns the rows of a DataFrame into records."""

    def __init__(self, options: SinkOptions, schema: pa.Schema) -> None:
        self._names = schema.names
        self._topic = options.topic_column
        if self._topic:
            self._check_topic(schema)
        self._has_body = "body" in self._names
        self._has_headers = self._has_body and "headers" in self._names
        self._is_text = self._has_body and is_text(schema.field("body").type)
        if self._has_body:
            self._check_others()
            check_body(schema.field("body"), is_record=True)
        if self._has_headers:
            check_headers(schema.field("headers").type)
        self._fields = [name for name in self._names if name != self._topic]
        if not self._has_body:
            for name in self._fields:
                check_type(schema.field(name).type, name)

    def _check_topic(self, schema: pa.Schema) -> None:
        if self._topic not in self._names:
            raise InvalidOption(
                f"there is no column {self._topic!r} to name the topics: give the option topic, "
                f"or one of the columns {', '.join(self._names)} as topic_column.",
                option="topic_column",
            )
        if not is_text(schema.field(self._topic).type):
            raise InvalidOption(
                f"column {self._topic!r} is of type {schema.field(self._topic).type}: topics are "
                "named by text.",
                option="topic_column",
            )

    def _check_others(self) -> None:
        for name in self._names:
            if name not in ("body", "headers", self._topic, *RECORD_COLUMNS):
                raise InvalidBody(
                    f"column {name!r} would be lost: a record has body and headers. Put it into "
                    "the body, or drop it.",
                    path=name,
                    column=name,
                )

    def lines(self, batch: pa.RecordBatch) -> SinkLines:
        """The records of a batch of rows."""
        topics = batch.column(self._topic) if self._topic else None
        if not self._has_body:
            fields = {name: batch.column(name) for name in self._fields}
            return SinkLines(object_text(fields, len(batch)), topics=topics, is_checked=True)
        headers = header_text(batch.column("headers")) if self._has_headers else None
        body = batch.column("body")
        check_not_null(body, "body")
        if self._is_text:
            return SinkLines(body.cast(pa.string()), headers, topics)
        return SinkLines(json_text(body, "body"), headers, topics, is_checked=True)


class DocumentColumns:
    """Turns the rows of a DataFrame into documents for a queue, one JSON line each."""

    _TYPES: Mapping[str, str] = {
        "subject": "text",
        "priority": "a whole number",
        "at": "a timestamp",
        "delay": "a number of seconds",
    }

    def __init__(self, options: SinkOptions, schema: pa.Schema) -> None:
        self._names = schema.names
        for name in self._TYPES:
            if name in self._names:
                self._check(name, schema.field(name).type)
        if "headers" in self._names:
            check_headers(schema.field("headers").type)
        if "at" in self._names and "delay" in self._names:
            raise InvalidBody(
                "there are columns 'at' and 'delay': an item is due once, so give one of them.",
                path="at",
                column="at",
            )
        self._has_payload = "payload" in self._names
        self._fields = [n for n in self._names if n not in (*self._TYPES, "headers", "payload")]
        if self._has_payload:
            check_body(schema.field("payload"), is_record=False)
            for name in self._fields:
                raise InvalidBody(
                    f"column {name!r} would be lost: a document has payload, "
                    f"{', '.join(self._TYPES)} and headers. Put it into the payload, or drop it.",
                    path=name,
                    column=name,
                )
        self._is_text = self._has_payload and is_text(schema.field("payload").type)
        for name in self._fields:
            check_type(schema.field(name).type, name)

    def _check(self, name: str, type: pa.DataType) -> None:
        is_good = {
            "subject": is_text(type),
            "priority": types.is_integer(type),
            "at": types.is_timestamp(type),
            "delay": types.is_integer(type) or types.is_floating(type),
        }[name]
        if not is_good and not types.is_null(type):
            raise InvalidBody(
                f"column {name!r} is of type {type}: it must be {self._TYPES[name]}.",
                path=name,
                column=name,
            )

    def payloads(self, batch: pa.RecordBatch) -> SinkLines:
        """The payloads, to be checked before they become part of documents."""
        if not self._has_payload:
            fields = {name: batch.column(name) for name in self._fields}
            return SinkLines(object_text(fields, len(batch)), is_checked=True)
        payload = batch.column("payload")
        check_not_null(payload, "payload")
        if self._is_text:
            return SinkLines(payload.cast(pa.string()))
        return SinkLines(json_text(payload, "payload"), is_checked=True)

    def documents(self, batch: pa.RecordBatch, payloads: pa.Array) -> pa.Array:
        """The documents as JSON."""
        columns = {"payload": payloads}
        if "subject" in self._names:
            columns["subject"] = _subjects(batch.column("subject"))
        if "priority" in self._names:
            columns["priority"] = _priorities(batch.column("priority"))
        if "at" in self._names:
            columns["due"] = batch.column("at").cast(_MS, safe=False).cast(pa.int64())
        if "delay" in self._names:
            columns["delay"] = _delays(batch.column("delay"))
        if "headers" in self._names:
            texts = header_text(batch.column("headers"))
            null = pa.scalar(None, pa.string())
            columns["headers"] = pc.if_else(pc.equal(texts, "null"), null, texts)
        return object_text(columns, len(batch))


def is_text(type: pa.DataType) -> bool:
    return bool(types.is_string(type) or types.is_large_string(type))


def check_body(field: pa.Field, *, is_record: bool) -> None:
    """Refuse a type that cannot be a body: a body is JSON text, or a struct, map or list."""
    type = field.type
    nested = types.is_struct(type) or types.is_map(type) or types.is_list(type)
    if not is_text(type) and not (nested if is_record else True):
        raise InvalidBody(
            f"column {field.name!r} is of type {type}: a body is JSON text, a struct, a map or "
            "a list; wrap it, as in struct(value).",
            path=field.name,
            column=field.name,
        )
    check_type(type, field.name)


def check_headers(type: pa.DataType) -> None:
    """Refuse headers that are neither a map of text to text nor JSON text."""
    is_map = types.is_map(type) and is_text(type.key_type) and is_text(type.item_type)
    if not is_map and not is_text(type) and not types.is_null(type):
        raise InvalidBody(
            f"column 'headers' is of type {type}: it must be a map of text to text, or JSON text.",
            path="headers",
            column="headers",
        )


def header_text(column: pa.Array) -> pa.Array:
    """Headers as JSON text, ``null`` where there are none."""
    if types.is_map(column.type):
        if column.items.null_count:
            raise InvalidBody(
                "a header in column 'headers' is null: its value must be text.",
                path="headers",
                column="headers",
            )
        texts = json_text(column, "headers")
        return pc.if_else(pc.equal(texts, "{}"), "null", texts)
    return column.cast(pa.string()).fill_null("null")


def check_not_null(column: pa.Array, name: str) -> None:
    """Refuse a row without a body."""
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InvalidBody(
            f"column {name!r} is null: a record needs a body, which may be {{}}.",
            path=name,
            column=name,
            row=row,
        )


def _subjects(column: pa.Array) -> pa.Array:
    column = column.cast(pa.string())
    sizes = pc.utf8_length(column)
    fits = pc.and_(pc.greater(sizes, 0), pc.less_equal(sizes, MAX_SUBJECT_LENGTH))
    is_clean = pc.invert(pc.match_substring_regex(column, r"[\x00-\x1f]"))
    _check_all(
        column,
        "subject",
        pc.and_(fits, is_clean),
        f"use 1 to {MAX_SUBJECT_LENGTH} characters, none of them below U+0020",
    )
    return column


def _priorities(column: pa.Array) -> pa.Array:
    column = column.cast(pa.int64())
    fits = pc.and_(pc.less_equal(column, MAX_PRIORITY), pc.greater_equal(column, -MAX_PRIORITY - 1))
    _check_all(column, "priority", fits, "use a whole number of 32 bits")
    return column.fill_null(0)


def _delays(column: pa.Array) -> pa.Array:
    seconds = column.cast(pa.float64())
    fits = pc.and_(pc.is_finite(seconds), pc.greater_equal(seconds, 0))
    _check_all(column, "delay", fits, "use seconds, 0 or more")
    return pc.round(pc.multiply(seconds, 1000)).cast(pa.int64())


def _check_all(column: pa.Array, name: str, is_good: pa.Array, advice: str) -> None:
    if pc.all(is_good, min_count=0).as_py() is False:
        row = pc.index(is_good, False).as_py()
        raise InvalidBody(
            f"column {name!r} is {column[row].as_py()!r:.80}: {advice}.",
            path=name,
            column=name,
            row=row,
        )
