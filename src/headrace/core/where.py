"""Queries as keywords, in the form that Django has made known: ``where(os="linux", tries__gt=3)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.errors import InvalidQuery
from headrace.model.fields import refuse, shown, step, unknown
from headrace.model.query.queries import Query
from headrace.model.query.selections import Comparison, KeyQuery, Selection
from headrace.model.query.typed_values import ANY

DIVIDER = "__"


def where(**asked: object) -> Query:
    """A query that matches key-values that meet all conditions: ``where(os="linux", tries__gt=3)``.

    A plain key tests for equality. ``__ne`` is its opposite, and also matches where the key is
    missing. ``__lt``, ``__lte``, ``__gt`` and ``__gte`` compare with values of the same type,
    ``__in`` accepts a list of values, ``__exists`` tests whether the key is there, with any value.
    ``&`` and ``|`` join queries. Use ``Query`` and ``Selection`` for other conditions and for keys
    that contain ``__``, or ``__eq``: ``where(my__key__eq=1)``.
    """
    if not asked:
        refuse(InvalidQuery, "", "where() says nothing: use Query() to select everything.")
    first: dict[str, KeyQuery] = {}
    more: list[Query] = []
    for word, value in asked.items():
        key, lookup = _parted(word)
        with step(word, InvalidQuery):
            found = LOOKUPS[lookup](key, value)
        if isinstance(found, Query):
            more.append(found)
        elif key in first:
            # A selection has one condition for each key.
            more.append(_one(key, found))
        else:
            first[key] = found
    selection = Selection.of(first) if first else None
    return Query(selection, tuple(more))


def _parted(word: str) -> tuple[str, str]:
    key, divider, lookup = word.rpartition(DIVIDER)
    # A key that begins with it is refused as such.
    if not divider or not key:
        return word, "eq"
    if lookup not in LOOKUPS:
        unknown(InvalidQuery, word, [key + DIVIDER + name for name in LOOKUPS])
    return key, lookup


def _comparing(comparison: Comparison) -> Callable[[str, object], KeyQuery]:
    def compared(key: str, value: object) -> KeyQuery:
        if value is None:
            wanted = f"use {key}__exists=False for what has no such key."
            refuse(InvalidQuery, "", f"None is no value: {wanted}")
        return KeyQuery.of(value, comparison)

    return compared


def _one(key: str, asked: KeyQuery) -> Query:
    return Query(Selection.of({key: asked}))


def _in(key: str, values: object) -> Query | KeyQuery:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        refuse(InvalidQuery, "", f"{shown(values)} is no list of values.")
    found = [_comparing("=")(key, value) for value in values]
    if not found:
        refuse(InvalidQuery, "", "there must be at least one value.")
    return found[0] if len(found) == 1 else Query(or_=tuple(_one(key, asked) for asked in found))


def _exists(key: str, value: object) -> KeyQuery:
    if not isinstance(value, bool):
        refuse(InvalidQuery, "", f"{shown(value)} is neither True nor False.")
    return KeyQuery.of(ANY, "=" if value else "!=")


LOOKUPS: dict[str, Callable[[str, object], Query | KeyQuery]] = {
    "eq": _comparing("="),
    "ne": _comparing("!="),
    "lt": _comparing("<"),
    "lte": _comparing("<="),
    "gt": _comparing(">"),
    "gte": _comparing(">="),
    "in": _in,
    "exists": _exists,
}
