"""Claim and settle by a registered selection, with many channels and with few.

What is compared is CPU and pages, not time. Channels have two items each, all of them are
selected, and what was worked off is pushed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from bench import channel_ours, ours
from bench.context import Contender, Lab
from bench.measure import PostgresMeter, pages_read

A_CLAIM = 100
CLAIMS = 8
WARM_CLAIMS = 2
EACH = 2


def contenders(lab: Lab) -> Iterator[Contender]:
    sizes = {"few": lab.settings.few_channels, "many": lab.settings.channels}
    for size, count in sizes.items():
        key = f"channels-{size}"
        yield from lab.offer(f"{key} postgres", _postgres, "postgres", size=size, count=count)
        yield from lab.offer(f"{key} sqlite", _sqlite, size=size, count=count)


def _opened(url: str, count: int) -> channel_ours.Player:
    player = channel_ours.Player(url)
    player.play(count)
    return player


def _fill(url: str, count: int) -> None:
    print(f"  {count:,} channels", flush=True)
    divider = "&" if "?" in url else "?"
    with closing(_opened(f"{url}{divider}durability=relaxed", count)) as player:
        player.fill(EACH * count)
        # Each channel is put into its lane once, by a claim that knows of the selection: the first
        # one after it was registered learns of it.
        for _ in range(WARM_CLAIMS):
            player.take(A_CLAIM)


def _postgres(lab: Lab, key: str, server: ours.Postgres, *, size: str, count: int) -> Contender:
    schema = f"channels_{size}"
    url = server.at(schema)
    _fill(url, count)
    server.execute("vacuum analyze")
    server.execute("checkpoint")
    meter = PostgresMeter(server.url)
    lab.phase.callback(meter.close)

    def sample(turn: int) -> dict[str, float]:
        with meter.touching(schema) as touched, closing(_opened(url, count)) as player:
            cpu = _claim_and_settle(player, meter.backend_cpu)
        _push_again(url, count)
        return {"cpu": cpu, "pages": touched[0] / _items()}

    facts = server.facts._replace(durability="claim relaxed, settle fsync")
    return Contender(key, _title("PostgreSQL", count), "µs CPU an item", facts, sample)


def _sqlite(lab: Lab, key: str, *, size: str, count: int) -> Contender:
    url = ours.sqlite_url(lab, f"channels_{size}")
    _fill(url, count)

    def sample(turn: int) -> dict[str, float]:
        with closing(_opened(url, count)) as player:
            before = pages_read()
            cpu = _claim_and_settle(player, lambda: 0.0)
            touched = pages_read() - before
        _push_again(url, count)
        return {"cpu": cpu, "pages": touched / _items()}

    facts = ours.sqlite_facts("safe")._replace(durability="claim relaxed, settle synced")
    return Contender(key, _title("SQLite", count), "µs CPU an item", facts, sample)


def _title(store: str, count: int) -> str:
    return f"{store}, claim + settle {A_CLAIM}, {count:,} channels that are selected"


def _items() -> int:
    return (CLAIMS + WARM_CLAIMS) * A_CLAIM


def _claim_and_settle(player: channel_ours.Player, server_cpu: Callable[[], float]) -> float:
    """CPU microseconds of an item, client and server."""

    def turns(times: int) -> None:
        for _ in range(times):
            if player.take(A_CLAIM) != A_CLAIM:
                raise RuntimeError("the queue ran empty")

    turns(WARM_CLAIMS)
    start = time.process_time() + server_cpu()
    turns(CLAIMS)
    return (time.process_time() + server_cpu() - start) / CLAIMS / A_CLAIM * 1e6


def _push_again(url: str, count: int) -> None:
    with closing(_opened(url, count)) as player:
        player.fill(_items())
