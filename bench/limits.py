"""Channels and limits against plain queues, in one run: ``python -m bench.limits --help``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bench import ours
from bench.cases import channel_growth, channel_held, channel_rates
from bench.goals import Goal, Value, at_most, faster
from bench.lab import Case, Lab, Settings
from bench.run import Plan, run


@dataclass(frozen=True)
class LimitSettings(Settings):
    """How many channels there are, and how long they get."""

    channels: int = 100_000
    few_channels: int = 1_000
    long: int = 1_000_000
    held_items: int = 100_000


STARTERS: dict[str, Callable[[Lab], AbstractContextManager[Any]]] = {
    "postgres": ours.start_postgres,
}

# Rows about limits go into phases of their own, behind these.
PHASES = [
    [Case("rates", channel_rates.contenders)],
    [Case("growth", channel_growth.contenders)],
    [Case("starving", channel_rates.starving)],
    [Case("held", channel_held.contenders)],
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
# Goals about limits: one rule and 10 000 against none, a global rule with 8 workers, a slot
# that is freed, capacity that is not used.
LIMIT_GOALS: list[Goal] = []

PLAN = Plan(
    name="limits",
    title="Headrace channels and limits against its plain queues",
    absolute="Items handed out until small channels are done, over how many they have. Less is "
    "better.",
    about=__doc__,
    settings=LimitSettings(),
    quick=LimitSettings(rounds=3, seconds=0.25, channels=20_000, long=50_000, held_items=20_000),
    starters=STARTERS,
    phases=PHASES,
    goals=[*CHANNEL_GOALS, *LIMIT_GOALS],
)


if __name__ == "__main__":
    sys.exit(run(PLAN))
