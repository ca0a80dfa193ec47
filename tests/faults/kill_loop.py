"""Processes that are killed one after another, and their audit logs.

``HEADRACE_KILLS`` is the number of kills in each storm: more for a soak.
"""

import os
import random
from typing import Any

from faults.processes import ChildProcesses
from headrace.testing.audit_log import AuditEntry

KILLS = int(os.environ.get("HEADRACE_KILLS", "60"))
SECONDS = 60 + 2 * KILLS
"""The longest that a storm may take."""


def storm(
    processes: ChildProcesses,
    rng: random.Random,
    victims: list[str],
    places: list[dict[str, Any]],
    kills: int = KILLS,
) -> list[AuditEntry]:
    """Keep a victim at each place, kill them one by one, and read their audit logs."""
    seed = rng.getrandbits(32)
    child = processes.start("storm", seed=seed, kills=kills, victims=victims, places=places)
    child.await_end(seconds=SECONDS)
    entries = processes.entries()
    assert sum(entry.outcome is None for entry in entries) > 0, "no kill hit an operation"
    assert sum(entry.outcome is not None for entry in entries) > kills
    return entries
