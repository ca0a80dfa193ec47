"""How far the claims on a queue have come, for when dead rows fill the front of its line."""

from __future__ import annotations

import time
from collections.abc import Callable

# Claims count as slow when this many in a row take this many times the best one, or this long.
SLOW = 3.0
SLOW_CLAIMS = 5
SLOW_SECONDS = 0.01
# A claim from the floor pays off if it is this many times as fast.
GAIN = 2.0
FLOOR_SECONDS = 1.0
# The pause after a trial that did not help: claims may not have passed all dead rows yet.
REST_SECONDS = 0.1


class ScanFloor:
    """How far claims have come, and whether those from the bottom of the line have become slow.

    While an old snapshot is open, the front of the line fills up with dead rows, and each claim
    reads past all of them. Claims skip positions that were claimed before only then, and only if
    a trial shows that it helps. An item that returns to its old position, or a push that commits
    late, may be among them. It waits for the next scan from the bottom, a second at most. Where
    channels take turns each channel has its own scans: its item waits for the first turn that
    comes a second after the last of them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.rank = 0
        self.position = 0
        self._clock = clock
        self._best = float("inf")
        self._seen = float("inf")
        self._slow = 0
        self._until = 0.0
        self._rests_until = 0.0
        self._is_trial = False

    @property
    def is_wanted(self) -> bool:
        return self._is_trial or self._clock() < self._until

    def reset(self) -> None:
        """Start from the bottom."""
        self._is_trial = False
        self._until = 0.0

    def rise(self, rank: int, position: int, seconds: float, items: int) -> None:
        """Note how far a claim of ``items`` items has come, and how long it took."""
        self.rank, self.position = rank, position
        now, each = self._clock(), seconds / items
        if self._is_trial:
            self._is_trial = False
            if each * GAIN < self._seen:
                self._until = now + FLOOR_SECONDS
                # Later a single slow scan from the bottom starts the next trial.
                self._slow = SLOW_CLAIMS - 1
            else:
                self._rests_until = now + REST_SECONDS
        elif now - seconds >= self._until:
            # It began after the floor expired, so it started from the bottom.
            self._best = min(self._best, each)
            is_slow = each > SLOW * self._best or seconds > SLOW_SECONDS
            self._slow = self._slow + 1 if is_slow else 0
            self._seen = each
            if self._slow >= SLOW_CLAIMS and now >= self._rests_until:
                self._slow = 0
                self._is_trial = True
