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


def _faster(title: str, ours: str, theirs: str, must: float, aim: float) -> Goal:
    return Goal(title, Value(ours), Value(theirs), must, aim)


def _flat(store: str, what: str, name: str) -> Goal:
    key = {"PostgreSQL": "postgres", "SQLite": "sqlite"}[store]
    ours, theirs = f"claim many {key}", f"claim few {key}"
    title = f"{store} claim + ack, large topic vs small, {what}"
    return Goal(title, Value(ours, name), Value(theirs, name), 1.3, 1.1, is_limit=True)


GOALS = [
    _faster(
        "PostgreSQL commit 1000 vs Redis without AOF",
        "commit-1000 postgres", "commit-1000 redis", 1.2, 2.5,
    ),
    _faster(
        "PostgreSQL commit 1000 vs Redis without AOF, hiredis",
        "commit-1000 postgres", "commit-1000 redis hiredis", 1.2, 2.5,
    ),
    _faster(
        "PostgreSQL commit 1000 vs NATS",
        "commit-1000 postgres", "commit-1000 nats", 3.5, 8,
    ),
    _faster(
        "PostgreSQL commit 100 vs Redis AOF always",
        "commit-100 postgres", "commit-100 redis aof", 2, 4,
    ),
    _faster(
        "PostgreSQL commit 100 vs Redis AOF always, hiredis",
        "commit-100 postgres", "commit-100 redis aof hiredis", 2, 4,
    ),
    _faster(
        "PostgreSQL 64 asyncio callers vs one",
        "64 postgres async", "one postgres async", 15, 25,
    ),
    _faster(
        "PostgreSQL 64 threads vs one caller",
        "64 postgres threads", "one postgres", 5, 10,
    ),
    _faster(
        "SQLite safe commit 1000 vs Redis without AOF",
        "commit-1000 sqlite safe", "commit-1000 redis", 1.6, 2.5,
    ),
    _faster(
        "SQLite safe commit 1000 vs Redis without AOF, hiredis",
        "commit-1000 sqlite safe", "commit-1000 redis hiredis", 1.6, 2.5,
    ),
    _faster(
        "PostgreSQL read 1000 vs XRANGE, redis-py",
        "read postgres", "read redis", 1.6, 3,
    ),
    _faster(
        "PostgreSQL read 1000 vs XRANGE, hiredis",
        "read postgres", "read redis hiredis", 1.6, 3,
    ),
    _faster(
        "SQLite read 1000 vs XRANGE, redis-py",
        "read sqlite", "read redis", 1.6, 4,
    ),
    _faster(
        "SQLite read 1000 vs XRANGE, hiredis",
        "read sqlite", "read redis hiredis", 1.6, 4,
    ),
    _faster(
        "SQLite safe commit one vs PipeProc",
        "one sqlite safe", "one pipeproc", 12, 20,
    ),
    _faster(
        "SQLite safe commit 1000 vs PipeProc",
        "commit-1000 sqlite safe", "commit-1000 pipeproc", 5, 10,
    ),
    _faster(
        "PostgreSQL commit under a held snapshot vs without",
        "held postgres", "not held postgres", 0.3, 0.7,
    ),
    Goal(
        "SQLite relaxed live proc vs XREAD BLOCK, p50",
        Value("live sqlite relaxed", "p50"), Value("live redis", "p50"), 1.5, 1, is_limit=True,
    ),
    Goal(
        "SQLite relaxed live proc vs XREAD BLOCK, hiredis, p50",
        Value("live sqlite relaxed", "p50"), Value("live redis hiredis", "p50"), 1.5, 1,
        is_limit=True,
    ),
    Goal(
        "PostgreSQL live proc vs XREAD BLOCK, hiredis, p50",
        Value("live postgres", "p50"), Value("live redis hiredis", "p50"), 4, 2.5, is_limit=True,
    ),
    Goal(
        "PostgreSQL live proc vs XREAD BLOCK, p50",
        Value("live postgres", "p50"), Value("live redis", "p50"), 4, 2.5, is_limit=True,
    ),
    _flat("PostgreSQL", "CPU", "cpu"),
    _flat("PostgreSQL", "pages", "pages"),
    _flat("SQLite", "CPU", "cpu"),
    _flat("SQLite", "pages", "pages"),
    Goal(
        "PostgreSQL iterate, memory over the start",
        Value("iterate postgres", "over"), None, 100, 50, is_limit=True, unit=" MB",
    ),
    Goal(
        "SQLite iterate, memory over the start",
        Value("iterate sqlite", "over"), None, 100, 50, is_limit=True, unit=" MB",
    ),
]  # fmt: skip
