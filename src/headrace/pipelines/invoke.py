"""Calls a processor with the rows of a claim, in this process and in executors alike."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any

from headrace.errors import SparkUnavailable
from headrace.pipelines.arrow import batch_of, encode_table
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import RangeOutcome, combined_outcome, encode_result, format_error
from headrace.pipelines.rows import Rows
from headrace.pipelines.time_limits import Limit, TimeLimitExceeded, exceeded

MAX_CONCURRENT_RECORDS = 100
"""How many records a coroutine function processes concurrently."""

SLACK_SECONDS = 1.0
"""How much later the loop is interrupted than a record that waits in it is cancelled."""

_loops = threading.local()
_abandoned: deque[asyncio.Runner] = deque(maxlen=MAX_CONCURRENT_RECORDS)
"""Loops that were abandoned with tasks in them, kept so that asyncio does not warn of lost tasks."""


def call(
    processor: Processor,
    rows: Rows,
    *,
    max_body: int,
    is_separate: bool = False,
    limit: Limit | None = None,
) -> list[RangeOutcome]:
    """The outcomes of the rows, in order.

    A function of records is called with each record, also behind one that fails. A function of
    batches is called with all rows, and after a failure with halves of them, until the first
    record that fails is found: the rows behind it have no outcome then. ``is_separate`` asks for
    an outcome for each record, where possible. ``limit`` is entered for each call, and for each
    record that is processed concurrently.

    Anything that a processor raises is the failure of its record or batch, including
    ``SystemExit``, ``KeyboardInterrupt`` and ``asyncio.CancelledError``: it is called in threads
    of a runner and in Spark's workers, where signals for the process do not arrive.
    """
    if processor.kind == "record":
        results: list[Any] = []
        call_each(processor, rows, results, limit)
        return outcomes_of(rows, results, max_body=max_body, is_separate=is_separate)

    def process_all(part: Rows) -> Sequence[str]:
        batch = batch_of(part)
        if limit is None:
            result = processor.function(batch)
        else:
            with limit:
                result = processor.function(batch)
        return encode_table(result, max_body=max_body)

    return bisect_failures(process_all, rows)


def bisect_failures(
    process_all: Callable[[Rows], Sequence[str]],
    rows: Rows,
    check: Callable[[], None] | None = None,
) -> list[RangeOutcome]:
    """As few outcomes as possible, up to the first record that fails.

    ``check`` is called before a record is blamed; it raises if something else is the reason.
    """
    try:
        return [RangeOutcome(rows.seqs[0], rows.seqs[-1], process_all(rows))]
    except SparkUnavailable:
        raise  # no record is the reason
    except BaseException as error:  # the user's code may raise anything
        if rows.count == 1:
            if check is not None:
                check()
            return [RangeOutcome(rows.seqs[0], rows.seqs[0], error=format_error(error))]
    half = rows.count // 2
    outcomes = bisect_failures(process_all, rows.slice(0, half), check)
    if outcomes[-1].error is None:
        outcomes += bisect_failures(process_all, rows.slice(half, rows.count), check)
    return outcomes


def call_each(
    processor: Processor, rows: Rows, results: list[Any], limit: Limit | None = None
) -> None:
    """Call a function with each record, and append each result or ``CallFailure`` to results."""
    arguments = rows.records() if processor.takes_record else rows.decoded_bodies()
    if processor.is_async:
        results += _call_concurrently(processor.function, arguments, limit)
    elif limit is None:
        _call_in_turn(processor.function, arguments, results)
    else:
        _call_in_turn_limited(processor.function, arguments, results, limit)


def outcomes_of(
    rows: Rows, results: Sequence[Any], *, max_body: int, is_separate: bool
) -> list[RangeOutcome]:
    """The outcomes of the first rows, as many as there are results."""
    seqs = rows.seqs[: len(results)]
    if not is_separate and CallFailure not in set(map(type, results)):
        outcome = combined_outcome(seqs, results, max_body=max_body)
        if outcome is not None:
            return [outcome]
    return [_outcome_of(seq, result, max_body) for seq, result in zip(seqs, results, strict=True)]


class CallFailure:
    """Takes the place of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _call_in_turn(
    function: Callable[..., Any], arguments: Sequence[Any], results: list[Any]
) -> None:
    for argument in arguments:
        try:
            results.append(function(argument))
        except BaseException as error:  # the user's code may raise anything
            results.append(CallFailure(error))


def _call_in_turn_limited(
    function: Callable[..., Any], arguments: Sequence[Any], results: list[Any], limit: Limit
) -> None:
    for argument in arguments:
        try:
            with limit:
                result = function(argument)
        except BaseException as error:  # as above
            result = CallFailure(error)
        results.append(result)


def _outcome_of(seq: int, result: Any, max_body: int) -> RangeOutcome:
    if isinstance(result, CallFailure):
        return RangeOutcome(seq, seq, error=format_error(result.error))
    try:
        return RangeOutcome(seq, seq, encode_result(result, max_body=max_body))
    except Exception as error:  # a result's own class may raise anything
        return RangeOutcome(seq, seq, error=format_error(error))


def _call_concurrently(
    function: Callable[..., Any], arguments: Sequence[Any], limit: Limit | None
) -> list[Any]:
    """Call for all arguments concurrently; in halves if one of them stops the loop for others."""
    try:
        if limit is None:
            return _thread_loop().run(_gather(function, arguments, None))
        limit.slack = SLACK_SECONDS
        with limit:
            return _thread_loop().run(_gather(function, arguments, limit))
    except BaseException as error:  # one of them has cancelled all tasks, or blocks the loop
        _abandon_loop(limit)
        if len(arguments) == 1:
            return [CallFailure(error)]
    half = len(arguments) // 2
    return [
        *_call_concurrently(function, arguments[:half], limit),
        *_call_concurrently(function, arguments[half:], limit),
    ]


async def _gather(
    function: Callable[[Any], Coroutine[Any, Any, Any]],
    arguments: Sequence[Any],
    limit: Limit | None,
) -> list[Any]:
    turn = asyncio.Semaphore(MAX_CONCURRENT_RECORDS)

    async def attempt(argument: Any) -> Any:
        async with turn:
            try:
                if limit is None:
                    return await function(argument)
                return await _call_with_timeout(function, argument, limit)
            except BaseException as error:  # cancelled included: the record's, not the loop's
                return CallFailure(error)

    tasks = (attempt(argument) for argument in arguments)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [CallFailure(each) if isinstance(each, BaseException) else each for each in results]


async def _call_with_timeout(
    function: Callable[[Any], Coroutine[Any, Any, Any]], argument: Any, limit: Limit
) -> Any:
    try:
        async with asyncio.timeout(limit.seconds) as until:
            return await function(argument)
    except TimeLimitExceeded as error:  # it blocked the loop
        raise exceeded(limit.seconds) from error
    except TimeoutError as error:
        if until.expired():
            raise exceeded(limit.seconds) from error
        raise
    finally:
        limit.touch()


def _thread_loop() -> asyncio.Runner:
    """This thread's event loop: one for all claims, so that the user's connections stay usable."""
    runner: asyncio.Runner | None = getattr(_loops, "runner", None)
    if runner is None:
        runner = _loops.runner = asyncio.Runner()
    return runner


def _abandon_loop(limit: Limit | None) -> None:
    """Use another event loop in this thread from now on: tasks in this one may never end."""
    runner: asyncio.Runner | None = getattr(_loops, "runner", None)
    _loops.runner = None
    if runner is None:
        return
    try:
        with limit or nullcontext():
            runner.close()
    except BaseException:  # one of its tasks does not end
        _abandoned.append(runner)


def close_loop() -> None:
    """Close this thread's event loop, if it has one."""
    runner: asyncio.Runner | None = getattr(_loops, "runner", None)
    if runner is not None:
        _loops.runner = None
        runner.close()
