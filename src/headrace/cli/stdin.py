"""Long input from stdin: counted while it is written, also when the command fails midway."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from headrace.cli import output
from headrace.cli.command import discard_stdout
from headrace.cli.exit_codes import Code
from headrace.cli.jsonl import BadLine
from headrace.errors import HeadraceError, OutcomeUnknown


class InputCount:
    """How much was written so far, and how fast."""

    def __init__(self) -> None:
        self.total = 0
        self._started = time.monotonic()

    @property
    def pace(self) -> str:
        """The time since the start and the rate, for people."""
        seconds = max(time.monotonic() - self._started, 0.001)
        return f"in {seconds:.1f} s ({self.total / seconds:,.0f}/s)"


@contextmanager
def count_input(verb: str, noun: str) -> Iterator[InputCount]:
    """Count what the block writes; if the block fails, print how much was written before."""
    count = InputCount()
    try:
        yield count
    except BadLine as error:
        output.error(
            f"{error}; nothing of its batch was {verb}; "
            f"{verb} before it: {output.format_count(count.total, noun)}."
        )
        raise typer.Exit(Code.FAILED) from error
    except BaseException as error:
        message = f"{verb} {output.format_count(count.total, noun)} before this"
        is_known = isinstance(error, HeadraceError) and not isinstance(error, OutcomeUnknown)
        output.note(message if is_known else f"{message}, and perhaps the batch in progress")
        raise


def print_unless_closed(print: Callable[[], None]) -> None:
    """Print, and continue without output if the reader of stdout has gone away."""
    try:
        print()
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def binary_stdin() -> Any:
    """stdin as a BufferedReader, which is typed as BinaryIO."""
    return sys.stdin.buffer


def size_of(stream: Any) -> int | None:
    """The size of the input in bytes, if it is a file."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
