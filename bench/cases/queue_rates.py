"""Rates of queues: push, work off, and claim with settle on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.contenders import Place
from bench.context import Contender, Lab

ON_POSTGRES = ("headrace", "pgmq", "pgmq-asyncpg", "pgqueuer", "procrastinate", "bare")
PUSHERS = 64
MANY = 1000
A_CHUNK = 100
RELAXED_CLAIM = "claim relaxed, settle fsync"


def push_one(lab: Lab) -> Iterator[Contender]:
    for name in ON_POSTGRES:
        yield from _offer(lab, "push-1", name, "push one", "push_rate", size=1)


def push_many(lab: Lab) -> Iterator[Contender]:
    for name in ON_POSTGRES:
        yield from _offer(lab, "push-1000", name, f"push {MANY} a call", "push_rate", size=MANY)


def pushers(lab: Lab) -> Iterator[Contender]:
    for count in (1, PUSHERS):
        who = "one asyncio pusher" if count == 1 else f"{count} asyncio pushers"
        yield from _offer(lab, f"pushers-{count}", "headrace", who, "pushers_rate", pushers=count)


def no_ops(lab: Lab) -> Iterator[Contender]:
    """Real workers with all their bookkeeping; pgmq has none, so it reads and deletes."""
    for name in ("headrace", "pgqueuer", "procrastinate"):
        survives = RELAXED_CLAIM if name == "headrace" else ""
        yield from _offer(lab, "no-op", name, "no-op items", "work_rate", survives)
    for name in ("pgmq", "pgmq-asyncpg"):
        what = f"read + delete {A_CHUNK}"
        yield from _offer(lab, "no-op", name, what, "take_rate", size=A_CHUNK)


def sqlite_takes(lab: Lab) -> Iterator[Contender]:
    """Few wait at a time: litequeue gets slower with each item that waits."""
    waiting = lab.settings.waiting
    for size in (1, A_CHUNK):
        what = f"claim + settle {size}"
        case = f"take-{size}"
        yield from _offer(
            lab, case, "headrace-sqlite", what, "take_rate", size=size, waiting=waiting
        )
    for name in ("litequeue", "huey", "persist-queue"):
        yield from _offer(
            lab, "take-1", name, "claim + settle 1", "take_rate", size=1, waiting=waiting
        )


def _offer(
    lab: Lab, case: str, name: str, what: str, do: str, durability: str = "", **options: Any
) -> Iterator[Contender]:
    def make(lab: Lab, key: str) -> Contender:
        place = Place(lab, name, case)
        player = place.player()

        def sample(turn: int) -> dict[str, float]:
            figures: dict[str, float] = player.ask(do, seconds=lab.settings.seconds, **options)
            return figures

        facts = place.facts(player, durability)
        return Contender(key, f"{place.title}, {what}", "items/s", facts, sample)

    return lab.offer(f"{case} {name}", make)
