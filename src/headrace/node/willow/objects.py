"""Objects of Willow's JSON as requests have them: ``{"Spec": {"DBDefinition": …, "Properties": …}}``.

Every field has a path, unknown fields are refused, and of two spellings there is exactly one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from headrace.errors import InvalidInput
from headrace.model.fields import joined, refuse, shown
from headrace.model.query.key_values import KeyValues
from headrace.model.query.willow_json import fields_of
from headrace.node.willow.numbers import milliseconds

MAX_INT64 = 2**63 - 1
MAX_UINT64 = 2**64 - 1
UNLIMITED = -1

Fields = Mapping[str, tuple[str, ...]]


class Object:
    """An object of a request, and its path."""

    __slots__ = ("_fields", "_known", "path")

    def __init__(self, given: object, known: Fields, path: str = "") -> None:
        self.path = path
        self._known = known
        if not isinstance(given, Mapping):
            refuse(InvalidInput, path, f"{shown(given)} is no object.")
        try:
            self._fields = fields_of(given, known, InvalidInput)
        except InvalidInput as error:
            refuse(InvalidInput, joined(path, error.details["path"]), error.details["reason"])

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def get(self, name: str) -> Any:
        """A field that must be there."""
        if name not in self._fields:
            spellings = " or ".join((name, *self._known[name]))
            refuse(InvalidInput, joined(self.path, spellings), "is missing.")
        return self._fields[name]

    def object(self, name: str, known: Fields) -> Object:
        """A field that is an object."""
        return Object(self.get(name), known, joined(self.path, name))

    def text(self, name: str) -> str:
        """A field that is text, and not empty."""
        value = self.get(name)
        if not isinstance(value, str) or not value:
            refuse(InvalidInput, joined(self.path, name), f"{shown(value)} is no text.")
        return value

    def flag(self, name: str) -> bool:
        """A field that is true or false."""
        value = self.get(name)
        if not isinstance(value, bool):
            refuse(InvalidInput, joined(self.path, name), f"{shown(value)}: use true or false.")
        return value

    def number(self, name: str, least: int, most: int = MAX_INT64) -> int:
        """A field that is a whole number."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            reason = f"{shown(value)} is no whole number from {least} to {most}."
            refuse(InvalidInput, joined(self.path, name), reason)
        return value

    def milliseconds(self, name: str) -> int:
        """A field with a time in nanoseconds, which is not over before it begins."""
        return milliseconds(self.number(name, 1))

    def data(self, name: str) -> bytes:
        """A field with bytes as base64: at least one byte."""
        text = self.text(name)
        try:
            found = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            refuse(InvalidInput, joined(self.path, name), f"this is no base64: {error}.")
        return found

    def key_values(self, name: str, *, allow_any: bool = False) -> KeyValues:
        """A field with key-values."""
        path = joined(self.path, name)
        return KeyValues.from_json(self.get(name), path, allow_any=allow_any)


_SPEC: Fields = {"Spec": ()}
_NAMED_BY: Fields = {"DBDefinition": ()}


def definition(given: object, known: Fields) -> Object:
    """What an object of a request is about; it has no properties."""
    return _spec(given, _NAMED_BY).object("DBDefinition", known)


def parts(given: object, known: Fields, properties: Fields) -> tuple[Object, Object | None]:
    """What an object of a request is about, and its properties if it has some."""
    spec = _spec(given, {"DBDefinition": (), "Properties": ()})
    about = spec.object("DBDefinition", known)
    return about, spec.object("Properties", properties) if "Properties" in spec else None


def whole(given: object, known: Fields, properties: Fields) -> tuple[Object, Object]:
    """What an object of a request is about, and its properties."""
    about, found = parts(given, known, properties)
    if found is None:
        refuse(InvalidInput, "Spec.Properties", "is missing.")
    return about, found


def _spec(given: object, known: Fields) -> Object:
    if isinstance(given, Mapping) and given.get("State") is not None:
        refuse(InvalidInput, "State", "is the server's to say: leave it out of a request.")
    found = Object(given, {**_SPEC, "State": ()})
    return found.object("Spec", known)
