"""Channels and limits against plain queues, in one run: ``python -m bench.limits --help``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench import ours
from bench.cases import (
    channel_growth,
    channel_held,
    channel_rates,
    limit_latency,
    limit_rates,
    limit_unused,
)
from bench.context import Case, Lab, Settings
from bench.goals import Goal, Value, at_most, faster
from bench.run import Plan, run


@dataclass(frozen=True)
class LimitSettings(Settings):
    """How many channels and rules there are, and how long channels get."""

    channels: int = 100_000
    few_channels: int = 1_000
    long: int = 1_000_000
    held_items: int = 100_000
    rules: int = 10_000


STARTERS: dict[str, Callable[[Lab], AbstractContextManager[Any]]] = {
    "postgres": ours.start_postgres,
}

PHASES = [
    [Case("rates", channel_rates.contenders)],
    [Case("growth", channel_growth.contenders)],
    [Case("starving", channel_rates.starving)],
    [Case("held", channel_held.contenders)],
    [Case("rules", limit_rates.contenders)],
    [Case("crowds", limit_rates.crowds)],
    [Case("freed", limit_latency.contenders)],
    [Case("unused", limit_unused.contenders)],
]


def _against_plain(store: str, name: str, words: str, must: float, aim: float) -> list[Goal]:
    shown = channel_rates.STORES[store]
    return [
        faster(
            f"{shown} {words} vs plain, {workers} worker{'s' * (workers > 1)}",
            f"{name}-{workers} {store}",
            f"plain-{workers} {store}",
            must,
            aim,
        )
        for workers in channel_rates.WORKERS
    ]


def _flat(store: str, value: str) -> Goal:
    shown = f"{channel_rates.STORES[store]} claim, many channels vs few"
    many, few = (Value(f"channels-{size} {store}", value) for size in ("many", "few"))
    return at_most(f"{shown}, {'CPU' if value == 'cpu' else value}", many, few, 1.3, 1.1)


CHANNEL_GOALS = [
    *_against_plain("postgres", "fair", "fair claim", 0.6, 0.9),
    *_against_plain("sqlite", "fair", "fair claim", 0.45, 0.65),
    *_against_plain("postgres", "strict", "strict round robin", 0.45, 0.6),
    *_against_plain("sqlite", "strict", "strict round robin", 0.35, 0.55),
    *_against_plain("postgres", "shallow", "shallow channels", 0.45, 0.6),
    *_against_plain("sqlite", "shallow", "shallow channels", 0.35, 0.55),
    *_against_plain("postgres", "ad-hoc", "ad-hoc selection", 0.3, 0.5),
    *_against_plain("sqlite", "ad-hoc", "ad-hoc selection", 0.3, 0.5),
    *(_flat(store, value) for store in channel_rates.STORES for value in ("cpu", "pages")),
    *(
        at_most(
            f"{channel_rates.STORES[store]} small channels beside a long one",
            Value(f"starving {store}", "ratio"),
            None,
            1.5,
            1.1,
        )
        for store in channel_rates.STORES
    ),
    faster(
        "PostgreSQL channels under a held snapshot vs without",
        "held-channels", "not-held-channels", 0.4, 0.7,
    ),
]  # fmt: skip


def _against_none(rules: str, words: str, bounds: dict[str, tuple[float, float]]) -> list[Goal]:
    """Work under rules that do not bind, against none; and claims, by turns and in line."""
    return [
        faster(
            f"{channel_rates.STORES[store]} {words} vs none, {_players(way, workers)}",
            f"{rules}-{way}-{workers} {store}",
            f"none-{way}-{workers} {store}",
            *both,
        )
        for store, both in bounds.items()
        for way, workers in limit_rates.PLAYED
    ]


def _players(way: str, workers: int) -> str:
    if way == "worker":
        return channel_rates.words_for(workers)
    return "bare claims in line" if way == "line" else "bare claims"


def _limit_goals(store: str) -> list[Goal]:
    shown = channel_rates.STORES[store]
    freed, pushed, unused = (
        Value(f"{key} {store}", value)
        for key, value in (("freed", "p50"), ("pushed", "p50"), ("unused", "unused"))
    )
    return [
        faster(
            f"{shown} one rule for {limit_rates.CROWD} workers vs none",
            f"one-worker-{limit_rates.CROWD} {store}",
            f"none-worker-{limit_rates.CROWD} {store}",
            0.8,
            0.95,
        ),
        at_most(f"{shown} slot freed vs push, to handler, p50", freed, pushed, 2, 1.3),
        at_most(f"{shown} capacity unused", unused, None, 10, 3)._replace(unit=" %"),
    ]


LIMIT_GOALS = [
    *_against_none("one", "one rule", {"postgres": (0.85, 0.95), "sqlite": (0.8, 0.95)}),
    *_against_none("three", "3 of many rules", {"postgres": (0.7, 0.85), "sqlite": (0.5, 0.85)}),
    *_limit_goals("postgres"),
    *_limit_goals("sqlite"),
]

PLAN = Plan(
    name="limits",
    title="Headrace channels and limits against its plain queues",
    absolute="Items handed out until small channels are done, over how many they have; capacity "
    "that is not used. Less is better.",
    about=__doc__,
    settings=LimitSettings(),
    quick=LimitSettings(
        rounds=3, seconds=0.25, latencies=90, channels=20_000, long=50_000, held_items=20_000
    ),
    starters=STARTERS,
    phases=PHASES,
    goals=[*CHANNEL_GOALS, *LIMIT_GOALS],
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
