"""Statements that need no transaction around them."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.contract.op import Steps
from headrace.drivers.sql_common.statements import Autocommit

T = TypeVar("T")


def autocommit_each(steps: Steps[T]) -> Steps[T]:
    """Send each request of these steps as its own transaction.

    The steps store nothing that their operation is about: they read, or sort what others read.
    """
    answer: Any = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
        if type(request) is tuple:
            answer = yield Autocommit(request, reads=True)
        else:
            [answer] = yield Autocommit((request,), reads=True)
