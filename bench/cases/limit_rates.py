"""Rules that do not bind: what it costs that there are some, against none.

Workers with no-op handlers, and besides what is below them: claim and settle, one after the
other, in which there is nothing else that takes time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bench.cases.channel_rates import A_CHUNK, STORES, place_of, players_of, rates, words_for
from bench.context import Contender, Facts, Lab, Sample
from bench.launcher import Kind, Process, Seat

CHANNELS = 1000
CROWD = 8
KIND = Kind("bench.limit_ours")
TROUPE = Kind("bench.multi_contender")
FASTEST = 30_000.0


class Rules(NamedTuple):
    """How many rules apply to all items, and whether there are others that apply to none."""

    words: str
    matching: int
    has_others: bool = False


RULES = {
    "none": Rules("no rule", 0),
    "one": Rules("one rule far from its limit", 1),
    "three": Rules("three rules that match of many", 3, has_others=True),
}
WAYS = {
    "worker": f"no-op items, chunks of {A_CHUNK}",
    "fair": f"claim + settle {A_CHUNK}, channels by turns",
    "line": f"claim + settle {A_CHUNK}, channels in line",
}
PLAYED = (("worker", 1), ("worker", 4), ("fair", 1), ("line", 1))
LEAD_SECONDS = 0.5
"""Before it counts all workers are at work."""


def contenders(lab: Lab) -> Iterator[Contender]:
    troupe = players_of(lab, "rules", KIND.module, max(workers for _, workers in PLAYED), TROUPE)
    for store in STORES:
        for way, workers in PLAYED:
            for rules in RULES:
                yield from _offer(lab, troupe[:workers], store, way, rules)


def crowds(lab: Lab) -> Iterator[Contender]:
    """One rule that counts the items of eight workers in one counter."""
    troupe = players_of(lab, "crowds", KIND.module, CROWD, TROUPE)
    for store in STORES:
        for rules in ("none", "one"):
            yield from _offer(lab, troupe, store, "worker", rules)


def _offer(
    lab: Lab, troupe: list[Process], store: str, way: str, rules: str
) -> Iterator[Contender]:
    needs = ("postgres",) if store == "postgres" else ()
    key = f"{rules}-{way}-{len(troupe)} {store}"
    options = {"troupe": troupe, "store": store, "way": way, "rules": rules}
    yield from lab.offer(key, _contender, *needs, **options)


def _contender(
    lab: Lab, key: str, *_: Any, troupe: list[Process], store: str, way: str, rules: str
) -> Contender:
    where, facts = place_of(lab, store, f"limit_{rules}_{way}_{len(troupe)}")
    players = [Seat(process, where) for process in troupe]
    applied = RULES[rules]
    if applied.matching:
        others = lab.settings.rules - applied.matching if applied.has_others else 0
        players[0].ask("apply", rules=applied.matching, others=others)
    for player in players:
        player.ask("play", channels=CHANNELS, selects=way != "line")
    title = f"{STORES[store]}, {WAYS[way]}, {applied.words}"
    if applied.matching:
        facts = under_limits(facts)
    full = f"{title}, {words_for(len(troupe))}"
    find = worked if way == "worker" else rates
    return Contender(key, full, "items/s", facts, find(lab, players, CHANNELS, FASTEST))


def worked(lab: Lab, players: Sequence[Seat], channels: int, pace: float) -> Sample:
    """What workers handle together in a second, of a queue that does not run empty.

    ``pace`` is more than all of them do: until that was measured.
    """
    seconds = lab.settings.seconds
    waiting = 0

    def sample(turn: int) -> dict[str, float]:
        nonlocal waiting, pace
        enough = int(2 * pace * (seconds + LEAD_SECONDS)) + 5 * channels
        if waiting < enough:
            players[0].ask("fill", count=enough - waiting)
        start = time.monotonic_ns() + round(LEAD_SECONDS * 1e9)
        end = start + round(seconds * 1e9)
        for player in players:
            player.tell("worked", size=A_CHUNK, start=start, end=end)
        pace = sum(player.hear()["taken"] for player in players) / seconds
        waiting = players[0].ask("waiting")
        if not waiting:
            raise RuntimeError("the queue ran empty")
        return {"rate": pace}

    return sample


def under_limits(facts: Facts) -> Facts:
    """Under a limit a claim waits for the flush, too."""
    return facts._replace(durability=facts.durability.replace("claim relaxed,", "claim and"))
