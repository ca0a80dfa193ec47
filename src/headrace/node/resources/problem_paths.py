"""Where in a request a mistake is.

The client's checks know the arguments of its methods. The sender of a request knows only what was
sent, so its problem document names the field there: ``$.items[2].subject``, ``?limit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headrace.errors import InvalidInput

MAX_NUMBER = 2**63 - 1
_VALUES = ("topic", "queue", "proc", "position", "name", "prefix")
"""Details that have the value which was wrong."""
_OTHER_NAMES = {"n": "count"}
"""What a request calls otherwise than the client does."""


def add_path(error: InvalidInput, body: Any, query: Any) -> None:
    """Put the path of the field into the details of an error, if it can be found."""
    details = error.details
    path, option = details.get("path"), details.get("option")
    if path:
        if path[0] not in "$?":
            details["path"] = f"$.{path}"
        return
    found = _of_option(option, body, query) if isinstance(option, str) else None
    if found is None:
        wrong = [details[name] for name in _VALUES if name in details]
        found = next((place for place, value in _places(body, query) if value in wrong), None)
    if found is None and hasattr(body, "settings"):
        _, at, place = error.message.partition(" - at `$")
        found = f"$.settings{place.partition('`')[0]}" if at else "$.settings"
    if found is None:
        places = _places(body, query)
        found = next((place for place, value in places if _is_beyond_stores(value)), None)
    if found is not None:
        details["path"] = found


def _of_option(option: str, body: Any, query: Any) -> str | None:
    option = _OTHER_NAMES.get(option, option)
    if hasattr(query, option):
        return f"?{option}"
    if hasattr(body, option):
        return f"$.{option}"
    for place, _ in _places(body, query):
        if place.endswith(f".{option}"):
            return place
    return None


def _is_beyond_stores(value: Any) -> bool:
    """Whether some store cannot even compare a value: a long number, or U+0000 in a text."""
    if isinstance(value, str):
        return "\0" in value
    return isinstance(value, int) and not -MAX_NUMBER - 1 <= value <= MAX_NUMBER


def _places(body: Any, query: Any) -> Iterator[tuple[str, Any]]:
    for place, value in _inside("", query):
        yield f"?{place.removeprefix('.')}", value
    yield from _inside("$", body)


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Everything in a value, with its path."""
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{path}.{name}", inner
            yield from _inside(f"{path}.{name}", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for index, inner in enumerate(value):
            yield f"{path}[{index}]", inner
            yield from _inside(f"{path}[{index}]", inner)
