"""What a store has for each event loop."""

from __future__ import annotations

import asyncio
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


def forget_closed(loops: WeakKeyDictionary[asyncio.AbstractEventLoop, T]) -> list[T]:
    """Forget closed loops and what the store kept for them.

    A weak key is not enough: a lock or semaphore that a task has waited for refers to its loop, so
    the value would keep its key alive.
    """
    # Copy the keys into one list: other threads add and remove loops, too.
    living = [loop for ref in loops.keyrefs() if (loop := ref()) is not None]
    closed = [loops.pop(loop, None) for loop in living if loop.is_closed()]
    return [value for value in closed if value is not None]
