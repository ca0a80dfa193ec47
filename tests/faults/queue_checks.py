"""A queue for storms, and what must hold when one is over."""

import sys
from collections.abc import Iterable
from typing import Any

from faults.children import consumer
from faults.queue_scenes import run
from faults.waiting import until
from headrace.contract.items import Backlog
from headrace.model.items import State
from headrace.testing.ledger import Entry
from headrace.testing.postgres import PrivatePostgres
from headrace.testing.queue_ledger import check_items

SETTINGS = {
    "lock_duration": consumer.LEASE_MS / 1000,
    "dead_threshold": -1,
    "max_crashes": 3,
    "reject_delay": 0,
}
ALL = 1_000_000


def await_silence(postgres: PrivatePostgres) -> None:
    """Wait until the server works for nobody who is dead."""
    busy = (
        "select pid from pg_stat_activity where backend_type = 'client backend'"
        " and state <> 'idle' and pid <> pg_backend_pid()"
    )
    until(lambda: not postgres.execute(busy), "the end of what the dead have begun")


def check_queue(hr: Any, entries: Iterable[Entry], queue: str = "q") -> Backlog:
    """The queue holds what the ledgers say, and its running counts are right."""
    sums = check_items(entries, items(hr, queue, *State))
    backlog = check_counts(hr, queue)
    counts = backlog.counts
    there = counts.planned + counts.pending + counts.active
    assert (counts.entered, there, counts.dead) == (sums.pushed, sums.waiting, sums.dead)
    # Shown when a test fails, and by -rP.
    sys.stdout.write(f"{sums}\n")
    return backlog


def items(hr: Any, queue: str, *states: State) -> list[Any]:
    return [item for state in states for item in run(hr, "items", queue, state, 0, ALL)]


def check_counts(hr: Any, queue: str) -> Backlog:
    [running] = run(hr, "backlogs", [queue], False)
    [computed] = run(hr, "backlogs", [queue], True)
    assert running.counts == computed.counts
    backlog: Backlog = running
    return backlog
