"""Long lists, read page by page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query

PAGE_SIZE = 1000

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ListByKeyValues(Protocol[T_co]):
    """A client method that lists things in the order of their key-values."""

    def __call__(
        self, select: Query | None, /, *, after: KeyValues | None = None, limit: int
    ) -> Sequence[T_co]:
        """Up to ``limit`` of those that the query selects, behind ``after``."""
        ...


def all_pages(
    read: Callable[[Any, int], Sequence[T]],
    *,
    cursor: str,
    after: Any,
    limit: int | None = None,
) -> Iterator[T]:
    """Yield what ``read(after, page_size)`` returns until it returns nothing or ``limit`` is reached.

    ``cursor`` is the attribute of the last row that the next page starts behind.
    """
    left = sys.maxsize if limit is None else limit
    while left and (page := read(after, min(PAGE_SIZE, left))):
        yield from page
        left -= len(page)
        after = attrgetter(cursor)(page[-1])


def all_selected(list_page: ListByKeyValues[T], select: Query | None) -> Iterator[T]:
    """All that the query selects, or everything without a query."""
    return all_pages(
        lambda after, limit: list_page(select, after=after, limit=limit),
        cursor="key_values",
        after=None,
    )
