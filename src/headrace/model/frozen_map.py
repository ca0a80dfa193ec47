"""Immutable maps, sorted by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

from headrace.model.fields import shown

V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """A map of names that is fixed, hashable and always in the order of its names."""

    __slots__ = ("_all", "_hash")

    _all: dict[str, V]

    def __init__(self, pairs: Mapping[str, V]) -> None:
        self._all = {name: pairs[name] for name in sorted(pairs)}

    @property
    def all(self) -> dict[str, V]:
        """The pairs as a dict, for fast repeated lookups. Not to be changed."""
        return self._all

    def __getitem__(self, name: str) -> V:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self._all == other._all
        return NotImplemented

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash(tuple(self._all.items()))
            return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self._all)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._all,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
