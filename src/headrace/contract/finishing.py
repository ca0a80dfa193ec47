"""Outcomes that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def finish(awaitable: Awaitable[T]) -> T:
    """Await something to its end even when the caller is cancelled meanwhile.

    The cancellation is raised afterwards: a COMMIT under way always gets its outcome.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            # Its own error, if any, gives way to the cancellation.
            task.exception()
        raise
