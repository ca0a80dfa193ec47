"""Time for tests."""

from __future__ import annotations


class FakeClock:
    """A clock that stands still until it is moved. Pass it as ``connect(clock=...)``."""

    def __init__(self, now: int = 1_518_951_480_106) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward, or back with a negative number."""
        self.now += round(seconds * 1000)
