"""The URL that chooses the store.

A URL may contain a password, and a password that is not quoted may look like a host, a port or an
option. So no message quotes any part of a URL that could not be parsed, and no error keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlencode

from headrace.errors import InvalidUrl

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXAMPLES = "memory://, sqlite:///flow.db, postgresql://user@host/database"
NODE_SCHEMES = ("http", "https", "unix")
"""The schemes of stores that a node serves."""
_SCHEMES = {name: name for name in ("memory", "sqlite", "postgresql", *NODE_SCHEMES)} | {
    "postgres": "postgresql"
}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_FILE = re.compile(r"[\w./-]+\.(?:db|sqlite3?)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_PERCENT = re.compile(r"%(?![0-9a-f]{2})|%00", re.IGNORECASE)
_HOST = re.compile(r"(?:\[[^\[\]@]*\]|[^:\[\]@]*)(?::(?P<port>.*))?", re.DOTALL)

# Up to the last @: a password that should have been quoted is hidden as well.
_PASSWORD = re.compile(r"((?<!memory)(?<!sqlite)://[^:/?#@]*):.*@", re.IGNORECASE | re.DOTALL)
# In the URL of a node the token may stand alone.
_LOGIN = re.compile(r"(https?://).*@", re.IGNORECASE | re.DOTALL)
_BARE_PASSWORD = re.compile(r"^((?![a-z0-9+.-]+://)[^:/?#@]*):.*@", re.IGNORECASE | re.DOTALL)
_SECRET = re.compile("pass(?!file)|secret|scram|token", re.IGNORECASE)
_OPTION = re.compile(r"[?&](?P<name>[^=&?]*)=")
_PAIR = re.compile(r"((?:password|passwd)\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]+)", re.IGNORECASE)


class StoreUrl(NamedTuple):
    """A parsed URL; ``location`` is for the driver."""

    scheme: str
    location: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"StoreUrl({self.scheme!r}, {masked(self.location)!r}, {sorted(self.options)!r})"


def parse_url(url: object) -> StoreUrl:
    """Read a store's URL; raises ``InvalidUrl`` with what it should look like."""
    if not isinstance(url, str):
        raise InvalidUrl(
            f"a store's URL is text, not {type(url).__name__}: write one like {EXAMPLES}."
        )
    written, mark, rest = url.partition("://")
    if not mark or not _SCHEME.fullmatch(written):
        raise _no_url(url)
    if _CONTROL.search(url):
        raise InvalidUrl(
            "the URL has a line break or another control character in it: remove it, or quote it "
            "(%0A for a line break)."
        )
    scheme = _scheme(written.lower())
    rest, _, query = rest.partition("?")
    location = rest
    if scheme == "sqlite":
        location = _file(rest)
    elif scheme == "postgresql":
        _check_server(rest, query)
        location = f"postgresql://{rest}"
    elif scheme in NODE_SCHEMES:
        location = f"{scheme}://{rest}"
    return StoreUrl(scheme, location, _options(query))


def _scheme(written: str) -> str:
    base, plus, driver = written.partition("+")
    if plus and base in _SCHEMES:
        raise InvalidUrl(
            f"{written}:// is how SQLAlchemy names a driver: drop +{driver} and write "
            f"{_SCHEMES[base]}://….",
            scheme=written,
        )
    if written not in _SCHEMES:
        if written in installed_drivers():
            return written
        raise InvalidUrl(
            f"there is no driver for {written!r}: write a URL like {EXAMPLES}.", scheme=written
        )
    return _SCHEMES[written]


def installed_drivers() -> Mapping[str, EntryPoint]:
    """The drivers of other distributions, by scheme: entry points of ``headrace.drivers``."""
    # Slow to import, and rarely needed.
    from importlib.metadata import entry_points

    return {found.name: found for found in entry_points(group="headrace.drivers")}


def _no_url(text: str) -> InvalidUrl:
    if _FILE.fullmatch(text):
        return InvalidUrl(
            f"{text!r} is not a store's URL: for a SQLite file write sqlite:///{text}."
        )
    form = ": a connection string of key=value pairs is not accepted either" if "=" in text else ""
    return InvalidUrl(f"that is not a store's URL{form}: write one like {EXAMPLES}.")


def _file(rest: str) -> str:
    path = _unquoted(rest)
    if not path.startswith("/") or len(path) < 2 or path == "/:memory:":
        raise InvalidUrl(
            "a SQLite URL has three slashes and a file, sqlite:///flow.db, or four for a path "
            "from the root, sqlite:////var/lib/flow.db; for a store in memory use memory://."
        )
    return path[1:]


def _check_server(rest: str, query: str) -> None:
    """Refuse URLs that PostgreSQL would read in another way than the user meant."""
    server, _, path = rest.partition("/")
    login, at, hosts = server.rpartition("@")
    if "@" in login or "@" in path or "@" in query or "#" in rest or "#" in query or " " in rest:
        raise InvalidUrl(
            "the URL cannot be read: in a user, a password or a name write %2F for /, %3F for ?, "
            "%23 for #, %40 for @, %3A for : and %20 for a space."
        )
    for host in hosts.split(","):
        found = _HOST.fullmatch(host)
        port = found["port"] if found else None
        if found is None or (port and not port.isdecimal()):
            hint = "" if at else "; a password comes before an @, as in user:password@host"
            raise InvalidUrl(f"the URL cannot be read: its port is not a number{hint}.")


def _options(query: str) -> dict[str, str]:
    options = {}
    for pair in query.split("&") if query else ():
        name, is_given, value = pair.partition("=")
        if not name or not is_given:
            raise InvalidUrl("an option of the URL has no value: write ?name=value&name=value.")
        options[_unquoted(name)] = _unquoted(value)
    return options


def _unquoted(text: str) -> str:
    found = None
    if not _BAD_PERCENT.search(text):
        try:
            found = unquote(text, errors="strict")
            found.encode()
        except UnicodeError:
            found = None
    if found is None:
        # Outside of the handler: what was raised there has the text in it.
        raise InvalidUrl(
            "the URL cannot be read: each % must be followed by two hexadecimal digits, and together "
            "they must be UTF-8; write %25 for % itself."
        )
    return found


def with_options(location: str, options: dict[str, str]) -> str:
    """A location with query options behind it."""
    return f"{location}?{urlencode(options, quote_via=quote)}" if options else location


def masked(url: str) -> str:
    """A URL that may be shown: passwords are masked, and rather too much than too little."""
    return masked_text(_BARE_PASSWORD.sub(r"\1:***@", url))


def masked_text(text: str) -> str:
    """Text that may be shown; passwords of a URL in it are masked."""
    text = _PASSWORD.sub(r"\1:***@", _LOGIN.sub(r"\1***@", text))
    for option in _OPTION.finditer(text):
        if _SECRET.search(unquote(option["name"])):
            # What follows may belong to it: a & that is not quoted ends an option.
            text = f"{text[: option.end('name')]}=***"
            break
    return _PAIR.sub(r"\1***", text)
