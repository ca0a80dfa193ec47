"""How far the claims on a queue have come, for when the front of its line is full of dead rows."""

from __future__ import annotations

import time
from collections.abc import Callable

# Claims are slow if so many in a row take so many times the best one, or so long.
SLOW = 3.0
SLOW_CLAIMS = 5
LONG_SECONDS = 0.01
# A claim from the floor has to be so many times as fast, to be worth it.
GAIN = 2.0
FLOOR_SECONDS = 1.0
# So long after one that was not: some of what it met may not have been passed over yet.
REST_SECONDS = 0.1


class Floor:
    """How far claims have come, and whether those from the bottom of the line have become slow.

    Under somebody's old snapshot the front of the line fills up with rows that are gone, and
    each claim reads past all of them. Only then, and only if a trial shows that it helps, are
    places passed over that were claimed before: an item that comes back to its old place, or a
    push that is committed late, may stand among them and waits for the next look from the
    bottom, a second at the most. Where channels take turns each has looks of its own: it waits
    for the first turn of its channel that is two seconds after the last of them.
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
        """A claim of so many items has come so far, and took so long."""
        self.rank, self.position = rank, position
        now, each = self._clock(), seconds / items
        if self._is_trial:
            self._is_trial = False
            if each * GAIN < self._seen:
                self._until = now + FLOOR_SECONDS
                # Then one look from the bottom is enough to know.
                self._slow = SLOW_CLAIMS - 1
            else:
                self._rests_until = now + REST_SECONDS
        elif now >= self._until:
            self._best = min(self._best, each)
            is_slow = each > SLOW * self._best or seconds > LONG_SECONDS
            self._slow = self._slow + 1 if is_slow else 0
            self._seen = each
            if self._slow >= SLOW_CLAIMS and now >= self._rests_until:
                self._slow = 0
                self._is_trial = True
