"""Rows that transactions leave behind, by which a lost answer to COMMIT is resolved."""

from __future__ import annotations

from typing import NamedTuple

from headrace.model.tokens import batch_id

# Then a new row is written: under an old snapshot, each update makes the last one slower to find.
MAX_PER_ROW = 1000


class CommitMarker(NamedTuple):
    """What a transaction leaves if it is committed; each is unique."""

    connection: str
    transaction: int


class CommitMarkers:
    """The markers of one connection's transactions."""

    def __init__(self) -> None:
        self._row = ""
        self._number = MAX_PER_ROW

    def next(self) -> CommitMarker:
        """A marker that was not used before."""
        if self._number == MAX_PER_ROW:
            self._row, self._number = batch_id(), 0
        self._number += 1
        return CommitMarker(self._row, self._number)
