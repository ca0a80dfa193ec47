"""The records that every contender writes: JSON objects of about 200 bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

POOL = 20_000
CITIES = ("Lisbon", "Ghent", "Tartu", "Graz", "Oulu", "Cork", "Bergen", "Trieste")


def make(number: int, rng: random.Random) -> dict[str, Any]:
    """An order as a shop might log it; about half of it does not compress."""
    return {
        "order": number,
        "customer": f"{rng.getrandbits(48):012x}",
        "city": rng.choice(CITIES),
        "placed_at": f"2026-05-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:15:00Z",
        "total": round(rng.uniform(5, 900), 2),
        "express": rng.random() < 0.2,
        "channel": "web",
        "lines": [{"sku": f"{rng.getrandbits(40):010x}", "n": rng.randint(1, 9)} for _ in "ab"],
    }


def pool(size: int = POOL) -> list[dict[str, Any]]:
    """The same bodies in every run."""
    rng = random.Random(7)
    return [make(number, rng) for number in range(size)]


def slices(bodies: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Runs of ``size`` bodies, round and round."""
    places = range(0, len(bodies) - size + 1, size)
    for turn in count():
        start = places[turn % len(places)]
        yield bodies[start : start + size]
