"""Key-values: what makes a channel, a rule or a lock the one it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar

import msgspec

from headrace.errors import InvalidKeyValues
from headrace.model.fields import refuse, shown, step
from headrace.model.frozen import FrozenMap
from headrace.model.typed import (
    ANY,
    Plain,
    Value,
    checked_text,
    read_value,
    type_of,
    value_of,
)
from headrace.model.willow import fields_of

RESERVED = "_"
# So that databases can index the form itself: PostgreSQL's limit is about 2700 bytes.
LONGEST_FORM = 2000

_encode = msgspec.json.Encoder().encode
_decode_form = msgspec.json.Decoder(dict[str, tuple[int, str | None]]).decode

Checked = TypeVar("Checked", bound="KeyValues")


class KeyValues(FrozenMap[Value]):
    """A set of keys, each with a typed value. Equal is what has the same keys, types and values.

    >>> KeyValues.of({"os": "linux", "tries": 3}).form
    '{"os":[13,"linux"],"tries":[10,"3"]}'
    """

    __slots__ = ("_form",)

    def __init__(self, pairs: Mapping[str, Value]) -> None:
        super().__init__(pairs)
        for key, value in self.all.items():
            if type(value) is not Value:
                refuse(
                    InvalidKeyValues,
                    f"[{key}]",
                    f"{shown(value)} is not typed: use KeyValues.of for plain values.",
                )

    @classmethod
    def of(cls, given: object, path: str = "", *, allow_any: bool = False) -> Self:
        """What a user gave: a map of keys to plain or typed values.

        ``path`` is what the user calls it. ``ANY`` is for patterns (rules, overrides) only.
        """
        with step(path):
            items = _items(given)
            return _checked(given if isinstance(given, cls) else cls(_values_of(items)), allow_any)

    @classmethod
    def read(cls, form: str) -> Self:
        """Key-values from their form."""
        pairs = _decode_form(form)
        return cls({key: _known(number, text) for key, (number, text) in pairs.items()})

    @property
    def form(self) -> str:
        """The one text for these key-values, to store, to index and to compare.

        JSON with sorted keys: the number of each type, and the value as text.
        """
        try:
            return self._form
        except AttributeError:
            self._form: str = _form(self.all)
            return self._form

    @property
    def has_any(self) -> bool:
        return ANY in self.all.values()

    @property
    def plain(self) -> dict[str, Plain | Value]:
        """As a user would have given them: plain where a plain value has the same type."""
        return {key: value.plain for key, value in self.all.items()}

    def only(self, keys: Iterable[str]) -> Self:
        """The same without other keys; all of these must be there."""
        return type(self)({key: self.all[key] for key in keys})

    def to_json(self) -> dict[str, Any]:
        """Willow's JSON: ``{"os": {"Type": 13, "Data": "linux"}}``."""
        return {key: value_to_json(value) for key, value in self.all.items()}

    @classmethod
    def from_json(cls, given: object, path: str = "KeyValues", *, allow_any: bool = False) -> Self:
        """Key-values from Willow's JSON, as parsed; what is wrong there is named by its path."""
        with step(path):
            found = {key: _read_at(key, value) for key, value in _items(given)}
            return _checked(cls(found), allow_any)


def value_to_json(value: Value) -> dict[str, Any]:
    """Willow's JSON of one value."""
    return {"Type": int(value.type), "Data": value.text}


def value_from_json(given: object) -> Value:
    """``{"Type": 13, "Data": "linux"}`` as a value."""
    found = fields_of(given, {"Type": (), "Data": ()}, InvalidKeyValues)
    with step("Type"):
        if isinstance(found.get("Type"), str):
            refuse(InvalidKeyValues, "", f"{shown(found['Type'])} is no number.")
        type = type_of(found.get("Type"))
    data = found.get("Data")
    with step("Data"):
        if data is not None and not isinstance(data, str):
            refuse(InvalidKeyValues, "", f"{shown(data)} is no text: put it in quotes.")
        return read_value(type, data)


def pair_form(key: str, value: Value) -> str:
    """The one text for a key with its value, to look up what has it."""
    return _encode((key, int(value.type), value.text)).decode()


def check_key(key: object) -> str:
    """A key that a user may use."""
    if not isinstance(key, str):
        refuse(InvalidKeyValues, f"[{key!r:.80}]", "a key is a string.")
    if not key:
        refuse(InvalidKeyValues, "[]", "a key has at least one character.")
    if key.startswith(RESERVED):
        refuse(
            InvalidKeyValues, f"[{key}]", f"keys that begin with {RESERVED!r} are Headrace's own."
        )
    if not key.isascii():
        with step(f"[{shown(key)}]"):
            checked_text(key)
    return key


def _items(given: object) -> list[tuple[str, object]]:
    if not isinstance(given, Mapping):
        refuse(InvalidKeyValues, "", f"{shown(given)} is no map of keys to values.")
    if not given:
        refuse(InvalidKeyValues, "", "there must be at least one key with a value.")
    return [(check_key(key), value) for key, value in given.items()]


def _values_of(items: list[tuple[str, object]]) -> dict[str, Value]:
    found = {}
    for key, value in items:
        try:
            found[key] = value_of(value)
        except InvalidKeyValues:
            with step(f"[{key}]"):
                raise
    return found


def _read_at(key: str, given: object) -> Value:
    with step(f"[{key}]"):
        return value_from_json(given)


def _checked(found: Checked, allow_any: bool) -> Checked:
    if not allow_any and found.has_any:
        key = next(key for key, value in found.all.items() if value == ANY)
        refuse(InvalidKeyValues, f"[{key}]", "any stands for no value here: give a typed one.")
    size = len(found.form) if found.form.isascii() else len(found.form.encode())
    if size > LONGEST_FORM:
        refuse(
            InvalidKeyValues,
            "",
            f"they take {size} bytes, and may take {LONGEST_FORM}: keep long text in the item.",
        )
    return found


def _form(pairs: Mapping[str, Value]) -> str:
    return _encode({key: (int(value.type), value.text) for key, value in pairs.items()}).decode()


@lru_cache(maxsize=2**16)
def _known(number: int, text: str | None) -> Value:
    """Values come again and again, and are worth keeping."""
    return read_value(type_of(number), text)
