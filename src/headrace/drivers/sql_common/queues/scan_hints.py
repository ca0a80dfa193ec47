"""Scan hints: where a claim's scan over channels starts, past those that it does not select."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

# How long a scan skips channels that are not selected before it reads them again.
WALK_SECONDS = 1.0
MAX_HINTS = 1000
# Before every turn.
BOTTOM = -1


class ScanHint(NamedTuple):
    """Where selected channels begin, and until when that is valid; how many channels an item
    needed last, and how many were read for each selected channel."""

    until: float = 0.0
    turn: int = BOTTOM
    channels_per_item: float | None = None
    spacing: float = 1.0


class ScanHints:
    """How far channels that a query does not select reach, from the first turn on.

    Their key-values never change, and channels that join the turns go behind them. So not every
    claim has to read them. Only a transaction that got its turn long before its COMMIT may have a
    channel among them. So they are read again every second, and whenever a claim finds too few
    items.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], ScanHint] = {}

    def start(self, queue: int, select: str) -> int:
        """The turn behind which selected channels begin."""
        known = self._known.get((queue, select), ScanHint())
        return known.turn if time.monotonic() < known.until else BOTTOM

    def note(self, queue: int, select: str, began: int, first: int | None) -> None:
        """Note the turn of the first selected channel that a scan from ``began`` has found."""
        known = self._known.get((queue, select), ScanHint())
        until = time.monotonic() + WALK_SECONDS if began == BOTTOM else known.until
        if first is None:
            until, first = 0.0, BOTTOM
        if len(self._known) > MAX_HINTS:
            self._known.clear()
        self._known[queue, select] = known._replace(until=until, turn=first - 1)

    def width(self, queue: int, select: str, count: int, quantum: int) -> int:
        """How many channels probably suffice for ``count`` items."""
        known = self._known.get((queue, select), ScanHint())
        share = known.channels_per_item or 1 / quantum
        return max(math.ceil(count * share), 1)

    def spacing(self, queue: int, select: str) -> float:
        """How many channels probably have to be read for each that is selected."""
        return self._known.get((queue, select), ScanHint()).spacing

    def note_scan(self, queue: int, select: str, scanned: int, found: int) -> None:
        """Note how many of the channels that were read were selected."""
        if found:
            known = self._known.get((queue, select), ScanHint())
            self._known[queue, select] = known._replace(spacing=1.1 * scanned / found)

    def note_claim(self, queue: int, select: str, channels: int, items: int) -> None:
        """Note how many channels gave how many items."""
        known = self._known.get((queue, select), ScanHint())
        if items:
            self._known[queue, select] = known._replace(channels_per_item=1.2 * channels / items)
