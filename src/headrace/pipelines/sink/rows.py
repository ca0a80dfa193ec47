"""Lines gathered into the rows that are stored, of 128 KiB at the most, whole columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.values import Part
from headrace.errors import BodyTooLarge, InvalidBody
from headrace.model.codec import ROW_BYTES

_skim = msgspec.json.Decoder(msgspec.Raw).decode_lines
_read = msgspec.json.Decoder().decode
_read_headers = msgspec.json.Decoder(dict[str, str] | None).decode
_read_header_lines = msgspec.json.Decoder(dict[str, str] | None).decode_lines
# Numbers that a reader may find too large for it; those that skim cannot judge.
_EXTREME = r"[eE][+]?[0-9]{3}|[0-9]{300}"


class Gathering:
    """Lines on their way to one target; what is too little for a row waits for more."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._bodies: pa.Array = pa.array([], pa.string())
        self._headers: pa.Array | None = None

    def add(self, bodies: pa.Array, headers: pa.Array | None) -> Iterator[Part]:
        """Take lines, and give the rows that are full."""
        if headers is not None or self._headers is not None:
            before = _or_null(self._headers, len(self._bodies))
            self._headers = pa.concat_arrays([before, _or_null(headers, len(bodies))])
        self._bodies = pa.concat_arrays([self._bodies, bodies])
        cuts = _cuts(self._bodies)
        yield from self._rows(cuts[:-1])

    def rest(self) -> Iterator[Part]:
        """What is left, as one row."""
        if len(self._bodies):
            yield from self._rows(np.array([0, len(self._bodies)]))

    def _rows(self, cuts: np.ndarray[Any, Any]) -> Iterator[Part]:
        if len(cuts) < 2:
            return
        bodies = _joined(self._bodies, cuts)
        headers = None if self._headers is None else _joined(self._headers, cuts)
        for place, count in enumerate(np.diff(cuts).tolist()):
            beside = None if headers is None else headers[place].as_py()
            if beside is not None and beside == "null" + "\nnull" * (count - 1):
                beside = None
            yield Part(self._target, count, bodies[place].as_py(), beside)
        last = int(cuts[-1])
        self._bodies = self._bodies.slice(last)
        if self._headers is not None:
            self._headers = self._headers.slice(last)


def _or_null(headers: pa.Array | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar("null"), count) if headers is None else headers


def _cuts(lines: pa.Array) -> np.ndarray[Any, Any]:
    """Where rows begin and end, so that none is larger than it may be; a longer line is alone."""
    ends = np.cumsum(pc.binary_length(lines).to_numpy(zero_copy_only=False).astype(np.int64) + 1)
    cuts = [0]
    while cuts[-1] < len(ends):
        start = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        stop = int(np.searchsorted(ends, start + ROW_BYTES, side="right"))
        cuts.append(max(stop, cuts[-1] + 1))
    return np.array(cuts)


def _joined(lines: pa.Array, cuts: np.ndarray[Any, Any]) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(cuts, pa.int32()), lines), "\n")


def checked(lines: pa.Array, column: str, *, is_record: bool) -> pa.Array:
    """JSON texts as they can be stored, a line each; ``InvalidBody`` names the first bad row.

    All of them at once: only what is unusual is looked at by itself.
    """
    lines = _on_one_line(lines, column)
    _check_encoding(lines, column)
    text = _joined(lines, np.array([0, len(lines)]))[0].as_py() if len(lines) else ""
    try:
        is_good = len(_skim(text)) == len(lines)
    except (msgspec.DecodeError, UnicodeError):
        is_good = False
    if is_good and is_record:
        is_good = pc.all(pc.match_substring_regex(lines, r"^[ \t\r]*[\[{]"), min_count=0).as_py()
    if not is_good or pc.any(pc.match_substring_regex(lines, _EXTREME), min_count=0).as_py():
        _check_each(lines, column, is_record=is_record)
    return lines


def check_size(lines: pa.Array, column: str, limit: int) -> None:
    """Refuse a text over the limit."""
    sizes = pc.binary_length(lines)
    if len(lines) and pc.max(sizes).as_py() > limit:
        row = pc.index(pc.greater(sizes, limit), True).as_py()
        raise BodyTooLarge(
            f"column {column!r} has {sizes[row].as_py()} bytes, over the limit of "
            f"{limit}: keep the data elsewhere and store a reference, or raise max_body.",
            path=column,
            column=column,
            row=row,
        )


def checked_headers(lines: pa.Array | None) -> pa.Array | None:
    """Headers as they can be stored."""
    if lines is None or not len(lines):
        return lines
    lines = _on_one_line(lines, "headers")
    try:
        is_good = len(_read_header_lines(_joined(lines, np.array([0, len(lines)]))[0].as_py()))
    except (msgspec.DecodeError, UnicodeError):
        is_good = -1
    if is_good != len(lines):
        for row, line in enumerate(lines.to_pylist()):
            try:
                _read_headers(line)
            except (msgspec.DecodeError, UnicodeError) as error:
                raise _bad(line, "headers", row, f"headers as JSON, all text: {error}") from error
    return lines


def _on_one_line(lines: pa.Array, column: str) -> pa.Array:
    """JSON that was written over several lines, written on one."""
    has_breaks = pc.match_substring(lines, "\n")
    if not pc.any(has_breaks, min_count=0).as_py():
        return lines
    texts = lines.to_pylist()
    for row, text in enumerate(texts):
        if "\n" in text:
            try:
                texts[row] = msgspec.json.encode(_read(text)).decode()
            except (msgspec.DecodeError, UnicodeError) as error:
                raise _bad(text, column, row, f"JSON: {error}") from error
    return pa.array(texts, pa.string())


def _check_encoding(lines: pa.Array, column: str) -> None:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidBody(
            f"column {column!r} holds text that is not UTF-8: {error}.", path=column, column=column
        ) from error


def _check_each(lines: pa.Array, column: str, *, is_record: bool) -> None:
    for row, line in enumerate(lines.to_pylist()):
        try:
            value = _read(line)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise _bad(line, column, row, f"JSON: {error}") from error
        if is_record and not isinstance(value, (dict, list)):
            raise _bad(line, column, row, "a JSON object or list; wrap it")


def _bad(text: str, column: str, row: int, what: str) -> InvalidBody:
    return InvalidBody(
        f"column {column!r} is not {what.rstrip('.')}: {text[:80]!r}.",
        path=column,
        column=column,
        row=row,
    )
