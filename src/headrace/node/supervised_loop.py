"""A loop of the node that reports whether it still succeeds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from headrace.errors import StoreBusy, StoreUnavailable
from headrace.model.failures import words_of
from headrace.services.loop import Loop

LATE_PERIODS = 3
RETRY_SECONDS = 1.0
_log = logging.getLogger("headrace")


class SupervisedLoop:
    """Calls ``step`` in a thread of its own; it returns the seconds until it is due again.

    A step that fails is logged and called again, after ``retry_seconds`` or one period. A loop that
    has not succeeded for three periods is late, and fails ``/health`` by its name. Time during
    which the store is away does not count: ``/ready`` reports that, and a restart of the node would
    not help. A loop whose
    periods vary is judged by the ``longest`` of them.
    """

    def __init__(
        self,
        name: str,
        period: float,
        step: Callable[[], float],
        *,
        retry_seconds: float = RETRY_SECONDS,
        longest: float = 0.0,
    ) -> None:
        self.name = name
        self.problem: str | None = None
        """Why the last step failed; None if it succeeded."""
        self._period = period
        self._longest = longest
        self._retry_seconds = min(retry_seconds, period)
        self._step = step
        self._succeeded_at = monotonic()
        self._loop = Loop(f"headrace-node-{name}", self._run, on_error=self._failed)

    @property
    def age(self) -> float:
        """Seconds since the last success, or since the start."""
        return monotonic() - self._succeeded_at

    @property
    def is_late(self) -> bool:
        """Whether it has not succeeded for three periods."""
        return self.age > LATE_PERIODS * max(self._period, self._longest)

    def start(self) -> None:
        """Call the step now, and whenever it is due from then on."""
        self._succeeded_at = monotonic()
        self._loop.start()

    def poke(self) -> None:
        """Call the step now."""
        self._loop.poke()

    def end(self) -> None:
        """Call the step no more."""
        self._loop.end()

    def join(self, timeout: float) -> None:
        """Wait for a call under way."""
        self._loop.join(timeout)

    def _run(self) -> float:
        self._period = self._step()
        self.problem = None
        self._succeeded_at = monotonic()
        return monotonic() + self._period

    def _failed(self, error: Exception) -> float:
        self.problem = words_of(error)
        if isinstance(error, (StoreUnavailable, StoreBusy)):
            self._succeeded_at = monotonic()
        _log.warning("%s failed: %s", self.name, self.problem, extra={"action": self.name})
        return monotonic() + self._retry_seconds
