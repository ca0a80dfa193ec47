"""How far claims have to walk over channels that their query does not select."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

# How long channels that are not selected are passed over without another look.
WALK_SECONDS = 1.0
MOST_WALKS = 1000
# Before every turn.
BOTTOM = -1


class Known(NamedTuple):
    """Where selected channels begin, and until when that is believed; how many it took last, and
    how many had to be looked at for each."""

    until: float = 0.0
    turn: int = BOTTOM
    channels_per_item: float | None = None
    spacing: float = 1.0


class Walks:
    """How far channels that a query does not select reach, from the bottom of the turns.

    Their key-values never change, and what comes to stand in line stands behind them; so they
    need not be looked at by every claim. Only somebody who took a turn long before COMMIT may
    stand among them: they are looked at again every second, and whenever it is not enough.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Known] = {}

    def start(self, queue: int, select: str) -> int:
        """The turn behind which selected channels begin."""
        known = self._known.get((queue, select), Known())
        return known.turn if time.monotonic() < known.until else BOTTOM

    def note(self, queue: int, select: str, began: int, first: int | None) -> None:
        """A walk that began behind a turn has come to the first channel that is selected."""
        known = self._known.get((queue, select), Known())
        until = time.monotonic() + WALK_SECONDS if began == BOTTOM else known.until
        if first is None:
            until, first = 0.0, BOTTOM
        if len(self._known) > MOST_WALKS:
            self._known.clear()
        self._known[queue, select] = known._replace(until=until, turn=first - 1)

    def width(self, queue: int, select: str, count: int, quantum: int) -> int:
        """How many channels will probably do for so many items."""
        known = self._known.get((queue, select), Known())
        share = known.channels_per_item or 1 / quantum
        return max(math.ceil(count * share), 1)

    def spacing(self, queue: int, select: str) -> float:
        """How many channels will probably have to be looked at for each that is selected."""
        return self._known.get((queue, select), Known()).spacing

    def met(self, queue: int, select: str, looked: int, found: int) -> None:
        """So many were selected of those that were looked at."""
        if found:
            known = self._known.get((queue, select), Known())
            self._known[queue, select] = known._replace(spacing=1.1 * looked / found)

    def took(self, queue: int, select: str, channels: int, items: int) -> None:
        """So many channels gave so many items."""
        known = self._known.get((queue, select), Known())
        if items:
            self._known[queue, select] = known._replace(channels_per_item=1.2 * channels / items)
