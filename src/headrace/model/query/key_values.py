"""Key-values: the identity of a channel, a rule or a lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar

import msgspec

from headrace.errors import InvalidKeyValues
from headrace.model.fields import refuse, shown, step
from headrace.model.frozen_map import FrozenMap
from headrace.model.query.typed_values import (
    ANY,
    Plain,
    Value,
    checked_text,
    read_value,
    type_of,
    value_of,
)
from headrace.model.query.willow_json import fields_of

RESERVED = "_"
# So that databases can index the form itself: PostgreSQL's limit is about 2700 bytes.
MAX_FORM_LENGTH = 2000

_encode = msgspec.json.Encoder().encode
_decode_form = msgspec.json.Decoder(dict[str, tuple[int, str | None]]).decode

ANYTHING = "*"
EXAMPLE = "{'customer': 7}"

Checked = TypeVar("Checked", bound="KeyValues")


class KeyValues(FrozenMap[Value]):
    """A set of keys, each with a typed value. Equal sets have the same keys, types and values.

    >>> KeyValues.of({"os": "linux", "tries": 3}).form
    '{"os":[13,"linux"],"tries":[10,"3"]}'
    """

    __slots__ = ("_form",)

    def __init__(self, pairs: Mapping[str, Value]) -> None:
        if not isinstance(pairs, Mapping):
            refuse(
                InvalidKeyValues, "", f"{shown(pairs)} is no map of keys to values, like {EXAMPLE}."
            )
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
        """Check a user's map of keys to plain or typed values.

        ``path`` is the name of the argument. ``ANY`` is for patterns (rules, overrides) only.
        """
        with step(path):
            items = _items(given)
            return _checked(given if isinstance(given, cls) else cls(_values_of(items)), allow_any)

    @classmethod
    def read(cls, form: str) -> Self:
        """Key-values from their form."""
        try:
            pairs = _decode_form(form)
            return cls({key: _known(number, text) for key, (number, text) in pairs.items()})
        except (msgspec.DecodeError, UnicodeError, ValueError) as error:
            raise InvalidKeyValues(
                f"{shown(form)} is not the form of key-values.", path="", reason="not a form"
            ) from error

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
        """As a user would write them: plain where a plain value has the same type."""
        return {key: value.plain for key, value in self.all.items()}

    @property
    def words(self) -> str:
        """One line of text, in the form that commands also accept: ``os=linux n=3``."""
        return " ".join(f"{key}={_word(value)}" for key, value in self.all.items())

    @property
    def described(self) -> dict[str, Any]:
        """For JSON, in the form that commands also accept; ``*`` is any value."""
        return {key: _json_word(value) for key, value in self.all.items()}

    def only(self, keys: Iterable[str]) -> Self:
        """The same without other keys; all of these must be there."""
        return type(self)({key: self.all[key] for key in keys})

    def to_json(self) -> dict[str, Any]:
        """Willow's JSON: ``{"os": {"Type": 13, "Data": "linux"}}``."""
        return {key: value_to_json(value) for key, value in self.all.items()}

    @classmethod
    def from_json(cls, given: object, path: str = "KeyValues", *, allow_any: bool = False) -> Self:
        """Key-values from Willow's JSON, as parsed; errors name the path of the field."""
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


def check_key(key: object) -> str:
    """A key that a user may use."""
    if not isinstance(key, str):
        refuse(InvalidKeyValues, f"[{shown(key)}]", "a key is a string.")
    if not key:
        refuse(InvalidKeyValues, "[]", "a key has at least one character.")
    if key.startswith(RESERVED):
        refuse(
            InvalidKeyValues,
            f"[{key}]",
            f"keys that begin with {shown(RESERVED)} are Headrace's own.",
        )
    if not key.isascii():
        with step(f"[{shown(key)}]"):
            checked_text(key)
    return key


def _items(given: object) -> list[tuple[str, object]]:
    if not isinstance(given, Mapping):
        refuse(InvalidKeyValues, "", f"{shown(given)} is no map of keys to values, like {EXAMPLE}.")
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
        refuse(InvalidKeyValues, f"[{key}]", "any is not allowed here: give a typed value.")
    size = len(found.form) if found.form.isascii() else len(found.form.encode())
    if size > MAX_FORM_LENGTH:
        refuse(
            InvalidKeyValues,
            "",
            f"they have {size} bytes, and may have {MAX_FORM_LENGTH}: keep long text in the item.",
        )
    return found


def _form(pairs: Mapping[str, Value]) -> str:
    return _encode({key: (int(value.type), value.text) for key, value in pairs.items()}).decode()


@lru_cache(maxsize=2**16)
def _known(number: int, text: str | None) -> Value:
    """A parsed value, cached: the same values recur often."""
    return read_value(type_of(number), text)


def _json_word(value: Value) -> Any:
    plain = value.plain
    if isinstance(plain, str):
        return msgspec.json.encode(plain).decode() if plain == ANYTHING else plain
    if isinstance(plain, Value):
        return ANYTHING if plain == ANY else plain.text
    return plain


def _word(value: Value) -> str:
    word = _json_word(value)
    if not isinstance(word, str):
        return msgspec.json.encode(word).decode()
    if value.plain == ANYTHING:
        return word
    # In quotes where it would be read as something else.
    is_quoted = not word or " " in word or word.startswith('"') or word[0] in "[{"
    return msgspec.json.encode(word).decode() if is_quoted or _is_json(word) else word


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def words_of(form: str) -> str:
    """The words of key-values, from their form."""
    return KeyValues.read(form).words
