"""Processes killed at random moments, compared with their audit logs afterwards."""

import random

import pytest

import headrace
from faults.children import worker
from faults.kill_loop import SECONDS, storm
from faults.polling import until
from faults.processes import ChildProcesses
from headrace.testing.audit_log import AuditEntry, check_claims, check_commits

TOPICS = ["left", "right"]
PROCS = ["one", "two"]

pytestmark = pytest.mark.timeout(60 + SECONDS)


def test_killed_committers_lose_and_duplicate_nothing(
    durable_url: str, processes: ChildProcesses, rng: random.Random
) -> None:
    """Every acknowledged commit is stored once and completely. Otherwise only commits that were
    begun are."""
    places = [{"url": durable_url, "topics": TOPICS}] * 4
    entries = storm(processes, rng, ["committer"] * len(places), places)
    with headrace.connect(durable_url) as hr:
        # Waits for any COMMIT on which the server still works for a dead client.
        hr.commit([(topic, {"call": "last", "place": n}) for n, topic in enumerate(TOPICS)])
        found = {topic: hr.range(topic) for topic in TOPICS}
    check_commits([*entries, AuditEntry(name="last", intent={"topics": TOPICS})], found)


@pytest.mark.parametrize("mode", ["ack", "ack_commit"])
def test_killed_workers_skip_and_repeat_nothing(
    durable_url: str, processes: ChildProcesses, rng: random.Random, mode: worker.Mode
) -> None:
    """Everything is delivered in order, again only if it was not acked, and forwarded exactly
    once."""
    with headrace.connect(durable_url) as hr:
        procs = [worker.make(hr, name, "source") for name in PROCS]
        places = [{"url": durable_url, "proc": name, "mode": mode} for name in PROCS * 2]
        entries = storm(processes, rng, ["worker"] * len(places), places)
        hr.commit("source", {})
        for proc in procs:
            # The last killed worker may have a claim in flight, which expires.
            claim = until(proc.claim, f"a claim of {proc.name}")
            mine = [entry for entry in entries if entry.intent["proc"] == proc.name]
            check_claims(mine, claim[0].seq)
            if mode == "ack_commit":
                worker.check_passed_on(hr.range(worker.target(proc.name)), claim[0].seq, mine)
