"""Tasks that are cancelled at an await point that the test chooses."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Literal, NamedTuple

How = Literal["early", "late", "twice"]
HOWS: tuple[How, ...] = ("early", "late", "twice")


class Ending(NamedTuple):
    """How a call ended: what it returned or raised, and whether its point was reached."""

    result: Any
    error: BaseException | None
    was_reached: bool

    @property
    def is_cancelled(self) -> bool:
        return isinstance(self.error, asyncio.CancelledError)


class _Cancelled:
    """Awaits something and cancels its own task at the ``point``-th suspension.

    ``early``: as soon as it is suspended. ``late``: when the awaited event has happened, and before
    the task knows. ``twice``: early, and once more at the next suspension.
    """

    def __init__(self, awaitable: Awaitable[Any], point: int, how: How) -> None:
        self._awaitable = awaitable
        self._point = point
        self._how = how
        self.count = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaitable.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited = next(steps) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            self.count += 1
            self._cancel(waited)
            error = None
            try:
                yield waited
            except BaseException as thrown:
                error = thrown

    def _cancel(self, waited: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.count == self._point:
            if self._how == "late" and waited is not None:
                waited.add_done_callback(lambda _: task.cancel())
            else:
                task.cancel()
        elif self._how == "twice" and self.count == self._point + 1:
            task.cancel()


async def cancelled_at(
    awaitable: Awaitable[Any], point: int, how: How, seconds: float = 20.0
) -> Ending:
    """Run it in a task, cancel the task at one of its suspensions, and return how it ended."""
    watched = _Cancelled(awaitable, point, how)

    async def run() -> Any:
        return await watched

    task = asyncio.create_task(run())
    done, _ = await asyncio.wait([task], timeout=seconds)
    assert done, f"cancelled {how} at point {point} it hangs: {task.get_stack()}"
    was_reached = watched.count >= point
    if task.cancelled():
        return Ending(None, asyncio.CancelledError(), was_reached)
    error = task.exception()
    return Ending(None if error else task.result(), error, was_reached)
