"""Builds the rows that are stored, of at most 128 KiB, from whole columns of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.values import CommitPart
from headrace.errors import BodyTooLarge, InvalidBody
from headrace.model.codec import ROW_BYTES
from headrace.pipelines.sink.json_text import check_encoding

_decode = msgspec.json.Decoder().decode
_decode_lines = msgspec.json.Decoder().decode_lines
# As strict, in a tenth of the time, since it builds no objects. But it does not check numbers, and
# some are too large to be decoded later: if there may be one, everything is decoded.
_skim_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines
_LARGE_NUMBER = r"[:,\[][ \t\r]*-?[0-9][0-9.]*[eE]\+?[0-9]{3}|[0-9]{100}"
_decode_headers = msgspec.json.Decoder(dict[str, str] | None).decode
_decode_header_lines = msgspec.json.Decoder(dict[str, str] | None).decode_lines
# How many texts are decoded together: few enough that the memory is reused for the next.
LINES_PER_READ = 500


class RowBuilder:
    """Collects lines for one target; lines that do not fill a row wait for more."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._bodies: pa.Array = pa.array([], pa.string())
        self._headers: pa.Array | None = None

    def add(self, bodies: pa.Array, headers: pa.Array | None) -> Iterator[CommitPart]:
        """Add lines, and yield the rows that are full."""
        if headers is not None or self._headers is not None:
            before = _headers_or_null(self._headers, len(self._bodies))
            self._headers = pa.concat_arrays([before, _headers_or_null(headers, len(bodies))])
        self._bodies = pa.concat_arrays([self._bodies, bodies])
        cuts = _cuts(self._bodies)
        yield from self._rows(cuts[:-1])

    def remaining(self) -> Iterator[CommitPart]:
        """The lines that are left, as one row."""
        if len(self._bodies):
            yield from self._rows(np.array([0, len(self._bodies)]))

    def _rows(self, cuts: np.ndarray[Any, Any]) -> Iterator[CommitPart]:
        if len(cuts) < 2:
            return
        bodies = _join_lines(self._bodies, cuts)
        headers = None if self._headers is None else _join_lines(self._headers, cuts)
        for index, count in enumerate(np.diff(cuts).tolist()):
            header_lines = None if headers is None else headers[index].as_py()
            if header_lines is not None and header_lines == "null" + "\nnull" * (count - 1):
                header_lines = None
            yield CommitPart(self._target, count, bodies[index].as_py(), header_lines)
        last = int(cuts[-1])
        self._bodies = self._bodies.slice(last)
        if self._headers is not None:
            self._headers = self._headers.slice(last)


def _headers_or_null(headers: pa.Array | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar("null"), count) if headers is None else headers


def _cuts(lines: pa.Array) -> np.ndarray[Any, Any]:
    """The bounds of rows that do not exceed the size limit; a longer line is a row of its own."""
    ends = np.cumsum(pc.binary_length(lines).to_numpy(zero_copy_only=False).astype(np.int64) + 1)
    cuts = [0]
    while cuts[-1] < len(ends):
        start = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        stop = int(np.searchsorted(ends, start + ROW_BYTES, side="right"))
        cuts.append(max(stop, cuts[-1] + 1))
    return np.array(cuts)


def _join_lines(lines: pa.Array, cuts: np.ndarray[Any, Any]) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(cuts, pa.int32()), lines), "\n")


def check_lines(lines: pa.Array, column: str, *, is_record: bool) -> pa.Array:
    """JSON texts as they can be stored, one line each; ``InvalidBody`` names the first bad row.

    All are decoded as strictly as a reader will decode them later, but many at a time.
    """
    if is_record and not _start_as_records(lines):
        return _check_each(lines, column, is_record=is_record)
    cuts = np.append(np.arange(0, len(lines), LINES_PER_READ), len(lines))
    texts = _join_lines(lines, cuts)
    has_large = pc.any(pc.match_substring_regex(lines, _LARGE_NUMBER)).as_py()
    read = _decode_lines if has_large else _skim_lines
    for text, count in zip(texts, np.diff(cuts).tolist(), strict=True):
        if not _are_lines(text, count, read):
            return _check_each(lines, column, is_record=is_record)
    return lines


def _start_as_records(lines: pa.Array) -> bool:
    """Whether all texts start like objects or lists."""
    begin = pc.or_(pc.starts_with(lines, "{"), pc.starts_with(lines, "["))
    return pc.all(begin, min_count=0).as_py() is not False


def _are_lines(text: pa.Scalar, count: int, read: Callable[[str], list[Any]]) -> bool:
    """Whether a text is exactly ``count`` lines of JSON."""
    try:
        line_text = text.as_py()
        values = read(line_text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return len(values) == count and line_text.count("\n") == count - 1


def _check_each(lines: pa.Array, column: str, *, is_record: bool) -> pa.Array:
    """Check texts one by one, for an exact error; JSON over several lines is put on one."""
    check_encoding(lines, column)
    texts = lines.to_pylist()
    for row, text in enumerate(texts):
        try:
            value = _decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _invalid(text, column, row, f"JSON: {error}") from error
        if is_record and not isinstance(value, (dict, list)):
            raise _invalid(text, column, row, "a JSON object or list; wrap it")
        if "\n" in text:
            texts[row] = msgspec.json.encode(value).decode()
    return pa.array(texts, pa.string())


def check_size(lines: pa.Array, column: str, limit: int) -> None:
    """Raise ``BodyTooLarge`` for a text over the limit."""
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


def check_header_lines(lines: pa.Array | None) -> pa.Array | None:
    """Headers as they can be stored, one line each: an object of text, or null."""
    if lines is None or not len(lines):
        return lines
    try:
        text = _join_lines(lines, np.array([0, len(lines)]))[0].as_py()
        is_valid = len(_decode_header_lines(text)) == len(lines) == text.count("\n") + 1
    except (msgspec.DecodeError, UnicodeError):
        is_valid = False
    if is_valid:
        return lines
    check_encoding(lines, "headers")
    texts = lines.to_pylist()
    for row, text in enumerate(texts):
        try:
            texts[row] = msgspec.json.encode(_decode_headers(text)).decode()
        except (msgspec.DecodeError, UnicodeError) as error:
            raise _invalid(text, "headers", row, f"headers as JSON, all text: {error}") from error
    return pa.array(texts, pa.string())


def _invalid(text: str, column: str, row: int, what: str) -> InvalidBody:
    return InvalidBody(
        f"column {column!r} is not {what.rstrip('.')}: {text[:80]!r}.",
        path=column,
        column=column,
        row=row,
    )
