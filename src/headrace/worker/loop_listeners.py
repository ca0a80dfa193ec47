"""Listeners of an async worker, called on its event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

from headrace.contract.shield import is_cancelled
from headrace.worker.events import Callback, call, log_listener_error


class LoopListeners:
    """Calls listeners on an event loop, where they may be coroutine functions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Future[Any]] = set()

    def call(self, callback: Callback, event: Any) -> None:
        """Call a listener soon, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._call, callback, event)
        except RuntimeError:
            return  # the event loop is closed, and nothing there can be called

    def _call(self, callback: Callback, event: Any) -> None:
        answer = call(callback, event)
        if inspect.isawaitable(answer):
            # Kept, because the event loop has only weak references to its tasks.
            task = self._loop.create_task(_awaited(answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _awaited(answer: Awaitable[object]) -> None:
    """Await what a listener returned; log what it raises."""
    try:
        await answer
    except BaseException as error:  # as in ``call``
        if is_cancelled(error):
            raise
        log_listener_error(error)
