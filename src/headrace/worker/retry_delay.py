"""How long to wait before an operation is repeated."""

from __future__ import annotations

import random
import threading

MIN_DELAY_SECONDS = 0.05
MAX_DELAY_SECONDS = 5.0


class RetryDelay:
    """Pauses that grow with each failure, and that other threads can end. For one thread."""

    def __init__(self) -> None:
        self._nudge = threading.Event()
        self._next = MIN_DELAY_SECONDS
        self._is_ended = False

    def reset(self) -> None:
        """The operation has succeeded: the next failure is the first again."""
        self._next = MIN_DELAY_SECONDS

    def pause(self) -> None:
        """Wait, for half to all of the delay, so that workers do not repeat at the same moment."""
        if not self._is_ended:
            self._nudge.wait(self._next * random.uniform(0.5, 1.0))
            self._nudge.clear()
        self._next = min(self._next * 2, MAX_DELAY_SECONDS)

    def nudge(self) -> None:
        """End the pause, or the next one."""
        self._nudge.set()

    def end(self) -> None:
        """No more pauses."""
        self._is_ended = True
        self._nudge.set()
