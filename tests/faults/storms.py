"""Processes that are killed one after another, and what they had to say.

``HEADRACE_KILLS`` says how many of them are killed in each storm: more for a soak.
"""

import os
import random
from typing import Any

from faults.crew import Crew
from headrace.testing.ledger import Entry

KILLS = int(os.environ.get("HEADRACE_KILLS", "60"))
SECONDS = 60 + 2 * KILLS
"""The longest that a storm may take."""


def storm(
    crew: Crew,
    rng: random.Random,
    victims: list[str],
    places: list[dict[str, Any]],
    kills: int = KILLS,
) -> list[Entry]:
    """Keep a victim at each place, kill them one by one, and read their ledgers."""
    seed = rng.getrandbits(32)
    child = crew.start("storm", seed=seed, kills=kills, victims=victims, places=places)
    child.await_end(seconds=SECONDS)
    entries = crew.entries()
    assert sum(entry.outcome is None for entry in entries) > 0, "no kill hit an operation"
    assert sum(entry.outcome is not None for entry in entries) > kills
    return entries
