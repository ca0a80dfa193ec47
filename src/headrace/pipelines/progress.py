"""The progress of pipelines, counted by the threads of a runner."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from typing import Literal

import msgspec

RATE_WINDOW_SECONDS = 10.0
"""The window over which the rate is measured."""

State = Literal["running", "disabled", "failing", "ended"]


class PipelineProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one pipeline.

    ``rate`` is records per second over the last ten seconds, ``lag`` how many records are not
    acked, ``eta`` the seconds until there are none at that rate, None if that is unknown. ``dead``
    is how many of the ``moved`` records became dead letters.
    """

    pipeline: str
    state: State
    moved: int
    dead: int
    rate: float
    lag: int | None
    eta: float | None
    error: str | None


class ProgressMeter:
    """Counts the records that one pipeline processes. Shared by all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: deque[tuple[float, int]] = deque()
        self._started = monotonic()
        self.moved = self.dead = 0
        self.state: State = "running"
        self.error: str | None = None

    def add(self, moved: int, error: str | None = None, dead: int = 0) -> None:
        """Count records that were acked; the pipeline is running."""
        with self._lock:
            self.moved += moved
            self.dead += dead
            self._steps.append((monotonic(), moved))
            self._trim(monotonic())
            self.state, self.error = "running", error

    def set_state(self, state: State, error: str | None = None) -> None:
        """Set the state; without an error the last one stays."""
        with self._lock:
            self.state, self.error = state, error or self.error

    def snapshot(self, pipeline: str, lag: int | None) -> PipelineProgress:
        """The progress at this moment."""
        with self._lock:
            now = monotonic()
            self._trim(now)
            seconds = min(max(now - self._started, 0.001), RATE_WINDOW_SECONDS)
            rate = sum(moved for _, moved in self._steps) / seconds
            eta = None if not lag or not rate else lag / rate
            return PipelineProgress(
                pipeline=pipeline,
                state=self.state,
                moved=self.moved,
                dead=self.dead,
                rate=rate,
                lag=lag,
                eta=0.0 if lag == 0 else eta,
                error=self.error,
            )

    def _trim(self, now: float) -> None:
        while self._steps and self._steps[0][0] < now - RATE_WINDOW_SECONDS:
            self._steps.popleft()
