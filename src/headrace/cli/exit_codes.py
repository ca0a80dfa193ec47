"""Exit codes for scripts, the same in every command."""

from __future__ import annotations

from enum import IntEnum

from headrace.errors import HeadraceError, InvalidInput, NotFound


class Code(IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNAVAILABLE = 4
    INTERRUPTED = 130


MEANINGS = {
    Code.OK: "done",
    Code.FAILED: "a check or an operation failed",
    Code.USAGE: "wrong usage: arguments, names, positions, settings",
    Code.NOT_FOUND: "the store, topic, record, proc, queue, item or lock does not exist",
    Code.UNAVAILABLE: "the store is unavailable or busy: try again",
    Code.INTERRUPTED: "interrupted",
}


def code_of(error: HeadraceError) -> Code:
    """The exit code of a Headrace error."""
    if error.retryable:
        return Code.UNAVAILABLE
    if isinstance(error, InvalidInput):
        return Code.USAGE
    return Code.NOT_FOUND if isinstance(error, NotFound) else Code.FAILED
