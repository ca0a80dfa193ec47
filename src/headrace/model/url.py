"""The URL that chooses the store."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from headrace.errors import InvalidUrl

EXAMPLES = "memory://, sqlite:///flow.db, postgresql://user@host/database"
_SCHEMES = {"postgres": "postgresql"}
# Up to the last @: a password that should have been quoted is hidden as well.
_PASSWORD = re.compile(r"((?:^(?![a-z0-9+.-]+://)|://)[^:/?#@]*):.*@", re.IGNORECASE)
_PASSWORD_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&]*", re.IGNORECASE)


class StoreUrl(NamedTuple):
    """A URL taken apart; ``location`` is what the driver makes of the rest."""

    scheme: str
    location: str
    options: dict[str, str]


def parse_url(url: object) -> StoreUrl:
    """Read a store's URL; raises ``InvalidUrl`` with what it should look like."""
    if not isinstance(url, str) or "://" not in url:
        shown = masked(url) if isinstance(url, str) else url
        raise InvalidUrl(f"{shown!r} is not a store's URL: write one like {EXAMPLES}.", url=url)
    try:
        parts = urlsplit(url)
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError as error:
        raise InvalidUrl(f"the URL cannot be read: {error}.") from error
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    match scheme:
        case "memory":
            location = parts.netloc
        case "sqlite":
            location = _file(parts.netloc, unquote(parts.path))
        case "postgresql":
            location = parts._replace(scheme=scheme, query="").geturl()
        case _:
            raise InvalidUrl(
                f"there is no driver for {parts.scheme!r}: write a URL like {EXAMPLES}.",
                scheme=parts.scheme,
            )
    return StoreUrl(scheme, location, options)


def _file(netloc: str, path: str) -> str:
    if netloc or len(path) < 2 or path == "/:memory:":
        raise InvalidUrl(
            "a SQLite URL has three slashes and a file, sqlite:///flow.db, or four for a path "
            "from the root, sqlite:////var/lib/flow.db; for a store in memory use memory://."
        )
    return path[1:]


def with_options(location: str, options: dict[str, str]) -> str:
    """A location with query options behind it."""
    return f"{location}?{urlencode(options, quote_via=quote)}" if options else location


def masked(url: str) -> str:
    """A URL that may be shown: passwords are starred out, too much rather than too little."""
    url = _PASSWORD.sub(r"\1:***@", url)
    return _PASSWORD_OPTION.sub(r"\1***", url)
