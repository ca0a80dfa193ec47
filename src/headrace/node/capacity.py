"""How much a node does at a time: requests that run, and bodies that are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from headrace.errors import StoreUnavailable
from headrace.node.http import HttpRequest
from headrace.node.shutdown import Closing

MAX_RUNNING = 1000
MAX_WAITING = 10_000
KEPT_FREE = 100
"""How many more requests may run if they end work that was claimed, or keep it claimed: a flood of
pushes must not make workers lose what they work on."""
SMALL_BODY_BYTES = 64 * 1024
"""The server keeps that much of each request anyway."""
MAX_READING_BYTES = 256 * 1024 * 1024
"""How long the larger bodies that are read at the same time may be together."""


class Capacity:
    """The requests of a node that are under way. Refusals are raised."""

    def __init__(self, closing: Closing) -> None:
        self.closing = closing
        self._running = 0
        self._waiting = 0
        self._reading_bytes = 0

    def check(self, *, keeps_work: bool) -> None:
        """Raise ``StoreUnavailable`` if another request cannot run now."""
        if self.closing.has_begun:
            raise StoreUnavailable("the node is stopping: try again when it is back.")
        limit = MAX_RUNNING if keeps_work else MAX_RUNNING - KEPT_FREE
        if self._running >= limit:
            raise StoreUnavailable(
                f"the node runs {self._running} requests already: try again later."
            )

    def running(self, *, keeps_work: bool) -> Self:
        """A request runs in the block that is entered now, if it can."""
        self.check(keeps_work=keeps_work)
        return self

    def __enter__(self) -> None:
        self._running += 1

    def __exit__(self, *error: object) -> None:
        self._running -= 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A request that runs waits in the block for something to happen: others run meanwhile."""
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(
                f"{self._waiting} requests wait already: try again later, or without a wait."
            )
        self._waiting += 1
        self._running -= 1
        try:
            yield
        finally:
            self._running += 1
            self._waiting -= 1

    async def read(self, request: HttpRequest) -> bytes:
        """The body of a request."""
        size = request.max_body_bytes
        if size <= SMALL_BODY_BYTES:
            return await request.body()
        if self._reading_bytes + size > MAX_READING_BYTES:
            raise StoreUnavailable("the node reads many large requests: try again later.")
        self._reading_bytes += size
        try:
            return await request.body()
        finally:
            self._reading_bytes -= size
