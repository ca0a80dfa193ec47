"""Heartbeats that extend a client's leases: tasks of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.client.lease_keeper import HEARTBEATS_PER_LEASE


class AsyncLeaseKeeper:
    """``LeaseKeeper`` for async code, with a task for each lease."""

    def __init__(self) -> None:
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def begin(self, holder: object, lease_ms: int, extend: Callable[[], Awaitable[bool]]) -> None:
        """Call ``extend`` at a third of the lease from now on."""
        interval = lease_ms / 1000 / HEARTBEATS_PER_LEASE

        async def run() -> None:
            await asyncio.sleep(interval)
            while await extend():
                await asyncio.sleep(interval)

        self.end(holder)
        self._tasks[holder] = asyncio.create_task(run(), name="headrace-leases")

    def end(self, holder: object) -> None:
        """Extend this lease no more."""
        task = self._tasks.pop(holder, None)
        if task is not None and task is not _current():
            task.cancel()

    async def close(self) -> None:
        """Extend no lease any longer, and wait for the calls that are under way."""
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
