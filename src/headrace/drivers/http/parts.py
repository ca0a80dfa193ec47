"""The parts of a store behind a node: every method builds an ``Op`` that is sent to the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.contract.items import ClaimRequest
from headrace.contract.op import Op, Steps
from headrace.contract.operations import OPERATIONS, PARTS, Operation
from headrace.drivers.http.messages import Call


class RemotePart:
    """One part of a store, made from the table of operations."""

    def __init__(self, part: str) -> None:
        for operation in OPERATIONS.values():
            if operation.part == part:
                setattr(self, operation.method, _builder(operation))


def _builder(operation: Operation) -> Callable[..., Op[Any]]:
    def build(*args: Any, **named: Any) -> Op[Any]:
        arguments = operation.arguments(*args, **named)
        call = Call(operation, arguments, operation.is_repeatable(arguments))
        was_sent = False

        def steps() -> Steps[Any]:
            nonlocal was_sent
            sent, was_sent = was_sent, True
            return (yield _repeat(call) if sent else call)

        return Op(operation.name, steps, writes=operation.writes, repeatable=call.is_repeatable)

    return build


def _repeat(call: Call) -> Call:
    """A call that may have been executed before. A claim says so, to get the same items."""
    request = getattr(call.arguments, "request", None)
    if not isinstance(request, ClaimRequest):
        return call
    repeat = msgspec.structs.replace(request, is_repeat=True)
    return msgspec.structs.replace(
        call, arguments=msgspec.structs.replace(call.arguments, request=repeat)
    )


def compose(store: Any) -> None:
    """Give a store all of its parts."""
    for part in PARTS:
        setattr(store, part, RemotePart(part))
