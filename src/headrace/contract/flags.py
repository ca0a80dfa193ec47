"""What the protocols state about each of their operations: does it write, and may it be repeated?

The flags belong to the operation, whatever the driver: ``contract.operations`` collects them, and a
test compares the ``Op`` of every driver with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
Repeatable = bool | Callable[..., bool]


class Flags(NamedTuple):
    """``repeatable`` is known, or a function of the operation's arguments, by name."""

    writes: bool
    repeatable: Repeatable


def reads(method: Method) -> Method:
    """Mark an operation that changes nothing. It may be repeated."""
    method.flags = Flags(writes=False, repeatable=True)  # type: ignore[attr-defined]  # read by flags_of
    return method


def writes(*, repeatable: Repeatable = False) -> Callable[[Method], Method]:
    """Mark an operation that changes something.

    It is ``repeatable`` if running it twice gives the same answer and the same state, or if
    nothing depends on the difference: a caller that lost the answer may simply send it again.
    """

    def mark(method: Method) -> Method:
        method.flags = Flags(writes=True, repeatable=repeatable)  # type: ignore[attr-defined]  # read by flags_of
        return method

    return mark


def flags_of(method: Callable[..., Any]) -> Flags:
    """What a protocol states about one of its operations."""
    found: Flags = method.flags  # type: ignore[attr-defined]  # set by the two above
    return found


def have_keys(calls: Any) -> bool:
    """Whether each of the calls has an idempotency key: then a repeat gets the first outcome."""
    return all(call.key is not None for call in calls)
