"""Statements whose caller is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

import psycopg

from headrace.contract.shield import finish
from headrace.drivers.postgres.pool import AnyAsyncConnection

T = TypeVar("T")

# How long a statement may continue after its caller was cancelled; then the server cancels it.
GRACE_SECONDS = 0.5
CANCEL_SECONDS = 1.0


async def to_the_end(awaitable: Awaitable[T], connection: AnyAsyncConnection) -> T:
    """Await the answers of statements even if the caller is cancelled meanwhile.

    So the client learns what was committed, and never leaves a connection in the middle of an
    answer. A statement that waits for locks of other transactions is soon cancelled at the server.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finish(_end(task, connection))
        raise


async def _end(task: asyncio.Future[T], connection: AnyAsyncConnection) -> None:
    await asyncio.wait([task], timeout=GRACE_SECONDS)
    if not task.done():
        # If the cancel does not reach the server, wait for the statement all the same.
        with contextlib.suppress(psycopg.Error, OSError):
            await connection.cancel_safe(timeout=CANCEL_SECONDS)
        await asyncio.wait([task])
    if not task.cancelled():
        # The cancellation replaces the statement's own error, if any.
        task.exception()
