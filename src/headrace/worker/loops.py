"""Handlers on an event loop: the caller's own, or one in a thread of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from headrace.worker.claiming import Intake
from headrace.worker.handlers import Handler
from headrace.worker.holding import Entry
from headrace.worker.lanes import more, popped
from headrace.worker.settling import Outbox
from headrace.worker.status import Switch

GLANCE = 1.0


class LoopLanes:
    """As many tasks as handlers may run at once. A thread claims for them.

    Items come over from that thread by the chunk. Each task that ends starts the next one.
    """

    def __init__(
        self,
        name: str,
        *,
        loop: asyncio.AbstractEventLoop | None,
        intake: Intake,
        outbox: Outbox,
        switch: Switch,
        handler: Handler,
        orphaned: Callable[[], None],
    ) -> None:
        self._intake = intake
        self._outbox = outbox
        self._switch = switch
        self._handler = handler
        self._orphaned = orphaned
        self._size = 0
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._hungry = threading.Event()
        self._is_closed = self._is_cut = False
        self._is_started = False
        self._loop = loop or asyncio.new_event_loop()
        self._threads = [threading.Thread(target=self._feed, name=f"{name}-claims", daemon=True)]
        if loop is None:
            self._threads.append(
                threading.Thread(target=self._run_loop, name=f"{name}-loop", daemon=True)
            )
        self._owns_loop = loop is None
        intake.watch(lambda: not self._tasks)

    @property
    def busy(self) -> int:
        """How many items handlers work on."""
        return sum(list(self._tasks.values()))

    def resize(self, size: int) -> None:
        """Run so many from now on; those that are too many end when they are free."""
        self._size = size
        if not self._is_started:
            self._is_started = True
            for thread in self._threads:
                thread.start()
        self._hungry.set()

    def wake(self) -> None:
        """Something has changed: let the one who claims look."""
        self._intake.wake()
        self._hungry.set()

    def close(self) -> None:
        """No more items; handlers that run are left alone."""
        self._is_closed = True
        self.wake()
        self._post(self._end_if_idle)

    def cancel(self) -> None:
        """Cancel the handlers that run."""
        self._post(lambda: [task.cancel() for task in list(self._tasks)])

    def owns(self, thread: threading.Thread) -> bool:
        """Whether it is one of these, or the one whose event loop handlers run on."""
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
        """Do something on the loop, if there still is one."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _feed(self) -> None:
        """Claim for the tasks: the body of a thread."""
        while not self._is_closed:
            self._claim()
            if self._intake.buffer:
                self._post(self._start)
            if self._loop.is_closed() and not self._is_closed:
                # It was closed under us: nothing will ever run there again.
                self._orphaned()

    def _claim(self) -> None:
        """Claim items if they are wanted, else wait until they may be."""
        if self._intake.may_run_ahead:
            self._intake.run_ahead(self._wanted)
        elif self._wanted() and self._switch.may_claim and not self._intake.buffer:
            self._intake.fill(self._wanted)
        else:
            self._hungry.wait(GLANCE)
            self._hungry.clear()

    def _wanted(self) -> int:
        """How many tasks could be started now."""
        free = max(self._size - len(self._tasks), 0)
        return min(free, 1) if self._handler.is_batch else free

    def _start(self) -> None:
        """Start what can be started. On the loop."""
        buffer = self._intake.buffer
        while len(self._tasks) < self._size and not self._is_cut:
            entry = popped(buffer)
            if entry is None:
                self._outbox.flush()
                self._hungry.set()
                return
            if entry.is_lost:
                continue
            if self._handler.is_batch:
                entries = more(entry, buffer, self._intake.chunk)
                task = self._loop.create_task(self._handle_batch(entries))
                self._tasks[task] = len(entries)
            else:
                task = self._loop.create_task(self._handle(entry))
                self._tasks[task] = 1
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if task.cancelling() and not self._is_closed:
            # Somebody cancels tasks, as a loop does that comes to its end: start no more there.
            self._is_cut = True
            self._loop.call_later(GLANCE, self._go_on)
        self._start()
        self._end_if_idle()

    def _go_on(self) -> None:
        """The loop lives on, so that was not its end."""
        self._is_cut = False
        self._start()

    async def _handle(self, entry: Entry) -> None:
        outcome = await self._handler.arun(entry)
        entry.is_finished = True
        self._intake.put(entry, outcome)

    async def _handle_batch(self, entries: list[Entry]) -> None:
        outcomes = await self._handler.arun_batch(entries)
        for entry, outcome in zip(entries, outcomes, strict=True):
            entry.is_finished = True
            self._intake.put(entry, outcome)
