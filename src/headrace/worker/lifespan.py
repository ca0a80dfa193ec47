"""The lifespan of an app: what its tasks need is made before the first claim, and ended after the
last settle, once in each process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.errors import InvalidOption
from headrace.model.failures import words_of
from headrace.model.fields import shown

if TYPE_CHECKING:
    from headrace.worker.app import App

Lifespan = Callable[["App"], Iterator[Any]] | Callable[["App"], AsyncIterator[Any]]
T = TypeVar("T")

END_SECONDS = 30.0
"""How long the end of the last worker waits for the end of the lifespan."""

_log = logging.getLogger("headrace.worker")
_resources: contextvars.ContextVar[Any] = contextvars.ContextVar("resources")


@overload
def current_resources() -> Any: ...
@overload
def current_resources(kind: type[T]) -> T: ...
def current_resources(kind: type[Any] | None = None) -> Any:
    """What the app's lifespan has yielded; ``kind`` is its type, which is checked.

    >>> current_resources(Resources).http
    """
    try:
        found = _resources.get()
    except LookupError:
        raise LookupError(
            "there are no resources here: a task has them in a worker of an app with @app.lifespan."
        ) from None
    if kind is not None and not isinstance(found, kind):
        raise TypeError(f"the lifespan has yielded {shown(found)}, which is no {kind.__name__}.")
    return found


def check_lifespan(function: object) -> None:
    """Refuse what is no generator function."""
    if not inspect.isgeneratorfunction(function) and not inspect.isasyncgenfunction(function):
        raise InvalidOption(
            f"{shown(function)} cannot be a lifespan: use a function of the app with one yield.",
            option="lifespan",
        )


class AppLifespan:
    """One lifespan that is under way, and the context variables that it has set.

    A generator is entered and left by the code that starts and ends the workers. An async one lives in
    one task: on the caller's event loop, or on one in a thread of its own, where coroutines of
    the workers run, too.
    """

    def __init__(self, app: App, function: Lifespan | None) -> None:
        self._app = app
        self._function: Any = function
        self.is_async = inspect.isasyncgenfunction(function)
        self.variables = contextvars.copy_context()
        self.loop: asyncio.AbstractEventLoop | None = None
        self._entered: Any = None
        self._over: asyncio.Event | None = None
        self._has_ended = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def enter(self) -> None:
        """Make what it makes, from a thread; what it raises is raised here."""
        if self._function is None:
            return
        if self.is_async:
            self._enter_in_thread()
        else:
            self._entered = contextmanager(self._function)(self._app)
            self.variables.run(lambda: _resources.set(self._entered.__enter__()))

    async def aenter(self) -> None:
        """``enter`` on the caller's event loop."""
        if not self.is_async:
            self.enter()
            return
        self.loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = self.loop.create_future()
        self._task = self.loop.create_task(self._live(lambda: ready.set_result(None)))
        # If it fails, or the caller is cancelled, there is nothing to wait for.
        try:
            await asyncio.wait([ready, self._task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if not ready.done():
            self._task.result()

    def leave(self) -> None:
        """End what it made; what that raises is logged."""
        if self._function is None:
            return
        if not self.is_async:
            try:
                self.variables.run(self._entered.__exit__, None, None, None)
            except BaseException as error:  # the workers have ended, and the program goes on
                log_end(error)
            return
        assert self.loop is not None
        assert self._over is not None
        with contextlib.suppress(RuntimeError):  # the program has closed its event loop
            self.loop.call_soon_threadsafe(self._over.set)
            if _is_other(self.loop) and not self._has_ended.wait(END_SECONDS):
                _log.error("the app's lifespan has not ended after %g s", END_SECONDS)

    def _enter_in_thread(self) -> None:
        ready = threading.Event()
        failed: list[BaseException] = []

        def live() -> None:
            try:
                with asyncio.Runner() as runner:
                    self.loop = runner.get_loop()
                    runner.run(self._live(ready.set))
            except BaseException as error:  # it is raised where it is waited for
                failed.append(error)
            finally:
                ready.set()

        threading.Thread(target=live, name="headrace-app", daemon=True).start()
        ready.wait()
        if failed:
            raise failed[0]

    async def _live(self, ready: Callable[[], None]) -> None:
        self._over = asyncio.Event()
        is_ready = False
        try:
            async with asynccontextmanager(self._function)(self._app) as resources:
                _resources.set(resources)
                self.variables = contextvars.copy_context()
                is_ready = True
                ready()
                await self._over.wait()
        except BaseException as error:
            if not is_ready:
                raise
            if not isinstance(error, asyncio.CancelledError):
                log_end(error)
        finally:
            self._has_ended.set()


def log_end(error: BaseException) -> None:
    """Log what the end of a lifespan raised."""
    _log.error(
        "the end of the app's lifespan failed: %s",
        words_of(error),
        exc_info=error,
        extra={"action": "lifespan"},
    )


def _is_other(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an event loop runs, in another thread."""
    try:
        return asyncio.get_running_loop() is not loop and loop.is_running()
    except RuntimeError:
        return loop.is_running()
