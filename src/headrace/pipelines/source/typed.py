"""Bodies decoded into the columns of a declared schema.

A page's bodies are JSON lines already, and Arrow reads those as a whole. Only where it
refuses are they halved, and halved again, until the records that do not fit stand alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.types as kinds

from headrace.contract.values import StoredPage
from headrace.errors import InvalidOption, MalformedRecord
from headrace.pipelines.source.columns import TYPES, Lines
from headrace.pipelines.source.options import CORRUPT

_OF_RECORD = {f"_{name}": name for name in TYPES}


class Stretch(NamedTuple):
    """Neighbouring records that fit the schema, or one that does not, and why."""

    rows: int
    table: pa.Table | None
    why: str = ""


class TypedColumns:
    """Makes Arrow batches of a declared schema.

    Columns named ``_seq``, ``_ts`` and so on are those of the record; ``corrupt_column``, if
    it is declared, takes the text of bodies that do not fit, whose fields are null then; all
    others are fields of the body. Without it such a body is an error that names the record.
    """

    def __init__(self, schema: pa.Schema, corrupt_column: str) -> None:
        self.schema = schema
        self._corrupt = corrupt_column if corrupt_column in schema.names else ""
        for field in schema:
            _check_beside(field, self._corrupt)
        beside = {*_OF_RECORD, self._corrupt}
        self._fields = [field for field in schema if field.name not in beside]
        self._wanted = pa.schema([field.with_nullable(True) for field in self._fields])
        self._read_as = pa.schema(
            [pa.field(field.name, _read_type(field.name, field.type)) for field in self._fields]
        )

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        lines = Lines(page)
        stretches = self._decoded(lines)
        if not self._corrupt:
            _refuse_misfits(stretches, lines)
        arrays = [self._column(name, lines, stretches) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, name: str, lines: Lines, stretches: Sequence[Stretch]) -> pa.Array:
        if name == self._corrupt:
            return _misfits(lines, stretches)
        if name in _OF_RECORD:
            return lines.column(_OF_RECORD[name])
        kind = self.schema.field(name).type
        chunks: list[pa.Array] = []
        for part in stretches:
            found = part.table.column(name).chunks if part.table else [pa.nulls(part.rows, kind)]
            chunks += found
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)

    def _decoded(self, lines: Lines) -> list[Stretch]:
        """The bodies as stretches that fit, and single ones that do not."""
        if not self._fields:
            return [Stretch(lines.count, None)]
        try:
            table = self._read(lines.text())
        except _UNFIT:
            return self._halved(lines.bodies().to_pylist())
        if len(table) != lines.stored:
            raise lines.malformed(len(table))
        return [Stretch(lines.count, lines.asked(table))]

    def _halved(self, bodies: list[str]) -> list[Stretch]:
        try:
            return [Stretch(len(bodies), self._read("\n".join(bodies).encode()))]
        except _UNFIT as error:
            if len(bodies) == 1:
                return [Stretch(1, None, _reason(error))]
        half = len(bodies) // 2
        return self._halved(bodies[:half]) + self._halved(bodies[half:])

    def _read(self, text: bytes) -> pa.Table:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=self._read_as, unexpected_field_behavior="ignore"
            ),
        )
        if self._read_as != self._wanted:
            table = table.cast(self._wanted)
        for field in self._fields:
            if not field.nullable and table.column(field.name).null_count:
                raise pa.ArrowInvalid(f"{field.name} is missing, and the schema says not null")
        return table


_UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def _check_beside(field: pa.Field, corrupt: str) -> None:
    """Columns that are not fields of the body have a type that is ours."""
    kind = pa.string() if field.name == corrupt else TYPES.get(_OF_RECORD.get(field.name, ""))
    if kind is not None and field.type != kind:
        raise InvalidOption(
            f"the column {field.name} is declared as {field.type}, and is {kind}.", option="schema"
        )


def _read_type(name: str, kind: pa.DataType) -> pa.DataType:
    """What Arrow's reader is asked for; ``InvalidOption`` for what JSON has no form of."""
    if kinds.is_date(kind):
        return pa.string()  # the reader takes dates for numbers of days; people write them
    if kinds.is_list(kind):
        return pa.list_(_read_type(name, kind.value_type))
    if kinds.is_struct(kind):
        return pa.struct([pa.field(part.name, _read_type(name, part.type)) for part in kind])
    if any(test(kind) for test in _READABLE):
        return kind
    raise InvalidOption(
        f"the column {name} cannot be declared as {kind}: use numbers, strings, booleans, dates, "
        "timestamps, and structs and arrays of these. For other things declare _body, and take "
        "Spark's own functions to it.",
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


def _refuse_misfits(stretches: Sequence[Stretch], lines: Lines) -> None:
    seq = lines.first
    for part in stretches:
        if part.why:
            raise MalformedRecord(
                f"record :{seq} of topic {lines.topic!r} does not fit the schema: {part.why}. "
                f"Declare the column {CORRUPT} string to have such records with their text.",
                topic=lines.topic,
                seq=seq,
            )
        seq += part.rows


def _misfits(lines: Lines, stretches: Sequence[Stretch]) -> pa.Array:
    """The texts of bodies that do not fit; null for all others."""
    if not any(part.why for part in stretches):
        return pa.nulls(lines.count, pa.string())
    bodies, place, chunks = lines.bodies(), 0, []
    for part in stretches:
        text = bodies.slice(place, part.rows)
        chunks.append(text if part.why else pa.nulls(part.rows, pa.string()))
        place += part.rows
    return pa.concat_arrays(chunks)


def _reason(error: Exception) -> str:
    """Arrow's words about one record, without where in our text it stood."""
    text = str(error).splitlines()[0].removeprefix("JSON parse error: ")
    text = re.sub(r" in row \d+$", "", text)
    return re.sub(r"^Column\(/?(.*?)\) changed from (\w+) to (\w+)$", _mismatch, text)


def _mismatch(found: re.Match[str]) -> str:
    name, wanted, is_ = found.groups()
    return f"{name or 'the body'} is declared as {wanted} and is {is_}"
