"""JSON lines from a stream, in batches that are each written in one operation."""

from __future__ import annotations

import io
import select
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from headrace.errors import InvalidInput

# Changing these changes how input is cut into batches, so that the idempotency keys of batches
# would no longer recognise input that was written before.
MAX_BATCH_RECORDS = 1000
MAX_BATCH_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 64 * 1024


class Stream(Protocol):
    """A binary stream that returns the available bytes without waiting for more."""

    def read1(self, size: int, /) -> bytes: ...
    def fileno(self) -> int: ...


class BadLine(Exception):
    """A line that cannot be written; ``number`` counts from 1."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why.rstrip('.')}")
        self.number = number


class LineBatch(NamedTuple):
    """Decoded lines, their line numbers, and how many bytes they had."""

    bodies: list[Any]
    numbers: list[int]
    size: int

    def bad_line(self, error: InvalidInput) -> BadLine:
        """The line that caused an error of the batch."""
        row = error.details.get("row", 0)
        return BadLine(self.numbers[row], str(error).removeprefix(f"row {row}: "))


def batches(stream: Stream, *, is_prompt: bool) -> Iterator[LineBatch]:
    """Batches of the stream's lines, limited by count and bytes; blank lines are skipped.

    ``is_prompt`` also ends a batch when no more input is available yet, so that records of a slow
    producer are not delayed. Without it the batches depend on the input alone.
    """
    bodies: list[Any] = []
    numbers: list[int] = []
    number = size = 0
    for line in _lines(stream):
        if line is None:
            is_complete = is_prompt
        else:
            number += 1
            size += len(line) + 1
            if line.strip():
                bodies.append(_decode(line, number))
                numbers.append(number)
            is_complete = len(bodies) >= MAX_BATCH_RECORDS or size >= MAX_BATCH_BYTES
        if is_complete and bodies:
            yield LineBatch(bodies, numbers, size)
            bodies, numbers, size = [], [], 0
    if bodies:
        yield LineBatch(bodies, numbers, size)


def _decode(line: bytes, number: int) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLine(number, str(error)) from error


def _lines(stream: Stream) -> Iterator[bytes | None]:
    """Lines as they arrive, and None whenever no more input is available yet."""
    pieces: list[bytes] = []
    while chunk := stream.read1(CHUNK_BYTES):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        for other in others:
            yield b"".join(pieces)
            pieces = [other]
        if not _has_more(stream):
            yield None
    last = b"".join(pieces)
    if last:
        yield last


def _has_more(stream: Stream) -> bool:
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], 0)
    except (OSError, ValueError, io.UnsupportedOperation):
        # Not a file that select() supports: a read returns everything there is.
        return True
    return bool(ready)
