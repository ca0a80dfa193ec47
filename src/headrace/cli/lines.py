"""JSON lines from a stream, in batches that can be written at once."""

from __future__ import annotations

import io
import select
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from headrace.errors import InvalidInput

# The keys of batches hang on these numbers: with others, the same input would be new.
BATCH_RECORDS = 1000
BATCH_BYTES = 8 * 1024 * 1024
CHUNK = 64 * 1024


class Stream(Protocol):
    """A binary stream that gives what is there without waiting for more."""

    def read1(self, size: int, /) -> bytes: ...
    def fileno(self) -> int: ...


class BadLine(Exception):
    """A line that cannot be taken in; ``number`` counts from 1."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number}: {why.rstrip('.')}")
        self.number = number


class Batch(NamedTuple):
    """Bodies, the line each stood on, and how many bytes were read for them."""

    bodies: list[Any]
    numbers: list[int]
    size: int

    def bad_line(self, error: InvalidInput, check: Callable[[Any], object]) -> BadLine:
        """Which line is to blame for an error of the whole batch: ``check`` raises for it."""
        for number, body in zip(self.numbers, self.bodies, strict=True):
            try:
                check(body)
            except InvalidInput as reason:
                return BadLine(number, str(reason))
        return BadLine(self.numbers[0], str(error))


def batches(stream: Stream, *, is_prompt: bool) -> Iterator[Batch]:
    """Batches of the stream's lines, cut by number and size; blank lines are skipped.

    ``is_prompt`` also cuts whenever nothing more is there yet, so that records of a slow
    producer do not wait for others. Without it the cuts hang on the input alone.
    """
    bodies: list[Any] = []
    numbers: list[int] = []
    number = size = 0
    for line in _lines(stream):
        if line is None:
            is_due = is_prompt
        else:
            number += 1
            size += len(line) + 1
            if line.strip():
                bodies.append(_decode(line, number))
                numbers.append(number)
            is_due = len(bodies) >= BATCH_RECORDS or size >= BATCH_BYTES
        if is_due and bodies:
            yield Batch(bodies, numbers, size)
            bodies, numbers, size = [], [], 0
    if bodies:
        yield Batch(bodies, numbers, size)


def _decode(line: bytes, number: int) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadLine(number, str(error)) from error


def _lines(stream: Stream) -> Iterator[bytes | None]:
    """Lines as they come, and None whenever there is nothing more yet."""
    pieces: list[bytes] = []
    while chunk := stream.read1(CHUNK):
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
        # Not a file that one could wait for: it gives all it has at once.
        return True
    return bool(ready)
