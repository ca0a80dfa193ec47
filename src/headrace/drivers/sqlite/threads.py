"""Threads in which the operations of an event loop run."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakKeyDictionary

from headrace.drivers.event_loops import forget_closed

READS = 8
WRITES = 8


class LoopThreads:
    """The threads of one event loop. They start when they are needed, and end with this object.

    Operations that write wait for an open transaction, and transactions wait for one another. So
    reads, writes and transactions have separate threads, and the statements of an open
    transaction always find one: it is the only transaction of the loop that has begun.
    """

    def __init__(self) -> None:
        self.reads = ThreadPoolExecutor(READS, "headrace-read")
        self.writes = ThreadPoolExecutor(WRITES, "headrace-write")
        self.transaction = ThreadPoolExecutor(1, "headrace-transaction")
        # Held by the task whose transaction is open, or waits for other threads' transactions.
        self.turn = asyncio.Lock()


class Threads:
    """The threads of a store."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopThreads] = WeakKeyDictionary()

    def here(self) -> LoopThreads:
        """The threads of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            forget_closed(self._loops)
            found = self._loops[loop] = LoopThreads()
        return found

    def forget(self) -> None:
        """Let the threads of the running loop end as soon as they are unused."""
        self._loops.pop(asyncio.get_running_loop(), None)
