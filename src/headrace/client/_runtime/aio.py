"""What the async client does where the blocking one does otherwise."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from headrace.contract.blocks import not_entered
from headrace.contract.shield import finish

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "AsyncBackground",
    "AsyncMutex",
    "AsyncPeriodic",
    "AsyncScope",
    "AsyncSignal",
    "call",
    "current",
    "scope",
    "sleep",
    "undo_if_cancelled",
]


def scope(
    function: Callable[P, AsyncIterator[T]],
) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Make a generator function a context manager."""
    entered = asynccontextmanager(function)

    @wraps(function)
    def begin(*args: P.args, **named: P.kwargs) -> AbstractAsyncContextManager[T]:
        return _Scope(entered(*args, **named), function.__name__)

    return begin


class _Scope(AbstractAsyncContextManager[T]):
    """A context manager that says so when it is used without being entered."""

    def __init__(self, block: AbstractAsyncContextManager[T], name: str) -> None:
        self._block = block
        self._name = name

    async def __aenter__(self) -> T:
        return await self._block.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, trace)

    def __getattr__(self, attribute: str) -> NoReturn:
        # Copying asks for such names before there is a ``_name``.
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        raise not_entered(self._name, attribute, "async with")


class AsyncScope:
    """A base for objects that are used in ``async with``."""


class AsyncMutex:
    """Nothing: the tasks of a loop are interrupted at an ``await`` only."""

    def __init__(self) -> None:
        self.lock: AbstractContextManager[Any] = nullcontext()


class AsyncSignal(asyncio.Event):
    """A signal that can be waited for with a time limit."""

    async def wait_for(self, seconds: float) -> bool:
        """Wait until it is set, at most so long; whether it is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), seconds)
        return self.is_set()


class AsyncBackground:
    """Code that runs beside its caller: a task."""

    def __init__(
        self, name: str, function: Callable[..., Coroutine[Any, Any, None]], *args: Any
    ) -> None:
        self._task = asyncio.create_task(function(*args), name=name)

    @property
    def is_alive(self) -> bool:
        return not self._task.done()

    def is_same(self, caller: object) -> bool:
        return self._task is caller

    def cancel(self) -> None:
        self._task.cancel()

    async def join(self) -> None:
        """Wait for its end."""
        await asyncio.wait([self._task])


class AsyncPeriodic:
    """Calls a function beside its caller, in a task.

    The function returns the seconds until the next call.
    """

    def __init__(self, name: str, function: Callable[[], Awaitable[float]], seconds: float) -> None:
        async def run() -> None:
            pause = seconds
            while True:
                await asyncio.sleep(pause)
                pause = await function()

        self._task = asyncio.create_task(run(), name=name)

    async def end(self) -> None:
        """Call it no more, cancel the call under way, and wait for its end."""
        self._task.cancel()
        await finish(asyncio.wait([self._task]))


def current() -> object:
    """The task that runs."""
    return asyncio.current_task()


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's, which may be a coroutine function."""
    answer = function(*args)
    return await answer if inspect.isawaitable(answer) else answer


async def undo_if_cancelled(awaitable: Awaitable[T], undo: Callable[[T], Awaitable[object]]) -> T:
    """Await something; if the caller is cancelled meanwhile, undo it once it is done."""
    task = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await finish(_undone(task, undo))
        raise


async def _undone(task: asyncio.Future[T], undo: Callable[[T], Awaitable[object]]) -> None:
    # The cancellation goes before whatever else is wrong here; a claim ends anyway.
    with suppress(Exception):
        await undo(await task)
