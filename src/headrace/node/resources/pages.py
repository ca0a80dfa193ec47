"""Pages of lists: a cursor names the place after which the next page begins, and never a number."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from headrace.errors import InvalidOption

T = TypeVar("T")
Place = str | int

VERSION = 1
MAX_PAGE = 1000
DEFAULT_PAGE = 100
MAX_PAGE_BYTES = 4 * 1024 * 1024
FIRST_READ = 32
"""How many entries are read at first if they may be long: their length decides about the others."""
_cursor = msgspec.json.Decoder(tuple[int, str, str | int])


class PlaceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a page of a list begins, and how many entries it has at most."""

    cursor: str | None = None
    limit: int = DEFAULT_PAGE

    @property
    def checked_limit(self) -> int:
        """How many entries a page has."""
        return checked_limit(self.limit)

    def after(self, name: str, first: T) -> T:
        """Where the page begins: behind this. ``first`` is for the first page, and of that type."""
        if self.cursor is None:
            return first
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            version, list_name, place = _cursor.decode(base64.b64decode(padded, b"-_", True))
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            version, list_name, place = 0, "", ""
        if (version, list_name) != (VERSION, name) or not isinstance(place, type(first)):
            raise wrong_cursor()
        return place


PageQuery = PlaceBody
"""The options of a list, behind ``?``."""


def wrong_cursor() -> InvalidOption:
    """The error for a cursor that this list did not give."""
    return InvalidOption(
        "the cursor is none of this list, or of another release: begin with the first page, "
        "without a cursor.",
        option="cursor",
    )


def checked_limit(limit: int) -> int:
    """How many entries a page has, if a request may say so."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidOption(f"limit is {limit}: use 1 to {MAX_PAGE}.", option="limit")
    return limit


class ListPage(NamedTuple):
    """Entries of the list ``name``; ``after`` is the place of the last one if more may follow.

    ``cursor_name`` is the name in cursors if it is another one.
    """

    name: str
    entries: Sequence[Any]
    after: Place | None
    cursor_name: str | None = None

    @property
    def cursor(self) -> str | None:
        """What asks for the next page."""
        if self.after is None:
            return None
        text = msgspec.json.encode((VERSION, self.cursor_name or self.name, self.after))
        return base64.urlsafe_b64encode(text).rstrip(b"=").decode()

    @property
    def answer(self) -> dict[str, Any]:
        """The page as it is sent."""
        return {self.name: self.entries, "next": self.cursor}

    def link(self, path: str, query: dict[str, str]) -> str | None:
        """The Link header that leads to the next page."""
        if self.after is None:
            return None
        return f'<{path}?{urlencode({**query, "cursor": self.cursor})}>; rel="next"'


def page(
    name: str, entries: Sequence[T], limit: int, place: Callable[[T], Place], view: Any = None
) -> ListPage:
    """A page of what was found when ``limit`` entries were asked for."""
    last = place(entries[-1]) if len(entries) >= limit else None
    return ListPage(name, entries if view is None else [view(entry) for entry in entries], last)


def part(
    name: str, everything: Sequence[T], query: PlaceBody, place: Callable[[T], str]
) -> ListPage:
    """A page of a list that the store returns as a whole, by name."""
    after, limit = query.after(name, ""), query.checked_limit
    left = sorted((entry for entry in everything if place(entry) > after), key=place)
    last = place(left[limit - 1]) if len(left) > limit else None
    return ListPage(name, left[:limit], last)


async def long_page(
    name: str,
    read: Callable[[Any, int], Awaitable[Sequence[T]]],
    first: Place,
    limit: int,
    place: Callable[[T], Place],
    encode: Callable[[T], bytes],
) -> ListPage:
    """A page of entries that may be long: it ends before it has too many bytes.

    ``read`` returns so many entries behind a place.
    """
    lines: list[msgspec.Raw] = []
    after, size = first, 0
    count = FIRST_READ
    while len(lines) < limit:
        count = min(count, limit - len(lines))
        found = await read(after, count)
        for entry in found:
            line = encode(entry)
            size += len(line)
            if lines and size > MAX_PAGE_BYTES:
                return ListPage(name, lines, after)
            lines.append(msgspec.Raw(line))
            after = place(entry)
        if len(found) < count:
            return ListPage(name, lines, None)
        count = max(1, (MAX_PAGE_BYTES - size) * len(lines) // max(size, 1))
    return ListPage(name, lines, after)
