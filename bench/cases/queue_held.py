"""Work items off while somebody keeps an old snapshot open.

PostgreSQL may then remove no old version of a row, and each item leaves some. A snapshot
holds back only its own database, so the same server has another one without any, where as
many items were worked off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from bench import ours, queue_ours
from bench.contender import Pace
from bench.context import Contender, Lab
from bench.measure import PostgresMeter

A_CHUNK = 100


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("held-queue", _postgres, "postgres", is_held=True)
    yield from lab.offer("not-held-queue", _postgres, "postgres", is_held=False)


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, is_held: bool) -> Contender:
    queue_ours.check()
    database = server.new_database("held_queue" if is_held else "not_held_queue")
    many = f"{lab.settings.held_items:,}"
    print(f"  working off {many} items {'under a snapshot' if is_held else ''}", flush=True)
    # The tables first: the snapshot is to be older than the items, not than the store.
    player = queue_ours.Player(database)
    meter = PostgresMeter(database)
    for opened in (player, meter):
        lab.phase.callback(opened.close)
    if is_held:
        lab.phase.enter_context(snapshot(database))
    _work_off(database, lab.settings.held_items)

    waiting = 0

    def sample(turn: int) -> dict[str, float]:
        # Always the same queue: what was there before is in its way, not in another's.
        nonlocal waiting
        wanted = max(waiting, player.enough(lab.settings.seconds))
        player.fill(wanted - waiting)
        pace = Pace(lab.settings.seconds, player.warm, wanted)
        start = meter.backend_cpu()
        while not pace.is_over:
            if not (taken := player.take(A_CHUNK)):
                raise RuntimeError("the queue ran empty")
            pace.count(taken)
        waiting = wanted - pace.counted
        spent = (meter.backend_cpu() - start) / pace.counted * 1e6
        return {**player.noted(pace), "server cpu": spent}

    where = f"after {many} under a held snapshot" if is_held else f"after {many}, none held"
    facts = server.facts._replace(durability="claim relaxed, settle fsync")
    title = f"PostgreSQL, claim + settle {A_CHUNK}, {where}"
    return Contender(key, title, "items/s", facts, sample)


@contextmanager
def snapshot(url: str) -> Iterator[None]:
    """An old snapshot of a database."""
    with psycopg.connect(url) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select 1")
        yield


def _work_off(url: str, count: int) -> None:
    # Without waiting for the flush: as many versions of rows, sooner.
    with closing(queue_ours.Player(f"{url}?durability=relaxed")) as player:
        player.fill(count)
        while player.take(A_CHUNK):
            pass
