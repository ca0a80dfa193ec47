"""A lock that was obtained."""

from __future__ import annotations

from time import monotonic
from types import TracebackType
from typing import Self

from headrace.compat._async.willow_wire import AsyncLease, AsyncWillowWire
from headrace.compat.willow_values import HeldLock
from headrace.errors import HeadraceError, LockError, NotFound


class AsyncLock(AsyncLease):
    """A lock that this client holds. Heartbeats keep it until it is released, or lost."""

    def __init__(self, wire: AsyncWillowWire, held: HeldLock) -> None:
        super().__init__(wire, held.lease_ms)
        self.id = held.id
        self.session = held.session
        self.key_values = held.key_values
        self._named = {"SessionID": self.session}
        self._keep()

    async def release(self) -> None:
        """Give the lock back. One that was lost is left to its holder."""
        with self._mutex.lock:
            self._end()
            await self._wire.ask("DELETE", f"/v1/locks/{self.id}", self._named)

    async def heartbeat(self) -> None:
        """Restart the lock's time now. The client does it itself, three times within it.

        ``LockLost`` if another client has it, ``UnknownLock`` if nobody has.
        """
        asked_at = monotonic()
        try:
            await self._wire.ask("POST", f"/v1/locks/{self.id}/heartbeat", self._named)
        except (LockError, NotFound):
            if not self._is_over:
                self._end(is_lost=True)
            raise
        self._extended(asked_at)

    async def _beat(self) -> bool:
        with self._mutex.lock:
            if self._is_over or self._is_lost:
                return False
            try:
                await self.heartbeat()
            except (LockError, NotFound):
                return False
            except HeadraceError:
                # The node is away: the next beat may come through before the time is over.
                return True
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.release()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key_values.words}>"
