"""The time limit of one attempt, for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.worker.log_words import in_words


class TaskTimeout(TimeoutError):
    """An attempt ran longer than the ``timeout`` of its task. It has failed, as by any error."""


async def within(seconds: float, name: str, run: Callable[[], Awaitable[Any]]) -> Any:
    """Await for so long. The handler's own task is not cancelled: that would mean the loop ends."""
    try:
        async with asyncio.timeout(seconds) as scope:
            return await run()
    except TimeoutError as error:
        if not scope.expired() or error.__cause__ is None:
            raise  # the task's own
        message = f"{name} ran longer than its timeout of {in_words(seconds)}"
        # It shows where the task was.
        raise TaskTimeout(message).with_traceback(error.__cause__.__traceback__) from None
