"""Ready-made kinds of queues: how a client makes them."""

from __future__ import annotations

from headrace.client.kind_queues import AckQueue, AsyncAckQueue, AsyncSimpleQueue, SimpleQueue
from headrace.client.kinds import (
    DEFAULT_ACKS,
    DEFAULT_UNIQUE_ACKS,
    AckOpts,
    Processed,
    Unique,
    ack_settings,
    plain_settings,
)
from headrace.client.queue_operations import AsyncQueueOperations, QueueOperations
from headrace.client.running import documented


class KindOperations(QueueOperations):
    """Kinds for blocking code."""

    def simple_queue(self, name: str, *, processed: Processed = "store") -> SimpleQueue:
        """A queue whose items are processed once they are handed out, in the order they came.

        ``processed`` items are stored, or deleted, or stored for a time.
        """
        queue = self.queue(name, **plain_settings(processed, None))
        return SimpleQueue(queue, is_unique=False)

    def unique_queue(
        self, name: str, *, unique: Unique = "live", processed: Processed = "delete"
    ) -> SimpleQueue:
        """A ``simple_queue`` that leaves out what it has already: the same content.

        ``unique="live"`` counts what waits, ``"forever"`` all that ever was in it.
        """
        queue = self.queue(name, **plain_settings(processed, unique))
        return SimpleQueue(queue, is_unique=True)

    def ack_queue(self, name: str, opts: AckOpts = DEFAULT_ACKS) -> AckQueue:
        """A queue whose items are handed out again unless they are acknowledged in time."""
        return AckQueue(self.queue(name, **ack_settings(opts, None)), is_unique=False)

    def unique_ack_queue(
        self, name: str, opts: AckOpts = DEFAULT_UNIQUE_ACKS, *, unique: Unique = "live"
    ) -> AckQueue:
        """An ``ack_queue`` that leaves out what it has already, in flight or not."""
        return AckQueue(self.queue(name, **ack_settings(opts, unique)), is_unique=True)


class AsyncKindOperations(AsyncQueueOperations):
    """Kinds for async code."""

    async def simple_queue(self, name: str, *, processed: Processed = "store") -> AsyncSimpleQueue:
        queue = await self.queue(name, **plain_settings(processed, None))
        return AsyncSimpleQueue(queue, is_unique=False)

    async def unique_queue(
        self, name: str, *, unique: Unique = "live", processed: Processed = "delete"
    ) -> AsyncSimpleQueue:
        queue = await self.queue(name, **plain_settings(processed, unique))
        return AsyncSimpleQueue(queue, is_unique=True)

    async def ack_queue(self, name: str, opts: AckOpts = DEFAULT_ACKS) -> AsyncAckQueue:
        return AsyncAckQueue(await self.queue(name, **ack_settings(opts, None)), is_unique=False)

    async def unique_ack_queue(
        self, name: str, opts: AckOpts = DEFAULT_UNIQUE_ACKS, *, unique: Unique = "live"
    ) -> AsyncAckQueue:
        return AsyncAckQueue(await self.queue(name, **ack_settings(opts, unique)), is_unique=True)


documented(AsyncKindOperations, KindOperations)
documented(AsyncSimpleQueue, SimpleQueue)
documented(AsyncAckQueue, AckQueue)
