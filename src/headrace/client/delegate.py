"""Methods of an object that one of its parts has."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def delegated(
    part: str, method: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[Any, P], R]:
    """A method that calls ``method`` of the part that is stored under a name.

    >>> class Client:
    ...     create_limit = delegated("_limits", Limits.create)
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def acall(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return await method(getattr(self, part), *args, **kwargs)

        return acall  # type: ignore[return-value]  # R is a coroutine here

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(self, part), *args, **kwargs)

    return call
