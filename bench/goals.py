"""What we want to be true, and whether the figures say that it is.

*must* is the least we accept, *aim* is what we want. A goal compares two values of one
case, round by round; it is met when every round meets it, missed when none does, and
otherwise undecided, whichever side the median is on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

ENOUGH_ROUNDS = 7

Verdict = Literal["met", "missed", "undecided, median meets", "undecided, median misses"]


class Value(NamedTuple):
    """One of the values a contender's samples have."""

    contender: str
    name: str = "rate"


class Goal(NamedTuple):
    """``ours`` over ``theirs`` (or ``ours`` itself) against two bounds."""

    title: str
    ours: Value
    theirs: Value | None
    must: float
    aim: float
    is_limit: bool = False  # at most, in place of at least
    unit: str = "x"

    def meets(self, value: float, bound: float) -> bool:
        return value <= bound if self.is_limit else value >= bound

    def verdict(self, values: Sequence[float], bound: float) -> Verdict:
        met = [self.meets(value, bound) for value in values]
        if all(met):
            return "met"
        if not any(met):
            return "missed"
        is_median_fine = self.meets(statistics.median(values), bound)
        return "undecided, median meets" if is_median_fine else "undecided, median misses"


def faster(title: str, ours: str, theirs: str, must: float, aim: float) -> Goal:
    """Our rate is at least so many times theirs."""
    return Goal(title, Value(ours), Value(theirs), must, aim)


def at_most(title: str, ours: Value, theirs: Value | None, must: float, aim: float) -> Goal:
    """Our value is at most so many times theirs."""
    return Goal(title, ours, theirs, must, aim, is_limit=True)
