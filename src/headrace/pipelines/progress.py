"""How far a runner is: counted by its threads, read by whoever shows it."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import Literal

import msgspec

WINDOW = 10.0
"""Seconds over which a rate is taken."""


class PipelineProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one pipeline is.

    ``rate`` is records per second over the last moments, ``lag`` how many are not acked yet,
    ``eta`` the seconds until there are none at that rate, None if that cannot be said.
    """

    pipeline: str
    state: Literal["running", "disabled", "failing", "ended"]
    moved: int
    rate: float
    lag: int | None
    eta: float | None
    error: str | None


class Meter:
    """Counts what one pipeline moves. Used by all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: deque[tuple[float, int]] = deque()
        self._began = monotonic()
        self.moved = 0
        self.state: Literal["running", "disabled", "failing", "ended"] = "running"
        self.error: str | None = None

    def count(self, moved: int, error: str | None = None) -> None:
        """Some more records are through."""
        with self._lock:
            self.moved += moved
            self._steps.append((monotonic(), moved))
            self._trim(monotonic())
            self.state, self.error = "running", error

    def note(
        self, state: Literal["running", "disabled", "failing", "ended"], error: str | None = None
    ) -> None:
        """Something happened that is not progress."""
        with self._lock:
            self.state, self.error = state, error or self.error

    def look(self, pipeline: str, lag: int | None) -> PipelineProgress:
        """The progress now."""
        with self._lock:
            now = monotonic()
            self._trim(now)
            seconds = min(max(now - self._began, 0.001), WINDOW)
            rate = sum(moved for _, moved in self._steps) / seconds
            eta = None if not lag or not rate else lag / rate
            return PipelineProgress(
                pipeline=pipeline,
                state=self.state,
                moved=self.moved,
                rate=rate,
                lag=lag,
                eta=0.0 if lag == 0 else eta,
                error=self.error,
            )

    def _trim(self, now: float) -> None:
        while self._steps and self._steps[0][0] < now - WINDOW:
            self._steps.popleft()
