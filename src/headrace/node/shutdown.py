"""One event for everything that waits: the node is stopping."""

from __future__ import annotations

import asyncio


class Closing:
    """Every poll and every stream of a node waits for this, beside what it waits for.

    A server that stops waits for open responses without limit, so they have to end.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        return self._event.is_set()

    def begin(self) -> None:
        """End polls and streams, and refuse new requests. Call it on the node's event loop."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until the node is stopping."""
        await self._event.wait()
