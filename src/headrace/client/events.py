"""Callbacks for the events of a queue."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.errors import InvalidOption
from headrace.model.fields import shown

Callback = Callable[..., object]

_log = logging.getLogger("headrace")


class Emitter:
    """Calls back when something happens, in the order in which callbacks came.

    A callback that raises is logged and stops nothing: the event has happened.
    """

    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async
        self._callbacks: dict[str, tuple[Callback, ...]] = {}

    def add(self, event: str, callback: Callback) -> Callable[[], None]:
        """Hear an event from now on; returns the function that ends it."""
        if not callable(callback):
            raise InvalidOption(f"{shown(callback)} cannot be called back.", option="callback")
        if inspect.iscoroutinefunction(callback) and not self._is_async:
            raise InvalidOption(
                "a blocking client has no loop to run a coroutine in: give a plain function, or "
                "use the async client.",
                option="callback",
            )
        self._callbacks[event] = (*self._callbacks.get(event, ()), callback)

        def remove() -> None:
            mine = list(self._callbacks.get(event, ()))
            if callback in mine:
                mine.remove(callback)
                self._callbacks[event] = tuple(mine)

        return remove

    @property
    def has_callbacks(self) -> bool:
        """Whether any event is heard."""
        return any(self._callbacks.values())

    def emit(self, event: str, *values: Any) -> list[Awaitable[object]]:
        """Call back; what the callbacks have left to be awaited."""
        waiting: list[Awaitable[object]] = []
        for callback in self._callbacks.get(event, ()):
            try:
                result = callback(*values)
            except Exception:
                complain(event)
                continue
            if inspect.isawaitable(result):
                waiting.append(result)
        return waiting

    async def aemit(self, event: str, *values: Any) -> None:
        """``emit``, and wait for the callbacks that are coroutines."""
        for awaitable in self.emit(event, *values):
            try:
                await awaitable
            except Exception:
                complain(event)


def complain(event: str) -> None:
    """Log what a callback raised."""
    _log.exception("a callback for %r raised", event, extra={"action": "queue_callback"})
