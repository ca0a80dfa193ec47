"""Headrace's queues against their peers, in one run: ``python -m bench.queues --help``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import ours
from bench.cases import queue_growth, queue_held, queue_idle, queue_latency, queue_rates
from bench.context import Case, Lab, Settings
from bench.goals import Goal, Value, at_most, faster
from bench.peers import redis_streams
from bench.run import Plan, run


@dataclass(frozen=True)
class QueueSettings(Settings):
    """How long queues are."""

    items: int = 5_000_000
    planned: int = 1_000_000
    few_items: int = 10_000
    held_items: int = 100_000
    waiting: int = 10_000
    idle_seconds: float = 5.0


STARTERS: dict[str, Callable[[Lab], AbstractContextManager[Any]]] = {
    "postgres": ours.start_postgres,
    "redis": partial(redis_streams.start, is_durable=False),
}

PHASES = [
    [
        Case("push-1", queue_rates.push_one),
        Case("push-1000", queue_rates.push_many),
        Case("pushers", queue_rates.pushers),
        Case("no-op", queue_rates.no_ops),
        Case("take", queue_rates.sqlite_takes),
    ],
    [Case("latency", queue_latency.contenders)],
    [Case("idle", queue_idle.contenders)],
    [Case("held", queue_held.contenders)],
    [Case("growth", queue_growth.contenders)],
]


def _against(
    title: str, case: str, bounds: dict[str, tuple[float, float]], peers: dict[str, str]
) -> list[Goal]:
    return [
        faster(f"{title} vs {peers.get(peer, peer)}", f"{case} headrace", f"{case} {peer}", *both)
        for peer, both in bounds.items()
    ]


# pgmq is measured as its own client does it, and at its best.
PEERS = {"pgmq": "pgmq, its own client", "pgmq-asyncpg": "pgmq by asyncpg"}


def _latency(title: str, ours: str, theirs: str, value: str, must: float, aim: float) -> Goal:
    mine, other = Value(f"latency {ours}", value), Value(f"latency {theirs}", value)
    return at_most(f"{title}, {value}", mine, other, must, aim)


def _flat(store: str, size: str, words: str, value: str) -> Goal:
    key = {"PostgreSQL": "postgres", "SQLite": "sqlite"}[store]
    mine, other = Value(f"growth {size} {key}", value), Value(f"growth few {key}", value)
    shown = {"cpu": "CPU"}.get(value, value)
    return at_most(f"{store} claim, {words} vs few, {shown}", mine, other, 1.3, 1.1)


def _idle(title: str, key: str) -> Goal:
    return at_most(title, Value(key, "percent"), None, 0.5, 0.2)._replace(unit=" %")


GOALS = [
    *_against(
        "PostgreSQL push one", "push-1",
        {
            "pgmq": (1.3, 1.6), "pgmq-asyncpg": (1.3, 1.6),
            "pgqueuer": (2.3, 3), "procrastinate": (3, 4),
        },
        PEERS,
    ),
    *_against(
        "PostgreSQL push 1000", "push-1000",
        {
            "pgmq": (1, 1.3), "pgmq-asyncpg": (1, 1.3),
            "pgqueuer": (2.5, 3.5), "procrastinate": (14, 20),
        },
        PEERS,
    ),
    faster(
        "PostgreSQL 64 asyncio pushers vs one",
        "pushers-64 headrace", "pushers-1 headrace", 12, 20,
    ),
    *_against(
        "PostgreSQL no-op items", "no-op",
        {
            "pgmq": (1, 1.4), "pgmq-asyncpg": (1, 1.4),
            "pgqueuer": (4, 6), "procrastinate": (75, 150),
        },
        PEERS,
    ),
    faster(
        "SQLite relaxed claim + settle one vs litequeue",
        "take-1 headrace-sqlite", "take-1 litequeue", 3.5, 5,
    ),
    faster(
        "SQLite relaxed claim + settle 100 vs litequeue",
        "take-100 headrace-sqlite", "take-1 litequeue", 20, 30,
    ),
    faster(
        "PostgreSQL items under a held snapshot vs without",
        "held-queue", "not-held-queue", 0.4, 0.7,
    ),
    _latency("PostgreSQL push to handler vs pgqueuer", "headrace", "pgqueuer", "p50", 0.5, 0.4),
    _latency("PostgreSQL push to handler vs pgqueuer", "headrace", "pgqueuer", "p95", 0.8, 0.6),
    _latency("SQLite relaxed vs Redis Streams", "headrace-sqlite", "redis", "p50", 1.5, 1),
    *(
        _flat(store, size, words, value)
        for store in ("PostgreSQL", "SQLite")
        for size, words in (("many", "long queue"), ("planned", "behind planned"))
        for value in ("cpu", "pages")
    ),
    _idle("PostgreSQL idle worker", "idle headrace"),
    _idle("SQLite idle worker", "idle headrace-sqlite"),
]  # fmt: skip

PLAN = Plan(
    name="queues",
    title="Headrace queues against their peers",
    absolute="Idle worker, % of a core. Less is better.",
    about=__doc__,
    settings=QueueSettings(),
    quick=QueueSettings(
        rounds=3, seconds=0.25, latencies=150, items=500_000, planned=100_000, held_items=20_000,
        idle_seconds=2.0,
    ),
    starters=STARTERS,
    phases=PHASES,
    goals=GOALS,
)  # fmt: skip


if __name__ == "__main__":
    sys.exit(run(PLAN))
