"""The crash case, and a client for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from headrace.testing import sync_facade

Client = Any
"""A client with blocking methods, over ``connect`` or over ``aconnect``."""


@contextmanager
def opened(mode: sync_facade.ClientMode, url: str, **options: Any) -> Iterator[Client]:
    """A client of either mode, for blocking use."""
    client = sync_facade.connect(mode, url, **options)
    try:
        yield client
    finally:
        sync_facade.shut(client)


class CrashCase(NamedTuple):
    """``act`` performs one operation named ``operation``. ``effect`` reads all its effects."""

    operation: str
    prepare: Callable[[Client, str], None]
    act: Callable[[Client, str], list[str]]
    effect: Callable[[Client, str], list[str]]
