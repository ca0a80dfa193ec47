"""Bodies, payloads and headers from arguments of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.errors import InvalidBody, InvalidOption


def parse_headers(pairs: Sequence[str]) -> dict[str, str]:
    """Headers from ``NAME=VALUE``."""
    headers = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidOption(f"header {pair!r} must be name=value.", option="header")
        headers[name] = value
    return headers


def parse_json(text: str, name: str = "BODY") -> Any:
    """A JSON value; ``InvalidBody`` names the argument that is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidBody(f"{name} is not JSON: {error}.", path="$") from error
