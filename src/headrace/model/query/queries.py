"""Queries: selections joined by And and Or."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec
from msgspec.structs import force_setattr

from headrace.errors import InvalidQuery
from headrace.model.fields import refuse, shown, step
from headrace.model.frozen_map import FrozenMap
from headrace.model.query.evaluator import Matcher
from headrace.model.query.key_values import KeyValues
from headrace.model.query.selections import KeyQuery, Selection
from headrace.model.query.willow_json import fields_of, parsed

# How deep queries may be nested.
MAX_DEPTH = 100

_FIELDS = {"Selection": ("Selections",), "And": (), "Or": ()}
_encode = msgspec.json.Encoder().encode


class Query(msgspec.Struct, frozen=True):
    """Which objects: (``selection`` and all of ``and_``) or any of ``or_``.

    An empty query selects everything; one with only ``or_`` selects what any of them selects.

    >>> query = headrace.where(os="linux") | headrace.where(os="mac", tries__lt=3)
    >>> query.matches({"os": "mac", "tries": 1})
    True
    """

    selection: Selection | None = None
    and_: tuple[Query, ...] = ()
    or_: tuple[Query, ...] = ()

    def __post_init__(self) -> None:
        if self.selection is not None and not isinstance(self.selection, Selection):
            refuse(InvalidQuery, "Selection", f"{shown(self.selection)} is no Selection.")
        force_setattr(self, "and_", _checked(self.and_, "And"))
        force_setattr(self, "or_", _checked(self.or_, "Or"))
        if _depth(self) > MAX_DEPTH:
            refuse(InvalidQuery, "", f"queries lie deeper than {MAX_DEPTH} levels in queries.")

    @classmethod
    def exactly(cls, key_values: Mapping[str, object]) -> Self:
        """Objects with these key-values and no others."""
        with step("", InvalidQuery):
            found = KeyValues.of(key_values, "KeyValues", allow_any=True)
        exact = {key: KeyQuery(v, "=", v.type, v.type) for key, v in found.all.items()}
        return cls(Selection(None, FrozenMap(exact), len(exact), len(exact)))

    @classmethod
    def ids(cls, *ids: str) -> Self:
        """The objects with these ids."""
        return cls(Selection.of(ids=ids))

    @property
    def is_all(self) -> bool:
        """Whether it is empty, and so selects everything."""
        return self.selection is None and not self.and_ and not self.or_

    def __and__(self, other: Query) -> Query:
        if not isinstance(other, Query):
            return NotImplemented
        if self.is_all or other.is_all:
            return self if other.is_all else other
        return Query(and_=(*_conditions(self), *_conditions(other)))

    def __or__(self, other: Query) -> Query:
        if not isinstance(other, Query):
            return NotImplemented
        if self.is_all or other.is_all:
            return Query()
        return Query(or_=(*_choices(self), *_choices(other)))

    def matches(self, key_values: Mapping[str, object], id: str | None = None) -> bool:
        """Whether the query selects an object with these key-values and this id.

        For many objects ``compiled`` is faster.
        """
        return self.compiled()(KeyValues.of(key_values, "key_values", allow_any=True), id)

    def compiled(self) -> Matcher:
        """The query as a function of key-values and id, for repeated use."""
        return Matcher(self)

    @property
    def form(self) -> str:
        """The one text for this query, to store and to compare: its JSON, with sorted keys."""
        return _encode(self.to_json()).decode()

    def to_json(self) -> dict[str, Any]:
        """Willow's JSON, as a parser would make it of the text."""
        found: dict[str, Any] = {}
        if self.selection is not None:
            found["Selection"] = self.selection.to_json()
        if self.and_:
            found["And"] = [query.to_json() for query in self.and_]
        if self.or_:
            found["Or"] = [query.to_json() for query in self.or_]
        return found

    @classmethod
    def from_json(cls, given: object) -> Self:
        """From Willow's JSON: text, bytes, or what a parser made of them.

        ``Selections``, as in Willow's own document, is ``Selection``. Any other unknown field is
        refused, so that a misspelt filter never selects everything.
        """
        whole = parsed(given, InvalidQuery)
        return cls() if whole is None else cls._read(whole, MAX_DEPTH)

    @classmethod
    def _read(cls, given: object, levels: int) -> Self:
        if not levels:
            refuse(InvalidQuery, "", f"queries lie deeper than {MAX_DEPTH} levels in queries.")
        found = fields_of(given, _FIELDS, InvalidQuery)
        selection = None
        if "Selection" in found:
            with step("Selection"):
                selection = Selection.from_json(found["Selection"])
        parts = {}
        for name in ("And", "Or"):
            parts[name] = cls._read_all(found[name], name, levels) if name in found else ()
        return cls(selection, parts["And"], parts["Or"])

    @classmethod
    def _read_all(cls, given: object, name: str, levels: int) -> tuple[Self, ...]:
        if not isinstance(given, list):
            refuse(InvalidQuery, name, f"{shown(given)} is no list of queries.")
        if not given:
            refuse(InvalidQuery, name, f"there must be at least one query, or no {name} at all.")
        found = []
        for index, part in enumerate(given):
            with step(f"{name}[{index}]"):
                found.append(cls._read(part, levels - 1))
        return tuple(found)


def _checked(given: object, name: str) -> tuple[Query, ...]:
    if not isinstance(given, Iterable):
        refuse(InvalidQuery, name, f"{shown(given)} is no list of queries.")
    queries = tuple(given)
    for index, query in enumerate(queries):
        if not isinstance(query, Query):
            refuse(InvalidQuery, f"{name}[{index}]", f"{shown(query)} is no query.")
        if query.is_all:
            refuse(InvalidQuery, f"{name}[{index}]", "it says nothing: leave it out.")
    return queries


def _conditions(query: Query) -> tuple[Query, ...]:
    """The parts that must all match, without a needless level."""
    return query.and_ if query.selection is None and not query.or_ else (query,)


def _choices(query: Query) -> tuple[Query, ...]:
    """The parts of which one must match."""
    return query.or_ if query.selection is None and not query.and_ else (query,)


def _depth(query: Query) -> int:
    return 1 + max((_depth(part) for part in (*query.and_, *query.or_)), default=0)
