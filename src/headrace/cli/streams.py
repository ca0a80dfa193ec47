"""Long input from stdin: counted as it is taken in, told if it ends early."""

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
from headrace.cli.command import hush
from headrace.cli.exits import Code
from headrace.cli.lines import BadLine
from headrace.errors import HeadraceError, OutcomeUnknown


class Count:
    """How much of it was taken in so far, and how fast."""

    def __init__(self) -> None:
        self.total = 0
        self._started = time.monotonic()

    @property
    def pace(self) -> str:
        """In what time, for people."""
        seconds = max(time.monotonic() - self._started, 0.001)
        return f"in {seconds:.1f} s ({self.total / seconds:,.0f}/s)"


@contextmanager
def counted(verb: str, noun: str) -> Iterator[Count]:
    """Count what is taken in, and tell if the work ends early."""
    count = Count()
    try:
        yield count
    except BadLine as error:
        output.complain(
            f"{error}; nothing of its batch was {verb}; "
            f"{verb} before it: {output.counted(count.total, noun)}."
        )
        raise typer.Exit(Code.FAILED) from error
    except BaseException as error:
        said = f"{verb} {output.counted(count.total, noun)} before this"
        is_known = isinstance(error, HeadraceError) and not isinstance(error, OutcomeUnknown)
        output.note(said if is_known else f"{said}, and perhaps the batch under way")
        raise


def print_on(print: Callable[[], None]) -> None:
    """Print; a reader that has gone away does not stop the work."""
    try:
        print()
        sys.stdout.flush()
    except BrokenPipeError:
        hush()


def stdin() -> Any:
    """The bytes of stdin: a BufferedReader, though typed as any BinaryIO."""
    return sys.stdin.buffer


def size(stream: Any) -> int | None:
    """How many bytes there are to read, if that can be known."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
