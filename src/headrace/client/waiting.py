"""How long a wait lasts and how often it looks."""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.errors import WaitTimeout
from headrace.model.checks import seconds

FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1


class Wait:
    """Pauses that grow until the time is over."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._give_up = None if timeout is None else time.monotonic() + timeout
        self._pause = FIRST_PAUSE

    def pause(self, behind: Sequence[str]) -> float:
        """How long to sleep before the next look; ``WaitTimeout`` when there is no time left."""
        pause = self._pause
        self._pause = min(pause * 2, LONGEST_PAUSE)
        if self._give_up is None:
            return pause
        left = self._give_up - time.monotonic()
        if left <= 0:
            raise WaitTimeout(
                f"after {self._timeout:g} s these procs have not caught up: {', '.join(behind)}. "
                "Somebody must run them; look at their lag.",
                procs=list(behind),
            )
        return min(pause, left)
