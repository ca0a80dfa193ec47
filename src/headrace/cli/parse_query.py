"""Key-values and queries on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from headrace.core.where import where
from headrace.errors import InvalidOption
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only those that match; may be repeated. Operators are written as tries__gt=3.",
    ),
]
QueryOption = Annotated[
    str | None, typer.Option("--query", metavar="JSON", help="Only those that match this query.")
]


def parse_pairs(given: Sequence[str], option: str) -> dict[str, Any]:
    """``KEY=VALUE`` pairs; a value that is not valid JSON is text."""
    pairs: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise InvalidOption(f"{option} {pair!r} must be KEY=VALUE.", option=option)
        if key in pairs:
            raise InvalidOption(f"{option} has {key!r} twice.", option=option)
        pairs[key] = _parse_value(value)
    return pairs


def _parse_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text


def parse_key_values(given: Sequence[str], option: str) -> KeyValues:
    """The key-values of a channel, lock or counter."""
    return KeyValues.of(parse_pairs(given, option), option)


def parse_query(terms: Sequence[str] | None, query: str | None) -> Query | None:
    """``--where`` and ``--query`` combined; None if neither is given."""
    if not terms and query is None:
        return None
    parsed = Query() if query is None else Query.from_json(query)
    return parsed & where(**parse_pairs(terms, "where")) if terms else parsed


def format_key_values(key_values: KeyValues) -> str:
    """Key-values on one line, in the form that commands accept."""
    return key_values.words
