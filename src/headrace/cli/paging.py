"""All of a long list, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

PAGE = 1000


class Named(Protocol):
    """What is listed by key-values."""

    @property
    def key_values(self) -> KeyValues:
        """Its place in the list."""
        ...


T = TypeVar("T", bound=Named)
T_co = TypeVar("T_co", bound=Named, covariant=True)


class Look(Protocol[T_co]):
    """A method of a client that lists things, some at a time."""

    def __call__(
        self, select: Query | None, /, *, after: KeyValues | None = None, limit: int
    ) -> Sequence[T_co]:
        """Up to ``limit`` of those that a query selects, behind ``after``."""
        ...


def everything(look: Look[T], select: Query | None) -> Iterator[T]:
    """All that a query selects, or all there is."""
    found = look(select, limit=PAGE)
    while found:
        yield from found
        found = look(select, after=found[-1].key_values, limit=PAGE)
