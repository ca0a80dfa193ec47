"""How long to wait before trying again."""

from __future__ import annotations

import random
import threading

FIRST = 0.05
LONGEST = 5.0


class Patience:
    """Pauses that grow with each failure, and that can be cut short. For one thread."""

    def __init__(self) -> None:
        self._nudge = threading.Event()
        self._next = FIRST
        self._is_ended = False

    def restore(self) -> None:
        """It worked: the next failure is the first again."""
        self._next = FIRST

    def pause(self) -> None:
        """Wait, unless it is over. Half to full time, so that many do not return as one."""
        if not self._is_ended:
            self._nudge.wait(self._next * random.uniform(0.5, 1.0))
            self._nudge.clear()
        self._next = min(self._next * 2, LONGEST)

    def nudge(self) -> None:
        """End the pause, or the next one."""
        self._nudge.set()

    def end(self) -> None:
        """No more pauses."""
        self._is_ended = True
        self._nudge.set()
