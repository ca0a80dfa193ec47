"""What the blocking client does where the async one does otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from time import monotonic, sleep
from typing import Any, ParamSpec, TypeVar

from headrace.contract.blocks import Blocks, block
from headrace.model.forks import renew_in_child
from headrace.services.loop import Loop

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "Background",
    "Mutex",
    "Periodic",
    "Scope",
    "Signal",
    "call",
    "current",
    "scope",
    "sleep",
]

Scope = Blocks


def scope(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Make a generator function a context manager; it says ``yield from during(value)`` once."""
    return block(function)  # type: ignore[arg-type]  # ``during`` makes it a block


class Mutex:
    """A reentrant lock, new in a child of a fork.

    Held by ``with`` on the bare ``lock``: a signal cannot come between the block and its end.
    """

    def __init__(self) -> None:
        self._renew()
        renew_in_child(self, Mutex._renew)

    def _renew(self) -> None:
        self.lock = threading.RLock()


class Signal(threading.Event):
    """A signal that can be waited for with a time limit."""

    def wait_for(self, seconds: float) -> bool:
        """Wait until it is set, at most so long; whether it is."""
        return self.wait(seconds)


class Background:
    """Code that runs beside its caller: a thread."""

    def __init__(self, name: str, function: Callable[..., None], *args: Any) -> None:
        self._thread = threading.Thread(target=function, args=args, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def is_same(self, caller: object) -> bool:
        return self._thread is caller

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()


class Periodic:
    """Calls a function beside its caller, in a thread.

    The function returns the seconds until the next call.
    """

    def __init__(self, name: str, function: Callable[[], float], seconds: float) -> None:
        self._loop = Loop(name, lambda: monotonic() + function())
        self._loop.start(monotonic() + seconds)

    def end(self) -> None:
        """Call it no more, and wait for the call under way."""
        self._loop.end()
        self._loop.join()


def current() -> object:
    """The thread that runs."""
    return threading.current_thread()


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the user's."""
    return function(*args)
