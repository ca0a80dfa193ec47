"""Runs handlers in threads.

Each thread pops items from the prefetcher's buffer. The first that finds it empty becomes the
leader and claims for all; the others wait for it. So a worker with one thread runs its handlers
in the thread that claims, and no item is passed between threads. Where handlers are faster than
claims, a separate thread claims ahead.
"""

from __future__ import annotations

import threading
from collections import deque

from headrace.worker.completer import Completer
from headrace.worker.handlers import Handler
from headrace.worker.in_flight import InFlightItem
from headrace.worker.prefetch import Prefetcher
from headrace.worker.status import Switch


class ThreadExecutor:
    """Runs as many threads as the concurrency allows."""

    def __init__(
        self,
        name: str,
        *,
        prefetcher: Prefetcher,
        completer: Completer,
        switch: Switch,
        handler: Handler,
    ) -> None:
        self._name = name
        self._prefetcher = prefetcher
        self._completer = completer
        self._switch = switch
        self._handler = handler
        self._changed = threading.Condition()
        self._size = 0
        self._threads: dict[int, threading.Thread] = {}
        self._running: dict[int, int] = {}
        self._idle = 0
        self._has_leader = False
        self._is_closed = False
        self._ahead_thread: threading.Thread | None = None
        self._ahead_wanted = threading.Event()
        prefetcher.attach(lambda: not self._running, can_confirm=True)

    @property
    def busy(self) -> int:
        """How many items handlers are working on."""
        return sum(list(self._running.values()))

    def resize(self, size: int) -> None:
        """Run so many threads from now on; surplus threads end when their handlers return."""
        with self._changed:
            self._size = size
            for index in range(size):
                if index not in self._threads and not self._is_closed:
                    self._threads[index] = thread = threading.Thread(
                        target=self._work, args=(index,), name=f"{self._name}-{index}", daemon=True
                    )
                    thread.start()
            self._changed.notify_all()

    def wake(self) -> None:
        """Something has changed: let all threads that wait check."""
        self._prefetcher.wake()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Start no more handlers; those that run go on."""
        self._is_closed = True
        self.wake()
        self._ahead_wanted.set()

    def cancel(self) -> None:
        """Threads cannot be cancelled; their outcomes will be ignored."""

    def owns(self, thread: threading.Thread) -> bool:
        """Whether a thread is one of its own."""
        return thread is self._ahead_thread or thread in self._threads.values()

    def runs(self, task: object) -> bool:
        """Whether a task is one of its handlers: here they are threads."""
        return False

    def _work(self, index: int) -> None:
        step = self._step_batch if self._handler.is_batch else self._step
        buffer = self._prefetcher.buffer
        try:
            while index < self._size:
                item = popped(buffer)
                if item is None:
                    if not self._wait(index):
                        return
                else:
                    step(index, item, buffer)
        finally:
            with self._changed:
                self._threads.pop(index, None)
                # A resize may have asked for this thread again while it ended.
                is_missing = index < self._size and not self._is_closed
            if is_missing:
                self.resize(self._size)

    def _step(self, index: int, item: InFlightItem, buffer: deque[InFlightItem]) -> None:
        if not self._prefetcher.may_begin(item):
            return
        self._running[index] = 1
        outcome = self._handler.run(item)
        item.is_finished = True
        self._prefetcher.put(item, outcome)
        del self._running[index]

    def _step_batch(self, index: int, first: InFlightItem, buffer: deque[InFlightItem]) -> None:
        items = self._prefetcher.to_begin(more(first, buffer, self._prefetcher.settings.chunk))
        if not items:
            return
        self._running[index] = len(items)
        for item, outcome in zip(items, self._handler.run_batch(items), strict=True):
            item.is_finished = True
            self._prefetcher.put(item, outcome)
        del self._running[index]

    def _wait(self, index: int) -> bool:
        """Wait for items, or claim them for all threads; whether to go on."""
        self._completer.flush()
        with self._changed:
            self._idle += 1
            if not self._becomes_leader(index):
                self._idle -= 1
                return bool(self._prefetcher.buffer) or not self._is_over(index)
            self._has_leader = True
        try:
            self._prefetcher.fill(self._wanted)
        finally:
            with self._changed:
                self._idle -= 1
                self._has_leader = self._prefetcher.may_run_ahead and self._start_ahead()
                self._notify()
        return True

    def _notify(self) -> None:
        """Wake a thread for each item, or one to be the next leader."""
        if self._idle:
            self._changed.notify(max(len(self._prefetcher.buffer), 1))

    def _start_ahead(self) -> bool:
        """Let a separate thread lead, and claim ahead; whether there is one."""
        if self._ahead_thread is None or not self._ahead_thread.is_alive():
            thread = threading.Thread(
                target=self._run_ahead, name=f"{self._name}-ahead", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                return False  # the system allows no more threads: go on without
            self._ahead_thread = thread
        self._ahead_wanted.set()
        return True

    def _run_ahead(self) -> None:
        while not self._is_closed:
            self._ahead_wanted.wait()
            self._ahead_wanted.clear()
            try:
                while self._prefetcher.may_run_ahead and not self._is_closed:
                    self._prefetcher.run_ahead(self._wanted)
                    with self._changed:
                        self._notify()
            finally:
                with self._changed:
                    self._has_leader = False
                    self._notify()

    def _becomes_leader(self, index: int) -> bool:
        """Wait until there are items, or the thread shall end, or there is no leader: then be it."""
        while not self._prefetcher.buffer and not self._is_over(index):
            if self._switch.may_claim and not self._has_leader:
                return True
            self._changed.wait()
        return False

    def _is_over(self, index: int) -> bool:
        return self._is_closed or index >= self._size

    def _wanted(self) -> int:
        """How many threads could start an item now."""
        # Surplus threads may not have ended yet, after a change of settings.
        free = min(self._idle, self._size - len(self._running))
        return 1 if self._handler.is_batch else max(free, 1)


def popped(buffer: deque[InFlightItem]) -> InFlightItem | None:
    """The next item, if there is one: other threads pop from the buffer, too."""
    try:
        return buffer.popleft()
    except IndexError:
        return None


def more(first: InFlightItem, buffer: deque[InFlightItem], most: int) -> list[InFlightItem]:
    """Up to ``most`` items, beginning with one that was popped from the buffer already."""
    items = [first]
    while len(items) < most and (item := popped(buffer)) is not None:
        if not item.is_lost:
            items.append(item)
    return items
