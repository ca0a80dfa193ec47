"""Rules that do not bind: what it costs that there are some, against none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.cases.channel_rates import A_CHUNK, STORES, place_of, players_of, rates, words_for
from bench.lab import Contender, Facts, Lab
from bench.playing import Kind, Process, Seat

CHANNELS = 1000
CROWD = 8
KIND = Kind("bench.limit_ours")
TROUPE = Kind("bench.troupe")
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
WAYS = {"fair": "channels by turns", "line": "channels in line"}
PLAYED = (("fair", 1), ("fair", 4), ("line", 1))


def contenders(lab: Lab) -> Iterator[Contender]:
    troupe = players_of(lab, "rules", KIND.module, max(workers for _, workers in PLAYED), TROUPE)
    for store in STORES:
        for way, workers in PLAYED:
            for rules in RULES:
                yield from _offer(lab, troupe[:workers], store, way, rules)


def crowds(lab: Lab) -> Iterator[Contender]:
    """One rule that counts the items of eight workers in one total."""
    troupe = players_of(lab, "crowds", KIND.module, CROWD, TROUPE)
    for store in STORES:
        for rules in ("none", "one"):
            yield from _offer(lab, troupe, store, "fair", rules)


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
        player.ask("play", channels=CHANNELS, selects=way == "fair")
    title = f"{STORES[store]}, claim + settle {A_CHUNK}, {WAYS[way]}, {applied.words}"
    if applied.matching:
        facts = under_limits(facts)
    full = f"{title}, {words_for(len(troupe))}"
    return Contender(key, full, "items/s", facts, rates(lab, players, CHANNELS, FASTEST))


def under_limits(facts: Facts) -> Facts:
    """Under a limit a claim waits for the disk, too."""
    return facts._replace(durability=facts.durability.replace("claim relaxed,", "claim and"))
