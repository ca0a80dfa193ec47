"""Headrace's topics against their peers, in one run: ``python -m bench.topics --help``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from bench import ours
from bench.cases import commit, growth, held_snapshot, live, one_record, read
from bench.context import Case, Settings
from bench.goals import Goal, Value, at_most, faster
from bench.peers import nats_jetstream, pipeproc, redis_streams
from bench.run import Plan, run


@dataclass(frozen=True)
class TopicSettings(Settings):
    """How large topics are."""

    records: int = 10_000_000
    few_records: int = 10_000
    held_commits: int = 30_000


STARTERS = {
    "postgres": ours.start_postgres,
    "redis": partial(redis_streams.start, is_durable=False),
    "redis-aof": partial(redis_streams.start, is_durable=True),
    "nats": nats_jetstream.start,
    "pipeproc": pipeproc.start,
}

PHASES = [
    [
        Case("commit-1000", commit.thousand),
        Case("commit-100", commit.hundred),
        Case("one", one_record.contenders),
        Case("read", read.contenders),
    ],
    [Case("live", live.contenders)],
    [Case("held", held_snapshot.contenders)],
    [Case("growth", growth.contenders)],
]


def _flat(store: str, what: str, name: str) -> Goal:
    key = {"PostgreSQL": "postgres", "SQLite": "sqlite"}[store]
    ours, theirs = Value(f"claim many {key}", name), Value(f"claim few {key}", name)
    return at_most(f"{store} claim + ack, large topic vs small, {what}", ours, theirs, 1.3, 1.1)


def _memory(title: str, contender: str) -> Goal:
    return at_most(title, Value(contender, "over"), None, 100, 50)._replace(unit=" MB")


GOALS = [
    faster(
        "PostgreSQL commit 1000 vs Redis without AOF",
        "commit-1000 postgres", "commit-1000 redis", 1.2, 2.5,
    ),
    faster(
        "PostgreSQL commit 1000 vs Redis without AOF, hiredis",
        "commit-1000 postgres", "commit-1000 redis hiredis", 1.2, 2.5,
    ),
    faster(
        "PostgreSQL commit 1000 vs NATS",
        "commit-1000 postgres", "commit-1000 nats", 3.5, 8,
    ),
    faster(
        "PostgreSQL commit 100 vs Redis AOF always",
        "commit-100 postgres", "commit-100 redis aof", 2, 4,
    ),
    faster(
        "PostgreSQL commit 100 vs Redis AOF always, hiredis",
        "commit-100 postgres", "commit-100 redis aof hiredis", 2, 4,
    ),
    faster(
        "PostgreSQL 64 asyncio callers vs one",
        "64 postgres async", "one postgres async", 15, 25,
    ),
    faster(
        "PostgreSQL 64 threads vs one caller",
        "64 postgres threads", "one postgres", 5, 10,
    ),
    faster(
        "SQLite safe commit 1000 vs Redis without AOF",
        "commit-1000 sqlite safe", "commit-1000 redis", 1.6, 2.5,
    ),
    faster(
        "SQLite safe commit 1000 vs Redis without AOF, hiredis",
        "commit-1000 sqlite safe", "commit-1000 redis hiredis", 1.6, 2.5,
    ),
    faster(
        "PostgreSQL read 1000 vs XRANGE, redis-py",
        "read postgres", "read redis", 1.6, 3,
    ),
    faster(
        "PostgreSQL read 1000 vs XRANGE, hiredis",
        "read postgres", "read redis hiredis", 1.6, 3,
    ),
    faster(
        "SQLite read 1000 vs XRANGE, redis-py",
        "read sqlite", "read redis", 1.6, 4,
    ),
    faster(
        "SQLite read 1000 vs XRANGE, hiredis",
        "read sqlite", "read redis hiredis", 1.6, 4,
    ),
    faster(
        "SQLite safe commit one vs PipeProc",
        "one sqlite safe", "one pipeproc", 12, 20,
    ),
    faster(
        "SQLite safe commit 1000 vs PipeProc",
        "commit-1000 sqlite safe", "commit-1000 pipeproc", 5, 10,
    ),
    faster(
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

PLAN = Plan(
    name="topics",
    title="Headrace topics against their peers",
    absolute="Memory to iterate over a large topic, MB. Less is better.",
    about=__doc__,
    settings=TopicSettings(),
    quick=TopicSettings(
        rounds=3, seconds=0.25, latencies=150, records=1_000_000, held_commits=10_000
    ),
    starters=STARTERS,
    phases=PHASES,
    goals=GOALS,
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
