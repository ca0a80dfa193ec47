"""Lanes: handlers that run side by side in threads.

Every lane takes items from the intake's buffer. The one that finds it empty claims for all; the
others wait for it. So a worker with one lane runs its handlers in the very thread that claims,
and no item is passed from thread to thread. Where handlers are faster than claims, a thread of
its own claims ahead of them.
"""

from __future__ import annotations

import threading
from collections import deque

from headrace.worker.claiming import Intake
from headrace.worker.handlers import Handler
from headrace.worker.holding import Entry
from headrace.worker.settling import Outbox
from headrace.worker.status import Switch


class ThreadLanes:
    """As many threads as handlers may run at once."""

    def __init__(
        self, name: str, *, intake: Intake, outbox: Outbox, switch: Switch, handler: Handler
    ) -> None:
        self._name = name
        self._intake = intake
        self._outbox = outbox
        self._switch = switch
        self._handler = handler
        self._turn = threading.Condition()
        self._size = 0
        self._threads: dict[int, threading.Thread] = {}
        self._running: dict[int, int] = {}
        self._idle = 0
        self._is_led = False
        self._is_closed = False
        self._scout: threading.Thread | None = None
        self._scouting = threading.Event()
        intake.watch(lambda: not self._running, may_be_loose=True)

    @property
    def busy(self) -> int:
        """How many items handlers work on."""
        return sum(list(self._running.values()))

    def resize(self, size: int) -> None:
        """Run so many from now on; those that are too many end when they are free."""
        with self._turn:
            self._size = size
            for index in range(size):
                if index not in self._threads and not self._is_closed:
                    self._threads[index] = thread = threading.Thread(
                        target=self._work, args=(index,), name=f"{self._name}-{index}", daemon=True
                    )
                    thread.start()
            self._turn.notify_all()

    def wake(self) -> None:
        """Something has changed: let all who wait look."""
        self._intake.wake()
        with self._turn:
            self._turn.notify_all()

    def close(self) -> None:
        """No more items; handlers that run are left alone."""
        self._is_closed = True
        self.wake()
        self._scouting.set()

    def cancel(self) -> None:
        """Threads cannot be cancelled: their outcomes will not count, that is all."""

    def owns(self, thread: threading.Thread) -> bool:
        """Whether it is one of these."""
        return thread is self._scout or thread in self._threads.values()

    def runs(self, task: object) -> bool:
        """Whether a task is one of its handlers: here they are threads."""
        return False

    def _work(self, index: int) -> None:
        step = self._step_batch if self._handler.is_batch else self._step
        buffer = self._intake.buffer
        try:
            while index < self._size:
                entry = popped(buffer)
                if entry is None:
                    if not self._wait(index):
                        return
                else:
                    step(index, entry, buffer)
        finally:
            with self._turn:
                self._threads.pop(index, None)
                # A lane may have been asked for again while this one ended.
                is_missed = index < self._size and not self._is_closed
            if is_missed:
                self.resize(self._size)

    def _step(self, index: int, entry: Entry, buffer: deque[Entry]) -> None:
        if not self._intake.may_begin(entry):
            return
        self._running[index] = 1
        outcome = self._handler.run(entry)
        entry.is_finished = True
        self._intake.put(entry, outcome)
        del self._running[index]

    def _step_batch(self, index: int, first: Entry, buffer: deque[Entry]) -> None:
        entries = self._intake.to_begin(more(first, buffer, self._intake.chunk))
        if not entries:
            return
        self._running[index] = len(entries)
        for entry, outcome in zip(entries, self._handler.run_batch(entries), strict=True):
            entry.is_finished = True
            self._intake.put(entry, outcome)
        del self._running[index]

    def _wait(self, index: int) -> bool:
        """Wait for items, or claim them for all; whether to go on."""
        self._outbox.flush()
        with self._turn:
            self._idle += 1
            leads = self._is_leader(index)
            if not leads:
                self._idle -= 1
                return bool(self._intake.buffer) or not self._is_over(index)
            self._is_led = True
        try:
            self._intake.fill(self._wanted)
        finally:
            with self._turn:
                self._idle -= 1
                self._is_led = self._intake.may_run_ahead and self._send_scout()
                self._tell()
        return True

    def _tell(self) -> None:
        """Wake a lane for each item, and if that is not enough, one who claims next."""
        if self._idle:
            self._turn.notify(max(len(self._intake.buffer), 1))

    def _send_scout(self) -> bool:
        """Let somebody else lead, and claim ahead; whether there is somebody."""
        if self._scout is None or not self._scout.is_alive():
            scout = threading.Thread(
                target=self._run_ahead, name=f"{self._name}-ahead", daemon=True
            )
            try:
                scout.start()
            except RuntimeError:
                return False  # no more threads are to be had, and it goes without
            self._scout = scout
        self._scouting.set()
        return True

    def _run_ahead(self) -> None:
        while not self._is_closed:
            self._scouting.wait()
            self._scouting.clear()
            try:
                while self._intake.may_run_ahead and not self._is_closed:
                    self._intake.run_ahead(self._wanted)
                    with self._turn:
                        self._tell()
            finally:
                with self._turn:
                    self._is_led = False
                    self._tell()

    def _is_leader(self, index: int) -> bool:
        """Wait until there are items, or it is over, or it is this lane's turn to claim."""
        while not self._intake.buffer and not self._is_over(index):
            if self._switch.may_claim and not self._is_led:
                return True
            self._turn.wait()
        return False

    def _is_over(self, index: int) -> bool:
        return self._is_closed or index >= self._size

    def _wanted(self) -> int:
        """How many lanes could start an item now."""
        # Lanes that are too many since a change of settings may not have ended yet.
        free = min(self._idle, self._size - len(self._running))
        return 1 if self._handler.is_batch else max(free, 1)


def popped(buffer: deque[Entry]) -> Entry | None:
    """The next entry, if there is one: others take from the buffer too."""
    try:
        return buffer.popleft()
    except IndexError:
        return None


def more(first: Entry, buffer: deque[Entry], most: int) -> list[Entry]:
    """Up to ``most`` entries, beginning with one that is out of the buffer already."""
    entries = [first]
    while len(entries) < most and (entry := popped(buffer)) is not None:
        if not entry.is_lost:
            entries.append(entry)
    return entries
