"""Bodies and headers to JSON lines and back: the only place that knows the encoding.

msgspec silently writes NaN as null, bytes as base64, sets as lists and any key as text. A log
must return exactly what was committed, so each body is decoded again and compared; only when
the two differ is it walked, to find out where and why. Tuples are the one accepted change: they
come back as lists.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.errors import BodyTooLarge, InvalidBody, MalformedRecord
from headrace.model.checks import each
from headrace.model.fields import shown
from headrace.model.topics.records import Batch, Record

DEFAULT_MAX_BODY = 1024 * 1024
ROW_BYTES = 128 * 1024

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder().decode
_decode_lines = msgspec.json.Decoder().decode_lines
_decode_headers = msgspec.json.Decoder(dict[str, str] | None).decode_lines


def encode_body(body: Any, *, max_body: int = DEFAULT_MAX_BODY) -> str:
    """Return the body as one compact line of JSON, or raise ``InvalidBody``."""
    if type(body) is not dict and not isinstance(body, (dict, list)):
        raise InvalidBody(
            f"a body is a JSON object or list, not {type(body).__name__}: wrap it, as in "
            '{"value": ...}.',
            path="$",
        )
    return encode_value(body, "$", max_body=max_body)


def encode_value(value: Any, path: str, *, max_body: int = DEFAULT_MAX_BODY) -> str:
    """Return any JSON value as one compact line, or raise ``InvalidBody`` with its path."""
    try:
        line = _encode(value)
        same = _decode(line) == value
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        _walk(value, path, 0)
        raise InvalidBody(f"the body cannot be written as JSON: {error}.", path=path) from error
    if not same:
        _walk(value, path, 0)
    if len(line) > max_body:
        raise _too_large(len(line), path, max_body)
    return line.decode()


def encode_bytes(value: bytes, path: str, *, max_body: int = DEFAULT_MAX_BODY) -> str:
    """Return bytes as base64; ``max_body`` limits the size of the bytes themselves."""
    if len(value) > max_body:
        raise _too_large(len(value), path, max_body)
    return base64.b64encode(value).decode()


def decode_value(text: str, queue: str, item: int) -> Any:
    """The JSON value of an item, or ``MalformedRecord``."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _damaged(queue, item) from error


def decode_bytes(text: str, queue: str, item: int) -> bytes:
    """The bytes of an item, or ``MalformedRecord``."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _damaged(queue, item) from error


def _too_large(size: int, path: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"a body of {size} bytes is over the limit of {limit}: keep the data "
        "elsewhere and store a reference, or raise max_body.",
        path=path,
        size=size,
        limit=limit,
    )


def encode_bodies(bodies: list[Any], *, max_body: int = DEFAULT_MAX_BODY) -> list[str]:
    """Encode many bodies as ``encode_body`` does, at a fraction of the cost."""
    text = _encode_all(bodies, max_body)
    if text is not None:
        return text.split("\n")[:-1]
    # Something is unusual: encode one by one, to report what and where.
    return each(bodies, lambda body: encode_body(body, max_body=max_body))


def encode_rows(
    bodies: list[Any], *, max_body: int = DEFAULT_MAX_BODY
) -> list[tuple[int, str, str | None]]:
    """Bodies without headers as the rows that ``pack`` would make of them."""
    text = _encode_all(bodies, max_body)
    if text is None:
        lines = encode_bodies(bodies, max_body=max_body)
        return list(pack(lines, ["null"] * len(lines)))
    return cut_rows(text)


def cut_rows(text: str) -> list[tuple[int, str, str | None]]:
    """Lines that each end with a newline as the rows that ``pack`` would make of them."""
    rows: list[tuple[int, str, str | None]] = []
    start, end = 0, len(text)
    while start < end:
        stop = end - 1
        if stop - start > ROW_BYTES:
            stop = text.rfind("\n", start, start + ROW_BYTES + 1)
            if stop < 0:
                stop = text.index("\n", start)
        rows.append((text.count("\n", start, stop) + 1, text[start:stop], None))
        start = stop + 1
    return rows


def _encode_all(bodies: list[Any], max_body: int) -> str | None:
    """Bodies as lines that each end with a newline; None if any of them needs a closer check."""
    if not set(map(type, bodies)) <= {dict}:
        return None
    try:
        text = _encode_lines(bodies)
        is_small = len(text) <= max_body or max(map(len, text.split(b"\n"))) <= max_body
        return text.decode() if is_small and _decode_lines(text) == bodies else None
    except (TypeError, ValueError, RecursionError, OverflowError):
        return None


def encode_headers(headers: Mapping[str, str] | None) -> str:
    """Return headers as one line of JSON: an object of strings, or ``null``."""
    if not headers:
        return "null"
    if not isinstance(headers, Mapping):
        raise InvalidBody(
            f"headers are a mapping of strings, not {type(headers).__name__}.", path="headers"
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidBody(
                f"header {shown(name)} must be text with a text value, not {type(value).__name__}.",
                path=f"headers[{shown(name)}]",
            )
    try:
        return _encode(dict(headers)).decode()
    except ValueError as error:
        raise InvalidBody(
            f"the headers cannot be written as JSON: {error}.", path="headers"
        ) from error


def pack(lines: Sequence[str], headers: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """Join lines into rows of at most ``ROW_BYTES`` each: (count, body, headers).

    A single line that is longer gets a row of its own.
    """
    start = size = 0
    for index, line in enumerate(lines):
        if index > start and size + len(line) > ROW_BYTES:
            yield _row(lines, headers, start, index)
            start, size = index, 0
        size += len(line) + 1
    if start < len(lines):
        yield _row(lines, headers, start, len(lines))


def _row(
    lines: Sequence[str], headers: Sequence[str], start: int, stop: int
) -> tuple[int, str, str | None]:
    beside = headers[start:stop]
    has_headers = any(line != "null" for line in beside)
    return stop - start, "\n".join(lines[start:stop]), "\n".join(beside) if has_headers else None


def records(topic: str, batch: Batch, low: int, high: int) -> list[Record]:
    """Decode the records of a batch whose seq lies between ``low`` and ``high``."""
    first = max(low, batch.base_seq) - batch.base_seq
    stop = min(high - batch.base_seq + 1, batch.count)
    if stop <= first:
        return []
    whole = first == 0 and stop == batch.count
    try:
        bodies = _decode_lines(batch.body if whole else _cut(batch.body, first, stop))
        beside = None
        if batch.headers is not None:
            beside = _decode_headers(batch.headers if whole else _cut(batch.headers, first, stop))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _malformed(topic, batch) from error
    if len(bodies) != stop - first or (beside is not None and len(beside) != len(bodies)):
        raise _malformed(topic, batch)
    seq = batch.base_seq + first
    ts = batch.ts
    if beside is None:
        return [Record(topic, seq + i, ts, body, {}) for i, body in enumerate(bodies)]
    return [
        Record(topic, seq + i, ts, body, head or {})
        for i, (body, head) in enumerate(zip(bodies, beside, strict=True))
    ]


def dead_letter(
    proc: str, topic: str, batch: Batch, seq: int, error: str | None, attempts: int
) -> str:
    """The body of a dead letter: the record as it was, and why it is here."""
    [record] = records(topic, batch, seq, seq)
    letter = {
        "proc": proc,
        "topic": topic,
        "id": record.id,
        "body": record.body,
        "headers": record.headers,
        "error": error,
        "attempts": attempts,
    }
    return _encode(letter).decode()


def _cut(text: str, first: int, stop: int) -> str:
    return "\n".join(text.split("\n", stop)[first:stop])


def _malformed(topic: str, batch: Batch) -> MalformedRecord:
    return MalformedRecord(
        f"the stored records {batch.base_seq} to {batch.last_seq} of topic {shown(topic)} are not "
        "what was committed: something else has changed the table, or the file is damaged.",
        topic=topic,
        seq=batch.base_seq,
    )


def _damaged(queue: str, item: int) -> MalformedRecord:
    return MalformedRecord(
        f"the stored payload of item {item} of queue {shown(queue)} is not what was pushed: something "
        "else has changed the table, or the file is damaged.",
        queue=queue,
        item=item,
    )


def _walk(value: Any, path: str, depth: int) -> None:
    """Raise at the first place inside ``value`` that JSON cannot hold unchanged."""
    if depth > 500:
        raise InvalidBody(f"{path} is nested too deeply (or contains itself).", path=path)
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidBody(f"{path} is {value}: JSON has no such number; use None.", path=path)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidBody(
                    f"{path} has the key {shown(key)} of type {type(key).__name__}: "
                    "JSON keys are text; convert it first.",
                    path=path,
                )
            _check_text(key, path)
            _walk(item, f"{path}.{key}", depth + 1)
    else:
        raise InvalidBody(
            f"{path} is of type {type(value).__name__}, which JSON cannot hold: "
            "convert it to text, a number, a list or an object first.",
            path=path,
        )


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidBody(f"{path} is not valid Unicode text: {error}.", path=path) from error
