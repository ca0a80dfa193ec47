"""Processes killed at random moments, joined with their ledgers afterwards."""

import random

import pytest

import headrace
from faults.children import worker
from faults.crew import Crew
from faults.storms import SECONDS, storm
from faults.waiting import until
from headrace.testing.ledger import Entry, check_claims, check_commits

TOPICS = ["left", "right"]
PROCS = ["one", "two"]

pytestmark = pytest.mark.timeout(60 + SECONDS)


def test_killed_committers_lose_and_double_nothing(
    durable_url: str, crew: Crew, rng: random.Random
) -> None:
    """Every acknowledged commit is there once and whole; no other but those begun."""
    places = [{"url": durable_url, "topics": TOPICS}] * 4
    entries = storm(crew, rng, ["committer"] * len(places), places)
    with headrace.connect(durable_url) as hr:
        # Waits for any COMMIT that a server still works on for a client that is dead.
        hr.commit([(topic, {"call": "last", "place": n}) for n, topic in enumerate(TOPICS)])
        found = {topic: hr.range(topic) for topic in TOPICS}
    check_commits([*entries, Entry(name="last", intent={"topics": TOPICS})], found)


@pytest.mark.parametrize("mode", ["ack", "ack_commit"])
def test_killed_workers_skip_and_repeat_nothing(
    durable_url: str, crew: Crew, rng: random.Random, mode: worker.Mode
) -> None:
    """All is handed out in order, again only if not acked, and passed on exactly once."""
    with headrace.connect(durable_url) as hr:
        procs = [worker.make(hr, name, "source") for name in PROCS]
        places = [{"url": durable_url, "proc": name, "mode": mode} for name in PROCS * 2]
        entries = storm(crew, rng, ["worker"] * len(places), places)
        hr.commit("source", {})
        for proc in procs:
            # The last of the dead may have a claim out; it runs out.
            claim = until(proc.claim, f"a claim of {proc.name}")
            mine = [entry for entry in entries if entry.intent["proc"] == proc.name]
            check_claims(mine, claim[0].seq)
            if mode == "ack_commit":
                worker.check_passed_on(hr.range(worker.target(proc.name)), claim[0].seq, mine)
