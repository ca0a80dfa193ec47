"""Values with one of Willow's types: their ranges, their one order, their text.

The order is total: the number of the type first, then the value inside the type. So no number
is compared with a number of another type, and any is greater than all. Strings go by their
UTF-8 bytes, which is the order of their code points.
"""

from __future__ import annotations

import math
import re
import struct
from enum import IntEnum
from typing import NoReturn

import msgspec

from headrace.errors import InvalidKeyValues
from headrace.model.fields import refuse, shown

Plain = str | int | float


class Type(IntEnum):
    """The types with Willow's numbers. ``ANY`` is not a value of its own: it matches all."""

    UINT8 = 1
    UINT16 = 2
    UINT32 = 3
    UINT64 = 4
    UINT = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    INT = 10
    FLOAT32 = 11
    FLOAT64 = 12
    STRING = 13
    ANY = 1024

    @property
    def word(self) -> str:
        """The name as users write it: ``uint8``."""
        return self.name.lower()


LOWEST = Type.UINT8
HIGHEST = Type.ANY
# The data of ``ANY``; unlike None it can be compared, if only with itself.
NO_DATA = ""
_WORDS = {type.word: type for type in Type}
_NUMBERS = {int(type): type for type in Type}
_WHOLE = {
    **{
        type: (0, 2**bits - 1)
        for type, bits in zip(list(Type)[:5], (8, 16, 32, 64, 64), strict=True)
    },
    **{
        type: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for type, bits in zip(list(Type)[5:10], (8, 16, 32, 64, 64), strict=True)
    },
}
_WHOLE_TEXT = re.compile(r"[+-]?[0-9]+")
_FLOAT_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_INFINITE_TEXT = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_FLOAT32 = struct.Struct("<f")
# As many digits after the first identify any float.
_MAX_DIGITS = 17
# No type has a whole number with a longer text.
_MAX_WHOLE_LENGTH = 100


class Value(msgspec.Struct, frozen=True, order=True):
    """A value and its type, made by ``typed``. ``<`` and ``sorted`` follow the one order."""

    type: Type
    data: str | int | float

    def __post_init__(self) -> None:
        if type(self.type) is not Type:
            msgspec.structs.force_setattr(self, "type", type_of(self.type))
        data = _checked(self.type, self.data)
        if data is not self.data:
            msgspec.structs.force_setattr(self, "data", data)

    @property
    def text(self) -> str | None:
        """The data as in Willow's JSON: always text, floats as ``3.2E+01``, null for any."""
        if isinstance(self.data, float):
            return _float_text(self.type, self.data)
        return None if self.type == Type.ANY else str(self.data)

    @property
    def plain(self) -> Plain | Value:
        """The Python value, if the type follows from it; else the value itself."""
        is_plain = self.type in (Type.INT, Type.FLOAT64, Type.STRING)
        return self.data if is_plain else self

    def __repr__(self) -> str:
        return (
            "ANY"
            if self.type == Type.ANY
            else f"typed({shown(self.type.word)}, {shown(self.data)})"
        )


def typed(type: Type | int | str, value: Plain) -> Value:
    """A value of a type that Python does not have: ``typed("uint8", 200)``.

    The type is one of ``uint8 uint16 uint32 uint64 uint int8 int16 int32 int64 int float32
    float64 string``, or its number. A value outside of its range is refused.
    """
    return Value(type_of(type), value)


def value_of(value: object) -> Value:
    """A plain Python value with its type: int, float64 or string. Typed ones stay as they are."""
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        _refuse(f"{value} has no type: use a string or a number in place of a truth value.")
    if isinstance(value, str):
        return Value(Type.STRING, value)
    if isinstance(value, int):
        if value > _WHOLE[Type.INT][1]:
            _refuse(f"{shown(value)} is beyond an int: use typed('uint64', ...) or a string.")
        return Value(Type.INT, value)
    if isinstance(value, float):
        return Value(Type.FLOAT64, value)
    _refuse(f"{shown(value)} has no type: use a string, an int, a float or typed(type, value).")


def type_of(given: object) -> Type:
    """A type by its number, its name or itself."""
    found = None
    if isinstance(given, str):
        found = _WORDS.get(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        found = _NUMBERS.get(given)
    if found is None:
        _refuse(f"{shown(given)} is no type: use 1 to 13 or 1024, or a name as in 'uint8'.")
    return found


def read_value(type: Type, text: str | None) -> Value:
    """A value from its type and the text of its data."""
    if type == Type.ANY:
        if text is not None:
            _refuse(f"{shown(text)} is too much: any has no data.")
        return ANY
    if text is None:
        _refuse(f"there is no data, and {type.word} needs some.")
    if type == Type.STRING:
        return Value(type, text)
    if type in _WHOLE:
        if not _WHOLE_TEXT.fullmatch(text):
            _refuse(f"{shown(text)} is no whole number: write it in decimal digits.")
        if len(text) > _MAX_WHOLE_LENGTH:
            # Python does not even convert numbers of thousands of digits.
            _out_of_range(type, text)
        return Value(type, int(text))
    if _INFINITE_TEXT.fullmatch(text):
        return Value(type, float(text))
    if not _FLOAT_TEXT.fullmatch(text):
        _refuse(f"{shown(text)} is no number that has a place in an order.")
    number = float(text)
    if math.isinf(number):
        _out_of_range(type, text)
    return Value(type, number)


def checked_text(text: str) -> str:
    """Text that UTF-8, and so every store, can represent."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            _refuse(f"{shown(text)} has half of a character at {error.start}: UTF-8 has no such.")
    return text if type(text) is str else str.__str__(text)


def _checked(type: Type, data: object) -> str | int | float:
    """The data in its stored form, if the type can represent it."""
    if type == Type.STRING:
        if not isinstance(data, str):
            _refuse(f"{shown(data)} is no string.")
        return checked_text(data)
    if type == Type.ANY:
        if data != NO_DATA:
            _refuse(f"{shown(data)} is too much: any has no data.")
        return NO_DATA
    is_number = isinstance(data, (int, float)) and not isinstance(data, bool)
    if type not in _WHOLE:
        if not is_number:
            _refuse(f"{shown(data)} is no number, as {type.word} asks for.")
        return _checked_float(type, data)  # type: ignore[arg-type]  # checked above
    if not is_number or not isinstance(data, int):
        _refuse(f"{shown(data)} is no whole number, as {type.word} asks for.")
    low, high = _WHOLE[type]
    if not low <= data <= high:
        _out_of_range(type, data)
    return int(data)


def _checked_float(type: Type, data: float) -> float:
    if data != data:  # noqa: PLR0124  # NaN alone
        _refuse("NaN has no place in an order.")
    try:
        number = float(data)
        if type == Type.FLOAT32:
            (number,) = _FLOAT32.unpack(_FLOAT32.pack(number))
    except OverflowError:
        _out_of_range(type, data)
    # There is one zero.
    return number + 0.0


def _out_of_range(type: Type, data: object) -> NoReturn:
    if type in _WHOLE:
        low, high = _WHOLE[type]
        _refuse(f"{shown(data)} does not fit: {type.word} goes from {low} to {high}.")
    _refuse(f"{shown(data)} does not fit: no {type.word} is so large.")


def _refuse(reason: str) -> NoReturn:
    refuse(InvalidKeyValues, "", reason)


def _float_text(type: Type, data: float) -> str:
    """The shortest text that is read back as the same float."""
    if math.isinf(data):
        return "+Inf" if data > 0 else "-Inf"
    for digits in range(_MAX_DIGITS):
        text = f"{data:.{digits}E}"
        try:
            if _checked_float(type, float(text)) == data:
                break
        except InvalidKeyValues:
            # Rounded up beyond what the type can hold.
            continue
    return text


ANY = Value(Type.ANY, NO_DATA)
