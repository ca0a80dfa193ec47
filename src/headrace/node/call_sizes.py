"""How much one call may ask for, so that no client makes a node hold more than it can.

The length of a request's body is limited elsewhere (``node.http``); this limits what an answer has,
and how many things a call names. Reads of records are limited in bytes, everything else in number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from headrace.contract.operations import OPERATIONS, Operation
from headrace.errors import InvalidOption

MAX_ITEMS = 10_000
MAX_ANSWER_BYTES = 16 * 1024 * 1024

_NUMBERS = ("limit", "count", "holders")
_UNLIMITED = {
    "counters.acquire",
    "counters.add",
    "counters.set",
    "limits.add_override",
    "limits.change",
    "pipelines.define",
    "procs.claim_span",
}
"""Operations with a number that their answer's size does not depend on."""

Check = Callable[[Any], None]


def check_size(operation: Operation, arguments: msgspec.Struct) -> None:
    """Raise ``InvalidOption`` if a call asks for too much."""
    for check in _CHECKS[operation.name]:
        check(arguments)


def _checks(operation: Operation) -> list[Check]:
    found: list[Check] = []
    fields = msgspec.structs.fields(operation.arguments)
    has_limits = operation.name not in _UNLIMITED
    for field in fields:
        if "Sequence[" in str(field.type):
            found.append(_length_check(field.name))
        elif has_limits and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            inner = [one.name for one in msgspec.structs.fields(field.type)]
            found += [_within(field.name, check) for check in _number_checks(inner)]
    if has_limits:
        found += _number_checks([field.name for field in fields])
    if operation.name == "queues.push":
        found.append(_check_documents)
    return found


def _number_checks(names: Iterable[str]) -> list[Check]:
    """The checks of numbers; where bytes are limited, the number of records need not be."""
    given = set(names)
    if "max_bytes" in given:
        return [_number_check("max_bytes", MAX_ANSWER_BYTES)]
    return [_number_check(name, MAX_ITEMS) for name in _NUMBERS if name in given]


def _number_check(name: str, limit: int) -> Check:
    def check(arguments: Any) -> None:
        value = getattr(arguments, name)
        if isinstance(value, int) and value > limit:
            raise _too_much(name, value, limit)

    return check


def _length_check(name: str) -> Check:
    def check(arguments: Any) -> None:
        value = getattr(arguments, name)
        if value is not None and len(value) > MAX_ITEMS:
            raise _too_much(name, len(value), MAX_ITEMS)

    return check


def _within(name: str, check: Check) -> Check:
    return lambda arguments: check(getattr(arguments, name))


def _check_documents(arguments: Any) -> None:
    count = sum(len(call.documents) for call in arguments.calls)
    if count > MAX_ITEMS:
        raise _too_much("documents", count, MAX_ITEMS)


def _too_much(name: str, value: int, limit: int) -> InvalidOption:
    return InvalidOption(
        f"{name} is {value}, and a node accepts up to {limit} in one call: make several calls.",
        option=name,
        limit=limit,
    )


_CHECKS = {operation.name: _checks(operation) for operation in OPERATIONS.values()}
