"""Runs handlers on an event loop: the caller's own, or one in a thread of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.worker.completer import Completer
from headrace.worker.handlers import Handler
from headrace.worker.in_flight import InFlightItem
from headrace.worker.prefetch import Prefetcher
from headrace.worker.status import Switch
from headrace.worker.thread_executor import more, popped

POLL_SECONDS = 1.0


class AsyncExecutor:
    """Runs as many tasks at the same time as the concurrency allows. A thread claims for them.

    That thread passes items to the event loop in chunks. Each task that ends starts the next one.
    """

    def __init__(
        self,
        name: str,
        *,
        loop: asyncio.AbstractEventLoop | None,
        variables: contextvars.Context | None = None,
        prefetcher: Prefetcher,
        completer: Completer,
        switch: Switch,
        handler: Handler,
        orphaned: Callable[[], None],
    ) -> None:
        self._prefetcher = prefetcher
        self._completer = completer
        self._switch = switch
        self._handler = handler
        self._orphaned = orphaned
        self._variables = variables
        self._size = 0
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._changed = threading.Event()
        self._is_closed = self._is_suspended = False
        self._is_started = False
        self._loop = loop or asyncio.new_event_loop()
        self._threads = [
            threading.Thread(target=self._run_claims, name=f"{name}-claims", daemon=True)
        ]
        if loop is None:
            self._threads.append(
                threading.Thread(target=self._run_loop, name=f"{name}-loop", daemon=True)
            )
        self._owns_loop = loop is None
        prefetcher.attach(lambda: not self._tasks)

    @property
    def busy(self) -> int:
        """How many items handlers are working on."""
        return sum(list(self._tasks.values()))

    def resize(self, size: int) -> None:
        """Run so many tasks from now on; surplus tasks end when their handlers return."""
        self._size = size
        if not self._is_started:
            self._is_started = True
            for thread in self._threads:
                thread.start()
        self._changed.set()

    def wake(self) -> None:
        """Something has changed: let the thread that claims check."""
        self._prefetcher.wake()
        self._changed.set()

    def close(self) -> None:
        """Start no more handlers; those that run go on."""
        self._is_closed = True
        self.wake()
        self._post(self._end_if_idle)

    def cancel(self) -> None:
        """Cancel the handlers that run."""
        self._post(lambda: [task.cancel() for task in list(self._tasks)])

    def owns(self, thread: threading.Thread) -> bool:
        """Whether a thread is one of its own: it claims, or runs the worker's event loop."""
        return thread in self._threads

    def runs(self, task: object) -> bool:
        """Whether a task is one of its handlers."""
        return task in self._tasks

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _end_if_idle(self) -> None:
        if self._is_closed and self._owns_loop and not self._tasks:
            self._loop.stop()

    def _post(self, action: Callable[[], object]) -> None:
        """Call something on the event loop, unless that is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _run_claims(self) -> None:
        """Claim for the tasks: the body of a thread."""
        while not self._is_closed:
            self._claim()
            if self._prefetcher.buffer:
                self._post(self._start)
            if self._loop.is_closed() and not self._is_closed:
                # The program has closed it: no handler can run there.
                self._orphaned()

    def _claim(self) -> None:
        """Claim items if they are wanted, else wait for a change."""
        if self._prefetcher.may_run_ahead:
            self._prefetcher.run_ahead(self._wanted)
        elif self._wanted() and self._switch.may_claim and not self._prefetcher.buffer:
            self._prefetcher.fill(self._wanted)
        else:
            self._changed.wait(POLL_SECONDS)
            self._changed.clear()

    def _wanted(self) -> int:
        """How many tasks could be started now."""
        free = max(self._size - len(self._tasks), 0)
        return min(free, 1) if self._handler.is_batch else free

    def _start(self) -> None:
        """Start as many handlers as possible. Called on the event loop."""
        buffer = self._prefetcher.buffer
        while len(self._tasks) < self._size and not self._is_suspended:
            item = popped(buffer)
            if item is None:
                self._completer.flush()
                self._changed.set()
                return
            if item.is_lost:
                continue
            if self._handler.is_batch:
                items = more(item, buffer, self._prefetcher.settings.chunk)
                task = self._create_task(self._handle_batch(items))
                self._tasks[task] = len(items)
            else:
                task = self._create_task(self._handle(item))
                self._tasks[task] = 1
            task.add_done_callback(self._done)

    def _create_task(self, handling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if self._variables is None:
            return self._loop.create_task(handling)
        return self._loop.create_task(handling, context=self._variables.copy())

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if task.cancelling() and not self._is_closed:
            # The program cancels tasks, perhaps because the event loop ends: start none for now.
            self._is_suspended = True
            self._loop.call_later(POLL_SECONDS, self._unsuspend)
        self._start()
        self._end_if_idle()

    def _unsuspend(self) -> None:
        """The event loop still runs, so it has not ended."""
        self._is_suspended = False
        self._start()

    async def _handle(self, item: InFlightItem) -> None:
        outcome = await self._handler.arun(item)
        item.is_finished = True
        self._prefetcher.put(item, outcome)

    async def _handle_batch(self, items: list[InFlightItem]) -> None:
        outcomes = await self._handler.arun_batch(items)
        for item, outcome in zip(items, outcomes, strict=True):
            item.is_finished = True
            self._prefetcher.put(item, outcome)
