"""Long polls: a request that waits ends with its wait, its client or the node."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headrace.errors import InvalidOption, StoreUnavailable
from headrace.node.http import Disconnected
from headrace.node.resources.endpoint import ApiCall

T = TypeVar("T")

MAX_WAIT_SECONDS = 60.0


def checked_wait(wait: float, option: str = "wait") -> float:
    """For how many seconds a request may wait."""
    if not 0 <= wait <= MAX_WAIT_SECONDS:
        raise InvalidOption(
            f"{option} is {wait:g}: use 0 to {MAX_WAIT_SECONDS:g} seconds, and ask again.",
            option=option,
        )
    return wait


async def while_connected(call: ApiCall[Any, Any], work: Coroutine[Any, Any, T]) -> T:
    """Await something, unless the client leaves or the node stops: then it is cancelled.

    What is cancelled undoes itself, so that a claim for a client that has gone is released.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(call.request.disconnected())
    closing = asyncio.ensure_future(call.closing.wait())
    others = (leaving, closing)
    try:
        with call.capacity.waiting():
            await asyncio.wait((working, *others), return_when=asyncio.FIRST_COMPLETED)
    finally:
        has_left, is_closing = leaving.done(), closing.done()
        for task in (working, *others):
            task.cancel()
        await asyncio.gather(working, *others, return_exceptions=True)
    if not working.cancelled():
        if has_left:
            raise LeftBehind(working)
        return working.result()
    if is_closing:
        raise StoreUnavailable("the node is stopping: try again when it is back.")
    raise Disconnected


class LeftBehind(Disconnected):
    """The client left at the moment at which the work was done: its result is nobody's."""

    def __init__(self, work: asyncio.Future[Any]) -> None:
        super().__init__()
        self.work = work
