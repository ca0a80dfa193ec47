"""An item that was dequeued."""

from __future__ import annotations

from time import monotonic

from headrace.compat._async.willow_wire import AsyncLease, AsyncWillowWire
from headrace.compat.willow_values import Delivery, segment
from headrace.errors import HeadraceError, NotFound, QueueError


class AsyncItem(AsyncLease):
    """An item that this client processes. Heartbeats keep it until it is acked, or lost.

    ``retry_attempts``, ``retry_position`` and ``updateable`` are as it was enqueued.
    """

    def __init__(self, wire: AsyncWillowWire, queue: str, delivery: Delivery) -> None:
        super().__init__(wire, delivery.lease_ms)
        self.queue = queue
        self.id = delivery.id
        self.key_values = delivery.key_values
        self.data = delivery.data
        self.updateable = delivery.updateable
        self.retry_attempts = delivery.retry_attempts
        self.retry_position = delivery.retry_position
        self._path = f"/v1/queues/{segment(queue)}/channels/items"
        self._named = {"ItemID": self.id, "KeyValues": self.key_values.to_json()}
        self._keep()

    async def ack(self, passed: bool = True) -> None:
        """Say that the item has been processed, or that it failed and is to be retried.

        ``ItemLost`` if its time ran out: another client has it, or will.
        """
        with self._mutex.lock:
            try:
                await self._wire.ask("POST", f"{self._path}/ack", {**self._named, "Passed": passed})
            except (QueueError, NotFound):
                self._end(is_lost=True)
                raise
            self._end()

    async def heartbeat(self) -> None:
        """Restart the item's time now. The client does it itself, three times within it."""
        asked_at = monotonic()
        try:
            await self._wire.ask("POST", f"{self._path}/heartbeat", self._named)
        except (QueueError, NotFound):
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
            except (QueueError, NotFound):
                return False
            except HeadraceError:
                # The node is away: the next beat may come through before the time is over.
                return True
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.queue!r}, {self.key_values.words}>"
