"""Calling a processor with the rows of a claim: the same in this process and in executors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from headrace.errors import InvalidBody, SparkUnavailable
from headrace.pipelines.arrow import batch_of, lines_of_table
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import Piece, lines_of, piece_of, said
from headrace.pipelines.rows import Rows

SIDE_BY_SIDE = 100
"""How many records a coroutine function may be busy with at once."""

CULPRIT = (Exception, SystemExit)
"""What a processor may raise that is its record's fault, or its own, and not the process's end."""

_loops = threading.local()


def call(
    processor: Processor, rows: Rows, *, max_body: int, is_separate: bool = False
) -> list[Piece]:
    """What comes of the rows, in order, up to where it was found out.

    A function of records is called with each of them, whichever fails; one of batches with all
    at once, and after a failure with ever fewer, until the first record that fails is found:
    what lies behind it is not covered then. ``is_separate`` asks for a piece for each record,
    where that can be told.
    """
    if processor.kind == "record":
        return _call_records(processor, rows, max_body=max_body, is_separate=is_separate)

    def whole(some: Rows) -> Sequence[str]:
        return lines_of_table(processor.function(batch_of(some)), max_body=max_body)

    return bisected(whole, rows)


def bisected(whole: Callable[[Rows], Sequence[str]], rows: Rows) -> list[Piece]:
    """The rows in as few pieces as will do, up to the first record that fails."""
    try:
        return [Piece(rows.seqs[0], rows.seqs[-1], whole(rows))]
    except SparkUnavailable:
        raise  # nothing of it is a record's fault
    except CULPRIT as error:
        if rows.count == 1:
            return [Piece(rows.seqs[0], rows.seqs[0], error=said(error))]
    half = rows.count // 2
    pieces = bisected(whole, rows.cut(0, half))
    if pieces[-1].error is None:
        pieces += bisected(whole, rows.cut(half, rows.count))
    return pieces


def _call_records(
    processor: Processor, rows: Rows, *, max_body: int, is_separate: bool
) -> list[Piece]:
    arguments = rows.records() if processor.takes_record else rows.decoded()
    if processor.is_async:
        results = _loop().run(_gathered(processor.function, arguments))
    else:
        results = _called(processor.function, arguments)
    if not is_separate and Failed not in set(map(type, results)):
        piece = piece_of(rows.seqs, results, max_body=max_body)
        if piece is not None:
            return [piece]
    return [_piece(seq, result, max_body) for seq, result in zip(rows.seqs, results, strict=True)]


class Failed:
    """In place of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _called(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    results: list[Any] = []
    for argument in arguments:
        try:
            results.append(function(argument))
        except CULPRIT as error:  # whichever of them fails
            results.append(Failed(error))
    return results


def _piece(seq: int, result: Any, max_body: int) -> Piece:
    if isinstance(result, Failed):
        return Piece(seq, seq, error=said(result.error))
    try:
        return Piece(seq, seq, lines_of(result, max_body=max_body))
    except InvalidBody as error:
        return Piece(seq, seq, error=said(error))


async def _gathered(
    function: Callable[[Any], Coroutine[Any, Any, Any]], arguments: Sequence[Any]
) -> list[Any]:
    turn = asyncio.Semaphore(SIDE_BY_SIDE)

    async def attempt(argument: Any) -> Any:
        async with turn:
            try:
                return await function(argument)
            except CULPRIT as error:
                return Failed(error)

    return await asyncio.gather(*(attempt(argument) for argument in arguments))


def _loop() -> asyncio.Runner:
    """This thread's event loop: one for all claims, as connections of a user's code need it."""
    runner: asyncio.Runner | None = getattr(_loops, "runner", None)
    if runner is None:
        runner = _loops.runner = asyncio.Runner()
    return runner


def close_loop() -> None:
    """Close this thread's event loop, if it has one."""
    runner: asyncio.Runner | None = getattr(_loops, "runner", None)
    if runner is not None:
        _loops.runner = None
        runner.close()
