"""Key-values and queries in the JSON of the API, as several resources have them.

A value is written plainly, or with its type as in queries: ``3``, or ``{"Type": 8, "Data": "3"}``.
``*`` stands for any value, where rules may say so; the text ``*`` is written with its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.errors import InvalidQuery
from headrace.model.fields import refuse, shown, step
from headrace.model.query.key_values import ANYTHING, KeyValues, value_from_json, value_to_json
from headrace.model.query.queries import Query
from headrace.model.query.typed_values import ANY, Value
from headrace.node.resources.pages import PlaceBody

Pairs = dict[str, Any]
"""Key-values as people write them: ``{"os": "linux"}``."""


class Named(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What some key-values name."""

    key_values: Pairs

    @property
    def typed(self) -> KeyValues:
        """The key-values, checked."""
        return typed(self.key_values)


class QueryBody(PlaceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ones: those that a query selects, or all."""

    select: Any = None

    @property
    def query(self) -> Query | None:
        """The query, if there is one."""
        return query_of(self.select)

    def place(self, name: str) -> KeyValues | None:
        """Where the list of this name continues."""
        form = self.after(name, "")
        return KeyValues.read(form) if form else None


def query_of(given: Any) -> Query | None:
    """A query in its JSON, as it was decoded."""
    if given is None:
        return None
    with step("select"):
        if isinstance(given, str):
            # The library would read it as the text of a query.
            refuse(InvalidQuery, "", f"{shown(given)} is no query: send an object.")
        return Query.from_json(given)


def typed(pairs: Pairs, path: str = "key_values", *, allow_any: bool = False) -> KeyValues:
    """Key-values of a request. ``*`` is refused unless any value is allowed."""
    with step(path):
        values = {key: _value(key, value) for key, value in pairs.items()}
    return KeyValues.of(values, path, allow_any=allow_any)


def _value(key: str, given: Any) -> Any:
    if given == ANYTHING:
        return ANY
    if isinstance(given, dict):
        with step(f"[{key}]"):
            return value_from_json(given)
    return given


def described(pairs: Mapping[str, Value]) -> Pairs:
    """Key-values for an answer: as a request may have them."""
    return {key: _described(value) for key, value in pairs.items()}


def _described(value: Value) -> Any:
    plain = value.plain
    if value == ANY:
        return ANYTHING
    return value_to_json(value) if isinstance(plain, Value) or plain == ANYTHING else plain
