"""Processes killed at random moments, joined with their ledgers afterwards."""

import random

import pytest

import headrace
from faults.children import worker
from faults.crew import Crew
from faults.waiting import until
from headrace.testing.ledger import Entry, check_claims, check_commits

KILLS = 40
TOPICS = ["left", "right"]
PROCS = ["one", "two"]


def test_killed_committers_lose_and_double_nothing(
    durable_url: str, crew: Crew, rng: random.Random
) -> None:
    """Every acknowledged commit is there once and whole; no other but those begun."""
    places = [{"url": durable_url, "topics": TOPICS}] * 4
    entries = storm(crew, rng, "committer", places)
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
        entries = storm(crew, rng, "worker", places)
        hr.commit("source", {})
        for proc in procs:
            # The last of the dead may have a claim out; it runs out.
            claim = until(proc.claim, f"a claim of {proc.name}")
            mine = [entry for entry in entries if entry.intent["proc"] == proc.name]
            check_claims(mine, claim[0].seq)
            if mode == "ack_commit":
                worker.check_passed_on(hr.range(worker.target(proc.name)), claim[0].seq, mine)


def storm(crew: Crew, rng: random.Random, program: str, places: list[dict]) -> list[Entry]:
    """What many processes had to say that were killed, one by one."""
    child = crew.start(
        "storm",
        seed=rng.getrandbits(32),
        kills=KILLS,
        victims=[program] * len(places),
        places=places,
    )
    child.await_end()
    entries = crew.entries()
    assert sum(entry.outcome is None for entry in entries) > 0, "no kill hit an operation"
    assert sum(entry.outcome is not None for entry in entries) > KILLS
    return entries
