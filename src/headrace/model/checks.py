"""Checks of numbers and times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from headrace.errors import InvalidInput, InvalidOption
from headrace.model.fields import shown

MAX_COUNT = 2**31 - 1
"""The largest count; every database can compare it."""
MAX_NUMBER = 2**63 - 1
"""The largest id or number that every database can store."""

Row = TypeVar("Row")
T = TypeVar("T")


def each(rows: Iterable[Row], check: Callable[[Row], T]) -> list[T]:
    """``check`` applied to each row; an error says which row it is, counted from 0."""
    found = []
    for index, row in enumerate(rows):
        try:
            found.append(check(row))
        except InvalidInput as error:
            details = {**error.details, "row": index}
            if "path" in details:
                path = str(details["path"])
                inside = path[1:] if path.startswith("$") else f".{path}"
                details["path"] = f"$[{index}]{inside}"
            raise type(error)(f"row {index}: {error}", **details) from error
    return found


def called(option: str, value: object) -> None:
    """Refuse a callback that cannot be called; None means no callback."""
    if value is not None and not callable(value):
        raise InvalidOption(f"{option} is {shown(value)}: give a function.", option=option)


def positive(option: str, value: object, *, most: int = MAX_COUNT) -> int:
    """A whole number of at least 1."""
    return _whole(option, value, 1, most)


def not_negative(option: str, value: object, *, most: int = MAX_COUNT) -> int:
    """A whole number, zero included."""
    return _whole(option, value, 0, most)


def _whole(option: str, value: object, least: int, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    is_larger = isinstance(value, int) and value > most
    numbers = f"from {least} to {most}" if is_larger else f"from {least} on"
    raise InvalidOption(f"{option} is {shown(value)}: use a whole number {numbers}.", option=option)


def text(option: str, value: object) -> str:
    """Text that every database can compare: Unicode, without NUL."""
    if isinstance(value, str) and "\0" not in value:
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise InvalidOption(f"{option} is {shown(value)}: use text.", option=option)


def seconds(option: str, value: object) -> float:
    """A number of seconds, zero included."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise InvalidOption(f"{option} is {shown(value)}: use seconds from 0 on.", option=option)
    return float(value)


def milliseconds_of(seconds: float | None) -> int | None:
    """Seconds in milliseconds; None stays None."""
    return None if seconds is None else round(seconds * 1000)


def seconds_of(milliseconds: int | None) -> float | None:
    """Milliseconds as seconds; None stays None."""
    return None if milliseconds is None else milliseconds / 1000
