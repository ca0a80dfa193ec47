"""Lines gathered into the rows that are stored, of 128 KiB at the most, whole columns at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contract.values import Part
from headrace.errors import BodyTooLarge, InvalidBody
from headrace.model.codec import ROW_BYTES

_read = msgspec.json.Decoder().decode
_read_lines = msgspec.json.Decoder().decode_lines
# As strict, and a tenth of the time, since it makes nothing of what it reads. But it does not
# look at numbers, and some are too large to be read later: where there may be one, all is read.
_skim_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines
_LARGE_NUMBER = r"[:,\[][ \t\r]*-?[0-9][0-9.]*[eE]\+?[0-9]{3}|[0-9]{100}"
_read_headers = msgspec.json.Decoder(dict[str, str] | None).decode
_read_header_lines = msgspec.json.Decoder(dict[str, str] | None).decode_lines
# How many texts are read together: few enough to be forgotten before the next are.
AT_ONCE = 500


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

    Each is read, as whoever reads it later will, but many at a time.
    """
    if is_record and not _begin_as_records(lines):
        return _checked_each(lines, column, is_record=is_record)
    cuts = np.append(np.arange(0, len(lines), AT_ONCE), len(lines))
    texts = _joined(lines, cuts)
    has_large = pc.any(pc.match_substring_regex(lines, _LARGE_NUMBER)).as_py()
    read = _read_lines if has_large else _skim_lines
    for text, count in zip(texts, np.diff(cuts).tolist(), strict=True):
        if not _are_lines(text, count, read):
            return _checked_each(lines, column, is_record=is_record)
    return lines


def _begin_as_records(lines: pa.Array) -> bool:
    """Whether all texts begin as objects or lists do."""
    begin = pc.or_(pc.starts_with(lines, "{"), pc.starts_with(lines, "["))
    return pc.all(begin, min_count=0).as_py() is not False


def _are_lines(text: pa.Scalar, count: int, read: Callable[[str], list[Any]]) -> bool:
    """Whether a text is so many lines of JSON."""
    try:
        line_text = text.as_py()
        values = read(line_text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return len(values) == count and line_text.count("\n") == count - 1


def _checked_each(lines: pa.Array, column: str, *, is_record: bool) -> pa.Array:
    """The same one by one, to say what is wrong and where; JSON over several lines is joined."""
    _check_encoding(lines, column)
    texts = lines.to_pylist()
    for row, text in enumerate(texts):
        try:
            value = _read(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _bad(text, column, row, f"JSON: {error}") from error
        if is_record and not isinstance(value, (dict, list)):
            raise _bad(text, column, row, "a JSON object or list; wrap it")
        if "\n" in text:
            texts[row] = msgspec.json.encode(value).decode()
    return pa.array(texts, pa.string())


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
    """Headers as they can be stored: an object of text, or null, on one line each."""
    if lines is None or not len(lines):
        return lines
    try:
        text = _joined(lines, np.array([0, len(lines)]))[0].as_py()
        is_good = len(_read_header_lines(text)) == len(lines) == text.count("\n") + 1
    except (msgspec.DecodeError, UnicodeError):
        is_good = False
    if is_good:
        return lines
    _check_encoding(lines, "headers")
    texts = lines.to_pylist()
    for row, text in enumerate(texts):
        try:
            texts[row] = msgspec.json.encode(_read_headers(text)).decode()
        except (msgspec.DecodeError, UnicodeError) as error:
            raise _bad(text, "headers", row, f"headers as JSON, all text: {error}") from error
    return pa.array(texts, pa.string())


def _check_encoding(lines: pa.Array, column: str) -> None:
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidBody(
            f"column {column!r} holds text that is not UTF-8: {error}.", path=column, column=column
        ) from error


def _bad(text: str, column: str, row: int, what: str) -> InvalidBody:
    return InvalidBody(
        f"column {column!r} is not {what.rstrip('.')}: {text[:80]!r}.",
        path=column,
        column=column,
        row=row,
    )
