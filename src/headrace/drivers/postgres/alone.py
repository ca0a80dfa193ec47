"""Statements that need no transaction around them."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.contract.op import Steps
from headrace.drivers.relational.sql import Whole

T = TypeVar("T")


def each_alone(steps: Steps[T]) -> Steps[T]:
    """Steps of which each request is a transaction by itself."""
    answer: Any = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
        if type(request) is tuple:
            answer = yield Whole(request)
        else:
            [answer] = yield Whole((request,))
