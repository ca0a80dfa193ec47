"""Willow's client: queues, channels and items; its limiter and its locks."""

from __future__ import annotations

from types import TracebackType
from typing import Literal, Self

from headrace.compat._async.willow_item import AsyncItem
from headrace.compat._async.willow_limiter import AsyncLimiter
from headrace.compat._async.willow_lock import AsyncLock
from headrace.compat._async.willow_wire import AsyncWillowWire
from headrace.compat.willow_values import (
    NS_PER_MS,
    Channel,
    LockInfo,
    Pairs,
    Queue,
    Selecting,
    channel_of,
    delivery_of,
    each,
    held_lock_of,
    item_json,
    lock_info_of,
    pairs_json,
    query_json,
    queue_of,
    segment,
    spec,
)
from headrace.model.times import Duration, duration_ms

DEFAULT_TIMEOUT = 5.0


class AsyncWillow:
    """A client of Willow's API on a node, with Willow's words.

    ``url`` is the node's: ``http://:TOKEN@host:7070``. On this machine it needs no token.
    ``limiter`` has the rules and counters.

    >>> client = willow.Willow("http://127.0.0.1:7070")
    >>> await client.enqueue("builds", {"os": "linux"}, b"commit 1")
    >>> item = await client.dequeue("builds", where(os="linux"))
    >>> await item.ack()
    """

    def __init__(self, url: str) -> None:
        self._wire = AsyncWillowWire(url)
        self.limiter = AsyncLimiter(self._wire)

    async def close(self) -> None:
        """Close the connections. What was dequeued or locked is no longer kept alive."""
        await self._wire.close()

    async def create_queue(self, name: str, max_items: int = -1) -> None:
        """Make a queue for so many items; -1 is no limit. ``QueueExists`` if there is one."""
        await self._wire.ask("POST", "/v1/queues", spec({"Name": name}, MaxItems=max_items))

    async def list_queues(self) -> list[Queue]:
        """All queues."""
        return each(queue_of, await self._wire.ask("GET", "/v1/queues"))

    async def get_queue(self, name: str) -> Queue:
        """A queue; ``UnknownQueue`` if there is none."""
        return queue_of(await self._wire.ask("GET", _queue(name)))

    async def update_queue(self, name: str, max_items: int) -> None:
        """Let a queue have so many items; those that it has stay."""
        await self._wire.ask("PUT", _queue(name), {"MaxItems": max_items})

    async def delete_queue(self, name: str) -> None:
        """Remove a queue with all that is in it. One that is not there is no error."""
        await self._wire.ask("DELETE", _queue(name))

    async def query_channels(self, queue: str, query: Selecting = None) -> list[Channel]:
        """The channels of a queue that a query selects, or all."""
        path = f"{_queue(queue)}/channels/query"
        return each(channel_of, await self._wire.ask_for(path, query_json(query)))

    async def delete_channel(self, queue: str, key_values: Pairs) -> None:
        """Remove a channel with its items, also those that are processed."""
        body = pairs_json(key_values, "key_values")
        await self._wire.ask("DELETE", f"{_queue(queue)}/channels", body)

    async def enqueue(
        self,
        queue: str,
        key_values: Pairs,
        data: bytes,
        *,
        updateable: bool = False,
        retry_attempts: int = 0,
        retry_position: Literal["front", "back"] = "front",
        timeout: Duration = DEFAULT_TIMEOUT,
    ) -> None:
        """Enqueue an item into the channel with these key-values.

        It replaces the last waiting item of the channel if that is ``updateable``. A client that
        dequeues it has it for ``timeout``, and longer with heartbeats. ``QueueFull`` if the queue
        has as many items as it may have.
        """
        item = item_json(
            key_values,
            data,
            updateable=updateable,
            retry_attempts=retry_attempts,
            retry_position=retry_position,
            timeout=timeout,
        )
        await self._wire.ask("POST", _items(queue), item)

    async def dequeue(
        self, queue: str, query: Selecting = None, *, wait: float | None = None
    ) -> AsyncItem | None:
        """Wait for an item of the channels that a query selects, or of all.

        ``wait`` is how many seconds; None is for ever. None if there was none. Heartbeats keep
        the item until it is acked.
        """
        path = f"{_items(queue)}/dequeue"
        found = await self._wire.wait(path, query_json(query), wait)
        return None if found is None else AsyncItem(self._wire, queue, delivery_of(found))

    async def obtain_lock(
        self, key_values: Pairs, *, timeout: Duration = DEFAULT_TIMEOUT, wait: float | None = None
    ) -> AsyncLock | None:
        """Wait for the lock with exactly these key-values; None if ``wait`` seconds were not enough.

        Heartbeats keep it until it is released. If this process dies, the next one gets it after
        ``timeout``.
        """
        about = {"KeyValues": pairs_json(key_values, "key_values")}
        body = spec(about, Timeout=duration_ms("timeout", timeout, least=1) * NS_PER_MS)
        held = await self._wire.wait("/v1/locks", body, wait)
        return None if held is None else AsyncLock(self._wire, held_lock_of(held))

    async def query_locks(self, query: Selecting = None) -> list[LockInfo]:
        """The locks that somebody holds or waits for, if a query selects them."""
        return each(lock_info_of, await self._wire.ask_for("/v1/locks/query", query_json(query)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _queue(name: str) -> str:
    return f"/v1/queues/{segment(name)}"


def _items(queue: str) -> str:
    return f"{_queue(queue)}/channels/items"
