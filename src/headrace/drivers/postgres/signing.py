"""What transactions leave behind, so that it can be known afterwards whether they were committed."""

from __future__ import annotations

from typing import NamedTuple

from headrace.model.tokens import batch_id

# Then another row is written: under somebody's old snapshot each change makes one longer to find.
MOST_IN_A_ROW = 1000


class Signature(NamedTuple):
    """What a transaction leaves if it is committed; no other leaves the same."""

    connection: str
    transaction: int


class Signatures:
    """Those of the transactions of one connection."""

    def __init__(self) -> None:
        self._row = ""
        self._number = MOST_IN_A_ROW

    def next(self) -> Signature:
        """One that was not used before."""
        if self._number == MOST_IN_A_ROW:
            self._row, self._number = batch_id(), 0
        self._number += 1
        return Signature(self._row, self._number)
