"""How a driver is opened, ours or another's: a scheme of URLs, and a function that opens a store.

A distribution adds a driver by an entry point of the group ``headrace.drivers`` whose name is the
scheme and whose object is an ``OpenDriver``::

    [project.entry-points."headrace.drivers"]
    redis = "headrace_redis:open_store"

``headrace.testing.contract`` judges the store that it opens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from headrace.contract.store import Store
from headrace.model.url import StoreUrl

Migrate = Literal["auto", "create", "off"]
Clock = Callable[[], int]


class OpenOptions(NamedTuple):
    """What ``connect`` was asked for, checked. Options of the URL are in the ``StoreUrl``.

    ``is_safe`` is None if neither the URL nor the caller chose a durability: then it is ``safe``.
    """

    is_safe: bool | None
    migrate: Migrate
    patience: float
    clock: Clock | None


class OpenDriver(Protocol):
    """Opens the store of a URL, and creates, migrates or checks its tables, if it has any."""

    def __call__(self, url: StoreUrl, options: OpenOptions) -> Store: ...
