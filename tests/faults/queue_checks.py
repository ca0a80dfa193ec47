"""A queue for storms, and what must hold after one."""

import sys
from collections.abc import Iterable
from typing import Any

from faults.children import consumer
from faults.polling import until
from faults.queue_crash_cases import run
from headrace.contract.items import QueueCounts
from headrace.model.queues.items import State
from headrace.testing.audit_log import AuditEntry
from headrace.testing.postgres import PrivatePostgres
from headrace.testing.queue_audit_log import check_items

SETTINGS = {
    "lease": consumer.LEASE_MS / 1000,
    "max_attempts": -1,
    "max_crashes": 3,
    "reject_delay": 0,
}
ALL = 1_000_000


def await_silence(postgres: PrivatePostgres) -> None:
    """Wait until the server no longer works for dead clients."""
    busy = (
        "select pid from pg_stat_activity where backend_type = 'client backend'"
        " and state <> 'idle' and pid <> pg_backend_pid()"
    )
    until(lambda: not postgres.execute(busy), "the end of what the dead have begun")


def check_queue(hr: Any, entries: Iterable[AuditEntry], queue: str = "q") -> QueueCounts:
    """The queue has the items that the audit logs imply, and its running counts are right."""
    sums = check_items(entries, items(hr, queue, *State))
    backlog = check_counts(hr, queue)
    counts = backlog.counts
    there = counts.planned + counts.pending + counts.active
    assert (counts.entered, there, counts.dead) == (sums.pushed, sums.waiting, sums.dead)
    # Shown when a test fails, and by -rP.
    sys.stdout.write(f"{sums}\n")
    return backlog


def items(hr: Any, queue: str, *states: State) -> list[Any]:
    return [item for state in states for item in run(hr, "queues.items", queue, state, 0, ALL)]


def check_counts(hr: Any, queue: str) -> QueueCounts:
    [running] = run(hr, "queues.counts", [queue], False)
    [computed] = run(hr, "queues.counts", [queue], True)
    assert running.counts == computed.counts
    backlog: QueueCounts = running
    return backlog
