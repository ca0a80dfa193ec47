"""Claims by turns against plain claims: rates, and how soon small channels are done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bench import ours
from bench.context import Contender, Facts, Lab, Sample
from bench.launcher import Kind, Process, Seat, playing

A_CHUNK = 100
KIND = Kind("bench.channel_ours")
STORES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
WORKERS = (1, 4)


class Shape(NamedTuple):
    """Channels of a queue, and how claims take from them."""

    words: str
    channels: int = 0
    others: int = 0
    quantum: int = 10
    registered: bool = True


SHAPES = {
    "plain": Shape("no channels"),
    "fair": Shape("1 000 deep channels of 2 000, registered", 1000, others=1000),
    "strict": Shape("strict round robin over 1 000 of 2 000", 1000, others=1000, quantum=1),
    "shallow": Shape("one or two items in each channel", 50_000, others=1000),
    "ad-hoc": Shape(
        "5 000 of 10 000 channels, not registered", 5000, others=5000, registered=False
    ),
}


def contenders(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        needs = ("postgres",) if store == "postgres" else ()
        for workers in WORKERS:
            for name in SHAPES:
                key = f"{name}-{workers} {store}"
                yield from lab.offer(key, _rate, *needs, store=store, name=name, workers=workers)


def starving(lab: Lab) -> Iterator[Contender]:
    for store in STORES:
        needs = ("postgres",) if store == "postgres" else ()
        yield from lab.offer(f"starving {store}", _starving, *needs, store=store)


def place_of(lab: Lab, store: str, name: str) -> tuple[str, Facts]:
    """A store of its own, and what its figures stand on."""
    word = name.replace("-", "_")
    if store == "sqlite":
        facts = ours.sqlite_facts("safe")
        return ours.sqlite_url(lab, word), facts._replace(durability="claim relaxed, settle synced")
    server: ours.Postgres = lab.peer("postgres")
    facts = server.facts._replace(durability="claim relaxed, settle fsync")
    return server.new_database(word), facts


def players_of(lab: Lab, key: str, where: str, count: int, kind: Kind = KIND) -> list[Process]:
    """So many processes, until the phase is over."""
    return [
        lab.phase.enter_context(playing(lab, f"{key}-{n}".replace(" ", "-"), kind, where))
        for n in range(count)
    ]


def _rate(lab: Lab, key: str, *_: Any, store: str, name: str, workers: int) -> Contender:
    shape = SHAPES[name]
    where, facts = place_of(lab, store, f"{name}_{workers}")
    players = players_of(lab, key, where, workers)
    if shape.channels:
        for place, player in enumerate(players):
            options = shape._asdict()
            del options["words"]
            if place:
                options["others"] = 0
            player.ask("play", **options)
    title = f"{STORES[store]}, claim + settle {A_CHUNK}, {shape.words}, {words_for(workers)}"
    return Contender(key, title, "items/s", facts, rates(lab, players, shape.channels))


def words_for(workers: int) -> str:
    return "one worker" if workers == 1 else f"{workers} workers"


def rates(
    lab: Lab, players: Sequence[Process | Seat], channels: int, pace: float = 60_000.0
) -> Sample:
    """What players claim and settle together in a second, of a queue that is filled before.

    ``pace`` is more than any of them does: until one was measured.
    """
    waiting = taken = 0.0

    def sample(turn: int) -> dict[str, float]:
        nonlocal waiting, pace, taken
        # Many workers do not begin and end at the same time, and take more than their rate says.
        enough = max(2 * pace * lab.settings.seconds, 2 * taken)
        wanted = max(enough, 5.0 * min(channels, 2000)) + 2000 + 500 * len(players)
        if waiting < wanted:
            players[0].ask("fill", count=int(wanted - waiting))
            waiting = wanted
        start = time.perf_counter()
        for player in players:
            player.tell("claims_rate", size=A_CHUNK, seconds=lab.settings.seconds)
        taken = sum(player.hear()["taken"] for player in players)
        # By one clock: workers that wait for each other do not run at the same time.
        pace = taken / (time.perf_counter() - start)
        waiting -= taken
        return {"rate": pace}

    return sample


def _starving(lab: Lab, key: str, *_: Any, store: str) -> Contender:
    where, facts = place_of(lab, store, "starving")
    [player] = players_of(lab, key, where, 1)
    player.ask("play", channels=1)
    long = lab.settings.long
    print(f"  a channel of {long:,} items", flush=True)
    player.tell("lengthen", count=long)
    player.hear(600.0)

    def sample(turn: int) -> dict[str, float]:
        found: dict[str, float] = player.ask("small_ones_done", channels=100, each=10, size=A_CHUNK)
        return found

    title = f"{STORES[store]}, 100 channels of 10 beside one of {long:,}, items until they are done"
    return Contender(key, title, "x", facts, sample)
