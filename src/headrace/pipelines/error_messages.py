"""Errors that Spark passes on to the user, without the traceback through our code.

Spark reports the whole traceback of its Python process. For Headrace's own errors the last line
says everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from headrace.errors import HeadraceError

P = ParamSpec("P")
T = TypeVar("T")


def without_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Raise errors of Headrace without their traceback."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except HeadraceError as error:
            raise error.with_traceback(None) from None

    return call


def without_traceback_each(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for a generator method."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **kwargs)
        except HeadraceError as error:
            raise error.with_traceback(None) from None

    return call
