"""gopq's constructors: one for each kind of queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace._async.headrace import AsyncHeadrace, aconnect
from headrace.client._async import queue as references
from headrace.compat._async.gopq_queues import AsyncAcknowledgeableQueue, AsyncQueue, retried
from headrace.compat.gopq_values import (
    AckOpts,
    KindSettings,
    Location,
    Unique,
    ack_settings,
    connect_options,
    location,
    simple_settings,
    unique_ack_settings,
    unique_settings,
)
from headrace.errors import QueueExists


async def simple_queue(
    path: str | Path,
    *,
    name: str | None = None,
    delete_on_dequeue: bool | None = None,
    **options: Any,
) -> AsyncQueue:
    """Open a queue whose items are processed once they are dequeued.

    ``path`` is a SQLite file, ``""`` for a queue in memory, or the URL of any store. A store has
    one queue of each kind, or several with a ``name``. Processed items are kept, unless
    ``delete_on_dequeue``. ``options`` are those of ``headrace.connect``.
    """
    place = location(path, "simple_queue", name)
    client, queue = await _open(place, simple_settings(delete_on_dequeue), options)
    return AsyncQueue(client, queue, place, is_unique=False)


async def unique_queue(
    path: str | Path,
    *,
    name: str | None = None,
    delete_on_dequeue: bool | None = None,
    unique: Unique | None = None,
    **options: Any,
) -> AsyncQueue:
    """Open a ``simple_queue`` that ignores an item which it has already.

    ``unique="live"`` (the default of a new queue) compares with items that wait, ``"forever"``
    with all that ever were in it. A new one deletes processed items.
    """
    place = location(path, "unique_queue", name)
    client, queue = await _open(place, unique_settings(delete_on_dequeue, unique), options)
    return AsyncQueue(client, queue, place, is_unique=True)


async def ack_queue(
    path: str | Path, opts: AckOpts | None = None, *, name: str | None = None, **options: Any
) -> AsyncAcknowledgeableQueue:
    """Open a queue whose items are delivered again unless they are acknowledged in time."""
    place = location(path, "ack_queue", name)
    client, queue = await _open(place, ack_settings(opts), options)
    return AsyncAcknowledgeableQueue(client, queue, place, is_unique=False, opts=opts)


async def unique_ack_queue(
    path: str | Path,
    opts: AckOpts | None = None,
    *,
    name: str | None = None,
    unique: Unique | None = None,
    **options: Any,
) -> AsyncAcknowledgeableQueue:
    """Open an ``ack_queue`` that ignores an item which it has already, in flight or not.

    A new one deletes acknowledged items.
    """
    place = location(path, "unique_ack_queue", name)
    client, queue = await _open(place, unique_ack_settings(opts, unique), options)
    return AsyncAcknowledgeableQueue(client, queue, place, is_unique=True, opts=opts)


async def _open(
    place: Location, settings: KindSettings, options: dict[str, Any]
) -> tuple[AsyncHeadrace, references.AsyncQueue]:
    async def opened(_: float | None) -> AsyncHeadrace:
        return await aconnect(place.url, **connect_options(place.url, options))

    client = await retried(opened, None)
    try:
        queue = await retried(lambda _: _created(client, place.name, settings), None)
    except BaseException:
        await client.close()
        raise
    return client, queue


async def _created(
    client: AsyncHeadrace, name: str, settings: KindSettings
) -> references.AsyncQueue:
    try:
        return await client.queues.create(name, **settings.new)
    except QueueExists:
        return await client.queues.create(name, exist_ok=True, **settings.existing)
