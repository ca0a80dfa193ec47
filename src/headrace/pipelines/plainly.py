"""Errors that Spark passes on: what is wrong, and not the way it took through our code.

Spark answers with the whole traceback of its Python process. For what is raised on purpose the
last line of that says everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from headrace.errors import HeadraceError

P = ParamSpec("P")
T = TypeVar("T")


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """Raise errors of Headrace as if they came from here."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except HeadraceError as error:
            raise error.with_traceback(None) from None

    return call


def plainly_each(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for a method that yields."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **kwargs)
        except HeadraceError as error:
            raise error.with_traceback(None) from None

    return call
