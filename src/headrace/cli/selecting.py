"""Key-values and queries on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from headrace.core.where import where
from headrace.errors import InvalidOption
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only those of which this holds; may be repeated, and words like tries__gt=3.",
    ),
]
QueryOption = Annotated[
    str | None, typer.Option("--query", metavar="JSON", help="Only those that this selects.")
]


def pairs(given: Sequence[str], option: str) -> dict[str, Any]:
    """``KEY=VALUE``: a value is JSON if it can be read so, else text."""
    found: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InvalidOption(f"{option} {pair!r} must be KEY=VALUE.", option=option)
        if key in found:
            raise InvalidOption(f"{option} has {key!r} twice.", option=option)
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def key_values(given: Sequence[str], option: str) -> KeyValues:
    """The key-values of a channel."""
    return KeyValues.of(pairs(given, option), option)


def selected(terms: Sequence[str] | None, query: str | None) -> Query | None:
    """What ``--where`` and ``--query`` select together; None where neither is given."""
    if not terms and query is None:
        return None
    found = Query() if query is None else Query.from_json(query)
    return found & where(**pairs(terms, "where")) if terms else found


def shown(channel: KeyValues) -> str:
    """Key-values on one line, in the form that commands also accept."""
    return " ".join(f"{key}={_text(value)}" for key, value in channel.plain.items())


def _text(value: Any) -> str:
    plain = getattr(value, "text", value)
    if not isinstance(plain, str):
        return msgspec.json.encode(plain).decode()
    # In quotes where it would be taken for something else.
    is_bare = isinstance(_value(plain), str) and " " not in plain and not plain.startswith('"')
    return plain if is_bare and plain else msgspec.json.encode(plain).decode()
