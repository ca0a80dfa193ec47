"""Conditions on one object: its id, its values by key, its number of keys.

The value stored under a key must have a type in the given range. Any is one of the types: stored
in a pattern it fits every comparison if the range includes it. ``!=`` is the opposite of ``=``,
so it also selects objects without the key. Every instance is valid: constructors check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, get_args

import msgspec
from msgspec.structs import force_setattr

from headrace.errors import InvalidQuery
from headrace.model.fields import refuse, shown, step
from headrace.model.frozen_map import FrozenMap
from headrace.model.query.key_values import check_key, value_from_json, value_to_json
from headrace.model.query.typed_values import (
    ANY,
    HIGHEST,
    LOWEST,
    Type,
    Value,
    checked_text,
    type_of,
    value_of,
)
from headrace.model.query.willow_json import fields_of

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
COMPARISONS: tuple[str, ...] = get_args(Comparison)

_FIELDS: dict[str, tuple[str, ...]] = {
    "IDs": (),
    "KeyValues": (),
    "MinNumberOfKeyValues": (),
    "MaxNumberOfKeyValues": (),
}


class KeyQuery(msgspec.Struct, frozen=True):
    """A comparison with the value stored under a key. ``KeyQuery.of`` accepts plain values."""

    value: Value
    comparison: Comparison
    min_type: Type
    max_type: Type

    @classmethod
    def of(
        cls,
        value: object,
        comparison: Comparison = "=",
        *,
        min_type: Type | int | str | None = None,
        max_type: Type | int | str | None = None,
    ) -> Self:
        """Compare with a plain or typed value.

        Without a range of types only values of the same type match, as users expect of ``> 3``:
        in the order of types every string is greater than every number. For ``ANY`` all match.
        """
        with step("Value", InvalidQuery):
            typed = value_of(value)
        low, high = (LOWEST, HIGHEST) if typed == ANY else (typed.type, typed.type)
        return cls(
            typed,
            comparison,
            low if min_type is None else _type(min_type, "MinDataType"),
            high if max_type is None else _type(max_type, "MaxDataType"),
        )

    def __post_init__(self) -> None:
        if not isinstance(self.value, Value):
            refuse(InvalidQuery, "Value", f"{shown(self.value)} is not typed: use KeyQuery.of.")
        if self.comparison not in COMPARISONS:
            wrong = f"{shown(self.comparison)} is no comparison: use {' '.join(COMPARISONS)}."
            refuse(InvalidQuery, "Comparison", wrong)
        if self.value == ANY and self.comparison not in ("=", "!="):
            wrong = f"any goes with = and != only, not with {self.comparison}."
            refuse(InvalidQuery, "Value", wrong)
        low, high = _type(self.min_type, "MinDataType"), _type(self.max_type, "MaxDataType")
        if high < low:
            wrong = f"{int(high)} is below MinDataType, which is {int(low)}."
            refuse(InvalidQuery, "TypeRestrictions.MaxDataType", wrong)
        force_setattr(self, "min_type", low)
        force_setattr(self, "max_type", high)

    def to_json(self, *, has_comparison: bool = True) -> dict[str, Any]:
        """Willow's JSON; that of a match has no comparison, which is always ``=``."""
        comparison = {"Comparison": self.comparison} if has_comparison else {}
        types = {"MinDataType": int(self.min_type), "MaxDataType": int(self.max_type)}
        return {"Value": value_to_json(self.value), **comparison, "TypeRestrictions": types}

    @classmethod
    def from_json(cls, given: object, *, has_comparison: bool = True) -> Self:
        """From Willow's JSON, in which every field is required."""
        names = ["Value", *(["Comparison"] if has_comparison else []), "TypeRestrictions"]
        found = _whole(given, names)
        with step("Value", InvalidQuery):
            value = value_from_json(found["Value"])
        with step("TypeRestrictions"):
            types = _whole(found["TypeRestrictions"], ["MinDataType", "MaxDataType"])
        for name, number in types.items():
            if isinstance(number, str):
                refuse(InvalidQuery, f"TypeRestrictions.{name}", f"{shown(number)} is no number.")
        comparison = found.get("Comparison", "=")
        return cls(value, comparison, types["MinDataType"], types["MaxDataType"])


class Selection(msgspec.Struct, frozen=True):
    """Conditions that must all be true of an object; at least one of the four is given.

    ``ids``         its id is one of these.
    ``key_values``  each comparison is true of the value stored under its key.
    ``min_keys``, ``max_keys``  bounds for its number of keys.
    """

    ids: tuple[str, ...] | None = None
    key_values: FrozenMap[KeyQuery] | None = None
    min_keys: int | None = None
    max_keys: int | None = None

    @classmethod
    def of(
        cls,
        key_values: Mapping[str, object] | None = None,
        *,
        ids: Iterable[str] | None = None,
        min_keys: int | None = None,
        max_keys: int | None = None,
    ) -> Self:
        """Select by comparisons; a plain or typed value in place of one means that it is equal."""
        asked = None if key_values is None else key_queries(key_values)
        return cls(_ids(ids), asked, min_keys, max_keys)

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            refuse(InvalidQuery, "", f"it says nothing: give one of {', '.join(_FIELDS)}.")
        force_setattr(self, "ids", _ids(self.ids))
        if self.key_values is not None:
            force_setattr(self, "key_values", key_queries(self.key_values))
        check_counts(self.min_keys, self.max_keys, "NumberOfKeyValues")

    def to_json(self) -> dict[str, Any]:
        """Willow's JSON."""
        found: dict[str, Any] = {}
        if self.ids is not None:
            found["IDs"] = list(self.ids)
        if self.key_values is not None:
            found["KeyValues"] = {key: query.to_json() for key, query in self.key_values.items()}
        if self.min_keys is not None:
            found["MinNumberOfKeyValues"] = self.min_keys
        if self.max_keys is not None:
            found["MaxNumberOfKeyValues"] = self.max_keys
        return found

    @classmethod
    def from_json(cls, given: object) -> Self:
        """From Willow's JSON."""
        found = fields_of(given, _FIELDS, InvalidQuery)
        asked = found.get("KeyValues")
        return cls(
            found.get("IDs"),
            None if asked is None else key_queries_from_json(asked),
            found.get("MinNumberOfKeyValues"),
            found.get("MaxNumberOfKeyValues"),
        )


def key_queries(given: object) -> FrozenMap[KeyQuery]:
    """Comparisons by key; a value alone is compared by ``=``."""
    found = {}
    for key, asked in _by_key(given):
        with step(f"KeyValues[{key}]"):
            found[key] = asked if isinstance(asked, KeyQuery) else KeyQuery.of(asked)
    return FrozenMap(found)


def key_queries_from_json(given: object, *, has_comparison: bool = True) -> FrozenMap[KeyQuery]:
    """Comparisons by key from Willow's JSON."""
    found = {}
    for key, asked in _by_key(given):
        with step(f"KeyValues[{key}]"):
            found[key] = KeyQuery.from_json(asked, has_comparison=has_comparison)
    return FrozenMap(found)


def check_counts(low: object, high: object, name: str) -> None:
    """Check two bounds for the number of keys; both may be None."""
    for number, field in ((low, f"Min{name}"), (high, f"Max{name}")):
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            refuse(InvalidQuery, field, f"{shown(number)} is no whole number from 0 on.")
    if isinstance(low, int) and isinstance(high, int) and high < low:
        refuse(InvalidQuery, f"Max{name}", f"{high} is below Min{name}, which is {low}.")


def _by_key(given: object) -> list[tuple[str, object]]:
    if not isinstance(given, Mapping):
        refuse(InvalidQuery, "KeyValues", f"{shown(given)} is no map of keys to comparisons.")
    if not given:
        refuse(InvalidQuery, "KeyValues", "there must be at least one key, or no KeyValues at all.")
    with step("KeyValues", InvalidQuery):
        return [(check_key(key), asked) for key, asked in given.items()]


def _ids(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        refuse(InvalidQuery, "IDs", f"{shown(given)} is no list of ids.")
    ids = tuple(given)
    if not ids:
        refuse(InvalidQuery, "IDs", "there must be at least one id, or no IDs at all.")
    for index, id in enumerate(ids):
        if not isinstance(id, str) or not id:
            refuse(InvalidQuery, f"IDs[{index}]", f"{shown(id)} is no id: ids are strings.")
        with step(f"IDs[{index}]", InvalidQuery):
            checked_text(id)
    return ids


def _whole(given: object, names: list[str]) -> dict[str, Any]:
    """The fields of an object that must all be there."""
    found = fields_of(given, dict.fromkeys(names, ()), InvalidQuery)
    for name in names:
        if name not in found:
            refuse(InvalidQuery, name, "is missing.")
    return found


def _type(given: object, name: str) -> Type:
    with step(f"TypeRestrictions.{name}", InvalidQuery):
        return type_of(given)
