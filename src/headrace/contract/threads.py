"""Blocking work for async code, in threads of our own.

``asyncio.to_thread`` shares a few threads with the whole program. Calls that wait for each other
can fill them, and so can functions of the program's own: then none of them continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Any, TypeVar

from headrace.contract.shield import finish

T = TypeVar("T")


async def in_pool(pool: ThreadPoolExecutor, function: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread of a pool.

    A cancelled caller waits for the function to end; a function that has not begun never runs.
    """
    work = pool.submit(copy_context().run, function, *args)
    answer = asyncio.wrap_future(work)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        if not work.cancel():
            # Its own error, if any, gives way to the cancellation.
            with suppress(Exception):
                await finish(answer)
        raise


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a function in a thread that is made for it. It continues if the caller is cancelled."""
    work: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        if not work.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function, *args)
        except BaseException as error:
            work.set_exception(error)
        else:
            work.set_result(result)

    Thread(target=run, name="headrace-aside", daemon=True).start()
    return await asyncio.wrap_future(work)
