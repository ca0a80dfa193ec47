"""Bodies decoded into the columns of a declared schema.

A page's bodies are JSON lines, which Arrow reads as a whole. If it refuses, they are halved, and
halved again, until the records that do not fit the schema are found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.types as kinds

from headrace.contract.values import StoredPage
from headrace.errors import InvalidOption, MalformedRecord
from headrace.pipelines.source.columns import TYPES, SourceLines
from headrace.pipelines.source.options import CORRUPT

_RECORD_COLUMNS = {f"_{name}": name for name in TYPES}


class DecodedRange(NamedTuple):
    """Neighbouring records that fit the schema, or one record that does not, with the reason."""

    rows: int
    table: pa.Table | None
    why: str = ""


class TypedColumns:
    """Makes Arrow batches of a declared schema.

    Columns named ``_seq``, ``_ts`` and so on are those of the record; all others are fields of
    the body. ``corrupt_column``, if it is declared, gets the text of bodies that do not fit, whose
    fields are null then. If it is not declared, such a body is an error that names the record.
    """

    def __init__(self, schema: pa.Schema, corrupt_column: str) -> None:
        self.schema = schema
        _check_names(schema)
        self._corrupt = corrupt_column if corrupt_column in schema.names else ""
        for field in schema:
            _check_type(field, self._corrupt)
        others = {*_RECORD_COLUMNS, self._corrupt}
        self._fields = [field for field in schema if field.name not in others]
        self._declared = pa.schema([field.with_nullable(True) for field in self._fields])
        self._read_as = pa.schema(
            [pa.field(field.name, _read_type(field.name, field.type)) for field in self._fields]
        )

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        lines = SourceLines(page)
        ranges = self._decode(lines)
        if not self._corrupt:
            _refuse_mismatches(ranges, lines)
        arrays = [self._column(name, lines, ranges) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, lines: SourceLines, ranges: Sequence[DecodedRange]) -> pa.Array:
        if name == self._corrupt:
            return _corrupt_texts(lines, ranges)
        if name in _RECORD_COLUMNS:
            return lines.column(_RECORD_COLUMNS[name])
        kind = self.schema.field(name).type
        chunks: list[pa.Array] = []
        for part in ranges:
            chunks += part.table.column(name).chunks if part.table else [pa.nulls(part.rows, kind)]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    def _decode(self, lines: SourceLines) -> list[DecodedRange]:
        """The bodies as ranges that fit, and single records that do not."""
        if not self._fields:
            return [DecodedRange(lines.count, None)]
        try:
            table = self._read(lines.text())
        except _MISMATCHES:
            return self._decode_halves(lines.bodies().to_pylist())
        if len(table) != lines.stored:
            raise lines.malformed(len(table))
        return [DecodedRange(lines.count, lines.requested(table))]

    def _decode_halves(self, bodies: list[str]) -> list[DecodedRange]:
        try:
            return [DecodedRange(len(bodies), self._read("\n".join(bodies).encode()))]
        except _MISMATCHES as error:
            if len(bodies) == 1:
                return [DecodedRange(1, None, _reason(error))]
        half = len(bodies) // 2
        return self._decode_halves(bodies[:half]) + self._decode_halves(bodies[half:])

    def _read(self, text: bytes) -> pa.Table:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=self._read_as, unexpected_field_behavior="ignore"
            ),
        )
        if self._read_as != self._declared:
            table = table.cast(self._declared)
        for field in self._fields:
            if not field.nullable and table.column(field.name).null_count:
                raise pa.ArrowInvalid(f"{field.name} is missing, and the schema says not null")
        return table


_MISMATCHES = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def _check_names(schema: pa.Schema) -> None:
    """Refuse duplicate names, and a schema of record columns without their underscore.

    Such columns would be read from the body and silently be null. If all columns have names and
    types of record columns, the user may mean either: the schema must say which.
    """
    for name, count in Counter(schema.names).items():
        if count > 1:
            raise InvalidOption(f"the schema has two columns {name!r}.", option="schema")
    if schema.names and all(TYPES.get(field.name) == field.type for field in schema):
        listed = ",".join(schema.names)
        raise InvalidOption(
            f"the schema names columns of the record, and declares fields of the body: for the "
            f"record's columns give the option columns='{listed}', or declare "
            f"{', '.join(f'_{name}' for name in schema.names)}; for fields of the body with "
            "these names declare one of the record's beside them, such as _seq long.",
            option="schema",
        )


def _check_type(field: pa.Field, corrupt: str) -> None:
    """Columns that are not fields of the body have a fixed type."""
    kind = pa.string() if field.name == corrupt else TYPES.get(_RECORD_COLUMNS.get(field.name, ""))
    if kind is not None and field.type != kind:
        raise InvalidOption(
            f"the column {field.name} is declared as {field.type}, and is {kind}.", option="schema"
        )


def _read_type(name: str, kind: pa.DataType) -> pa.DataType:
    """The type for Arrow's reader; ``InvalidOption`` for a type that JSON cannot hold."""
    if kinds.is_date(kind):
        return pa.string()  # the reader expects dates as numbers of days; JSON has them as text
    if kinds.is_list(kind):
        return pa.list_(_read_type(name, kind.value_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(part.name, _read_type(name, part.type)) for part in kind])
    if any(test(kind) for test in _READABLE):
        return kind
    raise InvalidOption(
        f"the column {name} cannot be declared as {kind}: use numbers, strings, booleans, dates, "
        "timestamps, and structs and arrays of these. For other types declare _body, and apply "
        "Spark's functions to it.",
        option="schema",
    )


_READABLE = (
    kinds.is_integer,
    kinds.is_floating,
    kinds.is_decimal,
    kinds.is_boolean,
    kinds.is_string,
    kinds.is_timestamp,
)


def _refuse_mismatches(ranges: Sequence[DecodedRange], lines: SourceLines) -> None:
    seq = lines.first
    for part in ranges:
        if part.why:
            raise MalformedRecord(
                f"record :{seq} of topic {lines.topic!r} does not fit the schema: {part.why}. "
                f"Declare the column {CORRUPT} string to have such records with their text.",
                topic=lines.topic,
                seq=seq,
            )
        seq += part.rows


def _corrupt_texts(lines: SourceLines, ranges: Sequence[DecodedRange]) -> pa.Array:
    """The text of each body that does not fit; null for all others."""
    if not any(part.why for part in ranges):
        return pa.nulls(lines.count, pa.string())
    bodies, index, chunks = lines.bodies(), 0, []
    for part in ranges:
        text = bodies.slice(index, part.rows)
        chunks.append(text if part.why else pa.nulls(part.rows, pa.string()))
        index += part.rows
    return pa.concat_arrays(chunks)


def _reason(error: Exception) -> str:
    """Arrow's message about one record, without the position in the text."""
    text = str(error).splitlines()[0].removeprefix("JSON parse error: ")
    text = re.sub(r" in row \d+$", "", text)
    return re.sub(r"^Column\(/?(.*?)\) changed from (\w+) to (\w+)$", _mismatch, text)


def _mismatch(match: re.Match[str]) -> str:
    name, declared, is_ = match.groups()
    return f"{name or 'the body'} is declared as {declared} and is {is_}"
