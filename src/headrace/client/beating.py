"""Heartbeats of what a client holds: one thread for all of it, or tasks of the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from time import monotonic

BEATS_PER_LEASE = 3


class Beats:
    """Calls functions again and again, each at an interval of its own, until they say False.

    The thread begins with the first of them and ends with the last.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Condition()
        self._due: dict[object, tuple[float, float, Callable[[], bool]]] = {}
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def begin(self, holder: object, lease_ms: int, beat: Callable[[], bool]) -> None:
        """Call ``beat`` at a third of the lease from now on."""
        every = lease_ms / 1000 / BEATS_PER_LEASE
        if self._pid != os.getpid():
            # What was held before a fork is the parent's.
            self._forget()
        with self._lock:
            self._due[holder] = (monotonic() + every, every, beat)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-beats", daemon=True
                )
                self._thread.start()
            self._lock.notify_all()

    def end(self, holder: object) -> None:
        """No more of it. One that is under way may still come."""
        with self._lock:
            self._due.pop(holder, None)
            self._lock.notify_all()

    def close(self) -> None:
        """No more of any, and wait for the one that is under way."""
        with self._lock:
            self._due.clear()
            self._lock.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                holder, (at, every, beat) = min(self._due.items(), key=lambda due: due[1][0])
                now = monotonic()
                if at > now:
                    self._lock.wait(at - now)
                    continue
                self._due[holder] = (now + every, every, beat)
            if not beat():
                self.end(holder)


class AsyncBeats:
    """The same with a task for each."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def begin(self, holder: object, lease_ms: int, beat: Callable[[], Awaitable[bool]]) -> None:
        """Call ``beat`` at a third of the lease from now on."""
        every = lease_ms / 1000 / BEATS_PER_LEASE

        async def run() -> None:
            await asyncio.sleep(every)
            while await beat():
                await asyncio.sleep(every)

        self.end(holder)
        self._tasks[holder] = asyncio.create_task(run(), name="headrace-beats")

    def end(self, holder: object) -> None:
        """No more of it."""
        task = self._tasks.pop(holder, None)
        if task is not None and task is not _current():
            task.cancel()

    async def close(self) -> None:
        """No more of any, and wait for those that are under way."""
        tasks = [task for task in self._tasks.values() if task is not _current()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _current() -> asyncio.Task[None] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
