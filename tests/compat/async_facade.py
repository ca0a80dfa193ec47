"""Async compat clients that are used like blocking ones, so that a test is written once."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.compat import gopq
from headrace.compat._async import gopq as async_gopq
from headrace.testing.clocks import FakeClock

SECONDS = 20.0


class LoopThread:
    """An event loop in a thread, which also runs callbacks while no call waits."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result(60)

    def close(self) -> None:
        self.run(self.loop.shutdown_asyncgens())
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Blocking:
    """Calls the methods of an async object in a loop, and waits for what they return."""

    def __init__(self, inner: Any, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return blocking(value, self._loop) if callable(value) else _wrapped(value, self._loop)


def blocking(function: Callable[..., Any], loop: LoopThread) -> Callable[..., Any]:
    """An async function, to be called like a blocking one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*map(bare, args), **{name: bare(arg) for name, arg in kwargs.items()})
        if inspect.isawaitable(result):
            result = loop.run(result)
        return _wrapped(result, loop)

    return call


def _wrapped(value: Any, loop: LoopThread) -> Any:
    """A facade of an async object of ours; any other value as it is."""
    package, *modules = type(value).__module__.split(".")
    return Blocking(value, loop) if package == "headrace" and "_async" in modules else value


def bare(value: Any) -> Any:
    """The object behind a facade, or the object itself."""
    return value._inner if isinstance(value, Blocking) else value


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that threads or tasks do."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


class Kinds:
    """gopq's constructors. What they open is closed at the end of the test."""

    def __init__(self, mode: str, loop: LoopThread, clock: FakeClock) -> None:
        self._mode = mode
        self._loop = loop
        self._clock = clock
        self._opened: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if self._mode == "async":
            constructor = blocking(getattr(async_gopq, name), self._loop)
        else:
            constructor = getattr(gopq, name)

        def opened(*args: Any, **kwargs: Any) -> Any:
            queue = constructor(*args, **{"clock": self._clock, **kwargs})
            self._opened.append(queue)
            return queue

        return opened

    def close(self) -> None:
        for queue in self._opened:
            queue.close()
