"""Processes that share the sessions of a PgBouncer in transaction mode, killed at random
moments."""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

import headrace
from faults.kill_loop import KILLS, SECONDS, storm
from faults.polling import until
from faults.processes import ChildProcesses
from faults.queue_checks import SETTINGS, await_silence, check_queue
from faults.queue_crash_cases import run
from headrace.testing.audit_log import AuditEntry, check_commits
from headrace.testing.pgbouncer import PrivatePgBouncer
from headrace.testing.postgres import PrivatePostgres

TOPICS = ["left", "right"]
POOLER_SECONDS = float(os.environ.get("HEADRACE_POOLER_SECONDS", "0"))
"""How long clients that nobody kills work at least."""
ENOUGH_LINES = 40
"""In each of their ledgers: by then every statement would have been prepared."""

pytestmark = pytest.mark.timeout(60 + SECONDS + POOLER_SECONDS)


@pytest.fixture
def pooled_url(postgres: PrivatePostgres, postgres_url: str) -> Iterator[str]:
    """Fewer sessions than processes, so that they change hands all the time."""
    with headrace.connect(postgres_url) as hr:
        # A transaction creates a topic in a second session, and there may be none left.
        hr.commit([(topic, {"call": "first", "place": n}) for n, topic in enumerate(TOPICS)])
    with PrivatePgBouncer(postgres, sessions=3) as pooler:
        yield postgres_url.replace(postgres.url, pooler.url)


def check(url: str, entries: list[AuditEntry]) -> None:
    """Compare the audit logs with the topics."""
    with headrace.connect(url) as hr:
        # Waits for any COMMIT on which the server still works for a dead client.
        hr.commit([(topic, {"call": "last", "place": n}) for n, topic in enumerate(TOPICS)])
        found = {topic: hr.range(topic) for topic in TOPICS}
    ours = [AuditEntry(name=name, intent={"topics": TOPICS}) for name in ("first", "last")]
    check_commits([*entries, *ours], found)
    acknowledged = sum(entry.outcome is not None for entry in entries)
    # Shown by -rP.
    sys.stdout.write(f"{acknowledged} acknowledged transactions and commits\n")


def test_clients_that_live_long(
    pooled_url: str, postgres_url: str, processes: ChildProcesses
) -> None:
    """Blocking and async clients share the sessions, and none gets an error."""
    place = {"url": pooled_url, "topics": TOPICS}
    children = [processes.start("transactor", **place) for _ in range(3)]
    children += [processes.start("transactor", **place, tasks=3) for _ in range(2)]
    children += [processes.start("committer", **place) for _ in range(2)]
    end = time.monotonic() + POOLER_SECONDS

    def is_enough() -> bool:
        # Fails if one has ended.
        for child in children:
            child.is_at_work()
        return time.monotonic() > end and all(child.lines() > ENOUGH_LINES for child in children)

    until(is_enough, "a long life", seconds=60 + POOLER_SECONDS)
    for child in children:
        child.kill()
    check(postgres_url, processes.entries())


def test_transactions_and_commits_through_a_pooler(
    pooled_url: str, postgres_url: str, processes: ChildProcesses, rng: random.Random
) -> None:
    """Every acknowledged transaction is stored once and completely. None that was rolled back
    is."""
    victims = ["transactor"] * 4 + ["committer"] * 2
    places = [{"url": pooled_url, "topics": TOPICS}] * len(victims)
    entries = storm(processes, rng, victims, places, kills=KILLS // 3)
    check(postgres_url, entries)


def test_queues_through_a_pooler(
    pooled_url: str,
    postgres_url: str,
    postgres: PrivatePostgres,
    processes: ChildProcesses,
    rng: random.Random,
) -> None:
    """Each document is pending, done or dead: once, and as the audit logs imply."""
    with headrace.connect(postgres_url) as hr:
        run(hr, "queues.create", "q", {**SETTINGS, "keep": "none"}, True)
    victims = ["producer", "producer", "consumer", "consumer", "random_worker"]
    places = [{"url": pooled_url, "queue": "q"}] * len(victims)
    entries = storm(processes, rng, victims, places, kills=KILLS // 3)
    await_silence(postgres)
    with headrace.connect(postgres_url) as hr:
        check_queue(hr, entries)
