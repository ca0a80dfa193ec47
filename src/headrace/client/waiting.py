"""How long a wait lasts and how often it looks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from headrace.errors import WaitTimeout

FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.1


def pauses(timeout: float | None) -> Iterator[float]:
    """Pauses that grow; they end when the time is over."""
    give_up = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE
    while give_up is None or time.monotonic() < give_up:
        yield pause if give_up is None else min(pause, max(0.0, give_up - time.monotonic()))
        pause = min(pause * 2, LONGEST_PAUSE)


def timed_out(behind: Sequence[str], timeout: float | None) -> WaitTimeout:
    return WaitTimeout(
        f"after {timeout:g} s these procs have not caught up: {', '.join(behind)}. "
        "Somebody must run them; look at their lag.",
        procs=list(behind),
    )
