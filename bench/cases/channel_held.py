"""Work channels off while somebody keeps an old snapshot open: see ``queue_held``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from bench import channel_ours, ours
from bench.cases.queue_held import snapshot
from bench.contender import Pace
from bench.context import Contender, Lab

A_CHUNK = 100
CHANNELS = 100


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("held-channels", _postgres, "postgres", is_held=True)
    yield from lab.offer("not-held-channels", _postgres, "postgres", is_held=False)


def _player(url: str) -> channel_ours.Player:
    player = channel_ours.Player(url)
    player.play(CHANNELS)
    return player


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, is_held: bool) -> Contender:
    database = server.new_database("held_channels" if is_held else "not_held_channels")
    many = f"{lab.settings.held_items:,}"
    print(f"  working off {many} items {'under a snapshot' if is_held else ''}", flush=True)
    player = _player(database)
    lab.phase.callback(player.close)
    if is_held:
        lab.phase.enter_context(snapshot(database))
    with closing(_player(f"{database}?durability=relaxed")) as worker:
        worker.fill(lab.settings.held_items)
        while worker.take(A_CHUNK):
            pass
    waiting = 0

    def sample(turn: int) -> dict[str, float]:
        nonlocal waiting
        wanted = max(waiting, player.enough(lab.settings.seconds))
        player.fill(wanted - waiting)
        pace = Pace(lab.settings.seconds, player.warm, wanted)
        while not pace.is_over:
            if not (taken := player.take(A_CHUNK)):
                raise RuntimeError("the queue ran empty")
            pace.count(taken)
        waiting = wanted - pace.counted
        return player.noted(pace)

    where = f"after {many} under a held snapshot" if is_held else f"after {many}, none held"
    facts = server.facts._replace(durability="claim relaxed, settle fsync")
    title = f"PostgreSQL, claim + settle {A_CHUNK} of {CHANNELS} channels, {where}"
    return Contender(key, title, "items/s", facts, sample)
