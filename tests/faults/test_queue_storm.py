"""Producers and workers of queues, killed or stopped."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from faults.children import consumer, producer
from faults.kill_loop import SECONDS, storm
from faults.polling import until
from faults.processes import Child, ChildProcesses
from faults.queue_checks import SETTINGS, await_silence, check_counts, check_queue, items
from faults.queue_crash_cases import run
from headrace.errors import StoreBusy
from headrace.model.queues.items import ItemState, State
from headrace.testing.audit_log import AuditLog
from headrace.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.timeout(60 + SECONDS)


@pytest.mark.parametrize("keep", ["none", "all"])
def test_killed_producers_and_consumers_lose_and_duplicate_nothing(
    durable_url: str,
    postgres: PrivatePostgres,
    processes: ChildProcesses,
    rng: random.Random,
    keep: str,
) -> None:
    """Each document is pending, done or dead: once, and as the audit logs imply."""
    with headrace.connect(durable_url) as hr:
        run(hr, "queues.create", "q", {**SETTINGS, "keep": keep}, True)
    victims = ["producer", "producer", "consumer", "consumer", "random_worker", "random_worker"]
    places = [{"url": durable_url, "queue": "q"}] * len(victims)
    entries = storm(processes, rng, victims, places)
    await_silence(postgres)
    with headrace.connect(durable_url) as hr:
        check_queue(hr, entries)


@pytest.mark.parametrize("way", ["claim", "worker"])
@pytest.mark.parametrize("kind", ["complete", "reject"])
def test_zombie_finds_its_claim_lost(
    durable_url: str, processes: ChildProcesses, tmp_path: Path, kind: str, way: str
) -> None:
    """A process that was stopped beyond its lease is refused, and nothing of it is written.

    A client without a worker gets ``ItemLost``. A worker reports that its item is lost. The
    process that took the item over decides its outcome, before or after.
    """
    word = tmp_path / "word"
    with headrace.connect(durable_url, patience=1) as hr:
        store = hr._store
        run(hr, "queues.create", "q", {**SETTINGS, "keep": "all", "lease": 0.5}, True)
        with AuditLog(tmp_path / "mine.ledger") as log:
            producer.push(store, log, "one", "q", 0)
            child = processes.start(
                "zombie", url=durable_url, queue="q", word=str(word), kind=kind, way=way
            )
            until(child.is_at_work, "a claim")
            claimed = stop_and_claim_again(child, store)
            assert [(item.attempts, item.crashes) for item in claimed] == [(2, 1)]
            if kind == "reject":
                assert consumer.settle(store, log, "two", claimed, "complete") == ["completed"]
            word.touch()
            child.process.send_signal(signal.SIGCONT)
            child.await_end()
            [entry] = child.entries()
            assert entry.outcome == {"refused": "item_lost", "extended": 0}
            if kind == "complete":
                assert consumer.settle(store, log, "two", claimed, "complete") == ["completed"]
        assert [info.name for info in run(hr, "queues.list", "", "", 10)] == ["q"]
        [ended] = items(hr, "q", *State)
        assert (ended.cause, ended.item.iterations) == ("completed", 1)
        assert check_counts(hr, "q").counts.processed == 1


def stop_and_claim_again(child: Child, store: Any) -> list[ItemState]:
    """Stop a child until its lease has expired and this process has its item."""

    def claim_again() -> list[ItemState]:
        try:
            return until(lambda: consumer.claim(store, "q", 1, 60_000), "the end of its lease", 5)
        except (AssertionError, StoreBusy):
            # Stopped in the middle of a transaction that holds locks.
            child.process.send_signal(signal.SIGCONT)
            time.sleep(random.random() / 100)
            child.process.send_signal(signal.SIGSTOP)
            return []

    child.process.send_signal(signal.SIGSTOP)
    return until(claim_again, "an item that is not locked")
