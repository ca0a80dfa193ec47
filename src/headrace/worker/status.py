"""Whether a worker works: what it was told, by its owner and by the store."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from headrace.contract.items import WorkerStatus

Change = tuple[WorkerStatus, WorkerStatus]


class Switch:
    """The status of a worker.

    It is paused or ended by its owner, and stopped, paused or run by the store's order. It is
    ``stopping`` while it still has items in hand, and ``stopped`` when it has none.
    """

    def __init__(
        self, is_idle: Callable[[], bool], changed: Callable[[WorkerStatus, WorkerStatus], None]
    ) -> None:
        self._is_idle = is_idle
        self._changed = changed
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._news: deque[Change] = deque()
        self._is_paused = False
        self.desired: WorkerStatus = "running"
        self.current: WorkerStatus = "running"
        self.may_claim = True
        self.is_ending = False
        self.is_ended = False

    def pause(self, *, is_paused: bool) -> None:
        """Stop claiming, or go on."""
        with self._lock:
            self._is_paused = is_paused
        self.look()

    def order(self, desired: WorkerStatus) -> bool:
        """What the store desires; whether that is new."""
        with self._lock:
            is_new, self.desired = desired != self.desired, desired
        if is_new:
            self.look()
        return is_new

    def begin_end(self) -> None:
        """Claim no more, for good."""
        with self._lock:
            self.is_ending = True
        self.look()

    def end(self) -> None:
        """It is over, whatever is still in hand."""
        with self._lock:
            self.is_ending = self.is_ended = True
        self.look()

    def look(self) -> None:
        """Work out the status again, and tell of a change; in order, and outside the lock."""
        with self._lock:
            before, after = self.current, self._status()
            if before == after:
                return
            self.current = after
            self.may_claim = after == "running"
            self._news.append((before, after))
        while self._news and self._telling.acquire(blocking=False):
            try:
                while self._news:
                    self._changed(*self._news.popleft())
            finally:
                self._telling.release()

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
