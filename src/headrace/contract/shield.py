"""Awaiting an outcome to its end, even when the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def is_cancelled(error: BaseException) -> bool:
    """Whether the task that runs here was cancelled, rather than something that it awaited."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # the event loop has ended, and the task with it
    is_outside = task is not None and task.cancelling() > 0
    return issubclass(type(error), asyncio.CancelledError) and is_outside


async def finish(awaitable: Awaitable[T]) -> T:
    """Await something to its end even when the caller is cancelled meanwhile.

    The cancellation is raised afterwards: a COMMIT that was sent always gets its outcome.
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
