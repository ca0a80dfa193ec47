"""The status of a worker: what its owner and the store have ordered."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from headrace.contract.items import WorkerStatus

Change = tuple[WorkerStatus, WorkerStatus]


class Switch:
    """The status of a worker.

    Its owner pauses or ends it; the store orders it to stop, to pause or to run. It is
    ``stopping`` while it still has items in flight, and ``stopped`` when it has none.
    """

    def __init__(
        self, is_idle: Callable[[], bool], changed: Callable[[WorkerStatus, WorkerStatus], None]
    ) -> None:
        self._is_idle = is_idle
        self._changed = changed
        self._lock = threading.Lock()
        self._reporting = threading.Lock()
        self._changes: deque[Change] = deque()
        self._is_paused = False
        self.desired: WorkerStatus = "running"
        self.current: WorkerStatus = "running"
        self.may_claim = True
        self.is_ending = False
        self.is_ended = False

    def pause(self, *, is_paused: bool) -> None:
        """Stop claiming, or claim again."""
        with self._lock:
            self._is_paused = is_paused
        self.update()

    def order(self, desired: WorkerStatus) -> bool:
        """Follow an order of the store; whether it is new."""
        with self._lock:
            is_new, self.desired = desired != self.desired, desired
        if is_new:
            self.update()
        return is_new

    def begin_end(self) -> None:
        """Claim no more, ever."""
        with self._lock:
            self.is_ending = True
        self.update()

    def end(self) -> None:
        """The worker has ended, whatever is still in flight."""
        with self._lock:
            self.is_ending = self.is_ended = True
        self.update()

    def update(self) -> None:
        """Derive the status again, and report a change; in order, and outside the lock."""
        with self._lock:
            before, after = self.current, self._status()
            if before == after:
                return
            self.current = after
            self.may_claim = after == "running"
            self._changes.append((before, after))
        while self._changes and self._reporting.acquire(blocking=False):
            try:
                while self._changes:
                    self._changed(*self._changes.popleft())
            finally:
                self._reporting.release()

    def _status(self) -> WorkerStatus:
        if self.is_ended:
            return "stopped"
        if self.is_ending:
            return "stopping"
        if self.desired in ("stopping", "stopped"):
            return "stopped" if self._is_idle() else "stopping"
        if self._is_paused or self.desired == "paused":
            return "paused"
        return "running"
