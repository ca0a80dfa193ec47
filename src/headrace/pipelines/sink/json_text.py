"""Columns as JSON text, made column by column and never row by row.

Null is ``null``, a double keeps its point (``1.0``), a timestamp is RFC 3339 in UTC, a date is
ISO 8601, a decimal is a number with all its digits, binary is base64, a map is an object.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.errors import InvalidBody

# Characters that JSON strings must escape; other control characters than these are rare.
_SPECIAL = r'["\\\x00-\x1f]'
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_RARE = {chr(n): f"\\u{n:04x}" for n in range(32) if chr(n) not in _ESCAPES}


def json_text(column: pa.Array, name: str) -> pa.Array:
    """A column as an array of JSON texts, none of them null; ``name`` is for errors."""
    for is_type, write in _WRITERS:
        if is_type(column.type):
            texts = write(column, name)
            return texts if texts.null_count == 0 else texts.fill_null("null")
    raise InvalidBody(
        f"column {name!r} is of type {column.type}, which JSON cannot hold: cast it to text or "
        "to a number first.",
        path=name,
        column=name,
    )


def check_type(type: pa.DataType, name: str) -> None:
    """Raise ``InvalidBody`` unless columns of the type can be written."""
    json_text(pa.array([], type), name)


def object_text(columns: dict[str, pa.Array], count: int) -> pa.Array:
    """Columns as JSON objects, one per row."""
    parts: list[Any] = []
    for index, (name, column) in enumerate(columns.items()):
        key = json.dumps(name, ensure_ascii=False)
        parts += [f"{',' if index else '{'}{key}:", json_text(column, name)]
    if not parts:
        return pa.repeat(pa.scalar("{}"), count)
    return pc.binary_join_element_wise(*parts, "}", "")


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first name that occurs twice; None if all are different."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _number(column: pa.Array, name: str) -> pa.Array:
    return column.cast(pa.string())


def _boolean(column: pa.Array, name: str) -> pa.Array:
    return pc.if_else(column, "true", "false")


def _floating(column: pa.Array, name: str) -> pa.Array:
    finite = pc.is_finite(column)
    if pc.all(finite, min_count=0).as_py() is False:
        row = pc.index(finite, False).as_py()
        raise InvalidBody(
            f"column {name!r} is {column[row].as_py()}: JSON has no such number; make it null.",
            path=name,
            column=name,
            row=row,
        )
    texts = column.cast(pa.string())
    # Arrow writes 1.0 as 1, which readers would take for an integer.
    is_whole = pc.match_substring_regex(texts, r"^-?[0-9]+$")
    return pc.if_else(is_whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def check_encoding(column: pa.Array, name: str) -> None:
    """Raise ``InvalidBody`` for text that is not UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidBody(
            f"column {name!r} holds text that is not UTF-8: {error}.", path=name, column=name
        ) from error


def _text(column: pa.Array, name: str) -> pa.Array:
    check_encoding(column, name)
    return _quote(_escape(column.cast(pa.string())))


def _escape(texts: pa.Array) -> pa.Array:
    for group in (_ESCAPES, _RARE):
        if not pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
            return texts
        if group is _RARE and not pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
            return texts
        for character, escape in group.items():
            texts = pc.replace_substring(texts, character, escape)
    return texts


def _quote(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _binary(column: pa.Array, name: str) -> pa.Array:
    # The only type that is encoded value by value: Arrow has no base64.
    values = [
        None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()
    ]
    return _quote(pa.array(values, pa.string()))


def _date(column: pa.Array, name: str) -> pa.Array:
    return _quote(column.cast(pa.string()))


def _timestamp(column: pa.Array, name: str) -> pa.Array:
    zone = "" if column.type.tz is None else "Z"
    if zone:
        column = column.cast(pa.timestamp(column.type.unit, tz="UTC"))
    return _quote(pc.strftime(column, format=f"%Y-%m-%dT%H:%M:%S{zone}"))


def _struct(column: pa.Array, name: str) -> pa.Array:
    fields = [column.type.field(i).name for i in range(column.type.num_fields)]
    if (duplicate := first_duplicate(fields)) is not None:
        raise InvalidBody(
            f"column {name!r} has two fields {duplicate!r}: rename one of them.",
            path=name,
            column=name,
        )
    children = dict(zip(fields, column.flatten(), strict=True))
    return _where_valid(column, object_text(children, len(column)))


def _list(column: pa.Array, name: str) -> pa.Array:
    values = json_text(column.flatten(), name)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return _where_valid(column, _enclose("[", _join_values(values, lengths), "]"))


def _map(column: pa.Array, name: str) -> pa.Array:
    offsets = column.offsets.to_numpy()
    first, last = int(offsets[0]), int(offsets[-1])
    keys = json_text(column.keys.slice(first, last - first), name)
    # Times, dates and the like are quoted already; numbers and structs are not.
    keys = pc.if_else(pc.starts_with(keys, '"'), keys, _quote(_escape(keys)))
    values = json_text(column.items.slice(first, last - first), name)
    entries = pc.binary_join_element_wise(keys, values, ":")
    return _where_valid(column, _enclose("{", _join_values(entries, np.diff(offsets)), "}"))


def _dictionary(column: pa.Array, name: str) -> pa.Array:
    return json_text(column.dictionary_decode(), name)


def _null(column: pa.Array, name: str) -> pa.Array:
    return pa.nulls(len(column), pa.string())


def _join_values(values: pa.Array, lengths: np.ndarray[Any, Any]) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, values), ",")


def _enclose(left: str, texts: pa.Array, right: str) -> pa.Array:
    return pc.binary_join_element_wise(left, texts, right, "")


def _where_valid(column: pa.Array, texts: pa.Array) -> pa.Array:
    if column.null_count == 0:
        return texts
    return pc.if_else(pc.is_valid(column), texts, pa.scalar(None, pa.string()))


def _is_text(type: pa.DataType) -> bool:
    return bool(types.is_string(type) or types.is_large_string(type))


def _is_binary(type: pa.DataType) -> bool:
    return bool(
        types.is_binary(type) or types.is_large_binary(type) or types.is_fixed_size_binary(type)
    )


def _is_list(type: pa.DataType) -> bool:
    return bool(types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type))


_WRITERS: tuple[tuple[Callable[[Any], bool], Callable[[pa.Array, str], pa.Array]], ...] = (
    (_is_text, _text),
    (types.is_integer, _number),
    (types.is_floating, _floating),
    (types.is_decimal, _number),
    (types.is_boolean, _boolean),
    (types.is_date, _date),
    (types.is_timestamp, _timestamp),
    (types.is_struct, _struct),
    (types.is_map, _map),
    (_is_list, _list),
    (_is_binary, _binary),
    (types.is_dictionary, _dictionary),
    (types.is_null, _null),
)
