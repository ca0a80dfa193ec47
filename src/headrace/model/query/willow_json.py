"""Objects of Willow's JSON, field by field: misspelt fields are refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.errors import InvalidInput
from headrace.model.fields import refuse, shown, unknown

_decode = msgspec.json.Decoder().decode


def fields_of(
    given: object, known: Mapping[str, tuple[str, ...]], error: type[InvalidInput]
) -> dict[str, Any]:
    """The fields of an object that are not null, by their names.

    ``known`` maps each name to its other spellings. An object may have one of them; any other
    field is refused.
    """
    if not isinstance(given, Mapping):
        refuse(error, "", f"{shown(given)} is no object.")
    names = {spelling: name for name, others in known.items() for spelling in (name, *others)}
    found: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for spelling, value in given.items():
        name = names.get(spelling)
        if name is None:
            unknown(error, spelling, list(known))
        if name in spelt:
            refuse(error, spelling, f"is the same as {shown(spelt[name])}: give one of the two.")
        spelt[name] = spelling
        if value is not None:
            found[name] = value
    return found


def parsed(given: object, error: type[InvalidInput]) -> Any:
    """Parse JSON text or bytes; parsed values stay as they are."""
    if not isinstance(given, (str, bytes, bytearray)):
        return given
    try:
        return _decode(given)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as cause:
        raise error(f"this is no JSON: {cause}.", path="", reason=str(cause)) from cause
