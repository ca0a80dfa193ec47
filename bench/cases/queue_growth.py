"""Claim and settle in a long queue, behind planned items, and in a short queue.

What is compared is CPU and pages, not time. Each queue has a store of its own, or they would
share their indexes. What was worked off is pushed again, so that a short queue stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple

from bench import ours, queue_ours
from bench.contenders import KINDS
from bench.context import Contender, Facts, Lab, PeerMissing
from bench.launcher import playing
from bench.measure import PostgresMeter, pages_read

CLAIMS = 300
WARM_CLAIMS = 20
A_CLAIM = 10
FILL_SECONDS = 900.0


class Size(NamedTuple):
    """How many items wait, and how many are planned for a later time."""

    waiting: int
    planned: int

    @property
    def words(self) -> str:
        behind = f" behind {self.planned:,} planned" if self.planned else ""
        return f"{self.waiting:,} waiting{behind}"


def contenders(lab: Lab) -> Iterator[Contender]:
    settings = lab.settings
    sizes = {
        "many": Size(settings.items, 0),
        "planned": Size(settings.few_items, settings.planned),
        "few": Size(settings.few_items, 0),
    }
    if queue_ours.is_there():
        _fill_all(lab, sizes)
    for size, count in sizes.items():
        options = {"size": size, "words": count.words}
        yield from lab.offer(f"growth {size} postgres", _postgres, "postgres", **options)
        yield from lab.offer(f"growth {size} sqlite", _sqlite, **options)


def _fill_all(lab: Lab, sizes: dict[str, Size]) -> None:
    """Fill all stores in parallel, each by a process of its own."""
    print(f"  filling queues with {sizes['many'].waiting:,} items", flush=True)
    urls = {size: [_sqlite_url(lab, size)] for size in sizes}
    try:
        server = lab.peer("postgres")
    except PeerMissing:
        server = None  # its contenders say that it is missing
    for size in sizes if server else ():
        urls[size].append(server.at(_schema(size)))
    with ExitStack() as stack:
        fillers = []
        for size, wanted in sizes.items():
            for url in urls[size]:
                # Without waiting for the flush: the same rows, sooner.
                relaxed = f"{url}{'&' if '?' in url else '?'}durability=relaxed"
                kind = KINDS["headrace"]
                filler = stack.enter_context(playing(lab, "fill", kind, relaxed))
                filler.tell("fill_with", waiting=wanted.waiting, planned=wanted.planned)
                fillers.append(filler)
        give_up = time.monotonic() + FILL_SECONDS
        for filler in fillers:
            filler.hear(max(0.1, give_up - time.monotonic()))
    if server:
        # What autovacuum and the checkpointer would otherwise do in mid-measurement.
        server.execute("vacuum analyze")
        server.execute("checkpoint")


def _schema(size: str) -> str:
    return f"growth_{size}"


def _sqlite_url(lab: Lab, size: str) -> str:
    return ours.sqlite_url(lab, _schema(size))


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, size: str, words: str) -> Contender:
    queue_ours.check()
    meter = PostgresMeter(server.url)
    lab.phase.callback(meter.close)
    url = server.at(_schema(size))

    def sample(turn: int) -> dict[str, float]:
        with meter.touching(_schema(size)) as touched, closing(queue_ours.Player(url)) as player:
            cpu = _claim_and_settle(player, meter.backend_cpu)
        _push_again(url)
        return {"cpu": cpu, "pages": touched[0] / (CLAIMS + WARM_CLAIMS)}

    facts = server.facts._replace(durability="claim relaxed, settle fsync")
    return Contender(key, f"PostgreSQL, claim + settle, {words}", "µs CPU", facts, sample)


def _sqlite(lab: Lab, key: str, *, size: str, words: str) -> Contender:
    queue_ours.check()
    url = _sqlite_url(lab, size)

    def sample(turn: int) -> dict[str, float]:
        with closing(queue_ours.Player(url)) as player:
            before = pages_read()
            cpu = _claim_and_settle(player, lambda: 0.0)
            touched = pages_read() - before
        _push_again(url)
        return {"cpu": cpu, "pages": touched / (CLAIMS + WARM_CLAIMS)}

    facts: Facts = ours.sqlite_facts("safe")._replace(durability="claim relaxed, settle synced")
    return Contender(key, f"SQLite, claim + settle, {words}", "µs CPU", facts, sample)


def _claim_and_settle(player: queue_ours.Player, server_cpu: Callable[[], float]) -> float:
    """CPU microseconds of one claim of ten items and their settling, client and server."""

    def turns(times: int) -> None:
        for _ in range(times):
            if player.take(A_CLAIM) != A_CLAIM:
                raise RuntimeError("the queue ran empty")

    turns(WARM_CLAIMS)
    start = time.process_time() + server_cpu()
    turns(CLAIMS)
    return (time.process_time() + server_cpu() - start) / CLAIMS * 1e6


def _push_again(url: str) -> None:
    with closing(queue_ours.Player(url)) as player:
        player.fill((CLAIMS + WARM_CLAIMS) * A_CLAIM)
