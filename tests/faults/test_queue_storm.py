"""Producers and workers of queues, killed or stopped."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from faults.children import consumer, producer
from faults.crew import Child, Crew
from faults.queue_checks import SETTINGS, await_silence, check_counts, check_queue, items
from faults.queue_scenes import run
from faults.storms import SECONDS, storm
from faults.waiting import until
from headrace.errors import StoreBusy
from headrace.model.items import ItemState, State
from headrace.testing.ledger import Ledger
from headrace.testing.postgres import PrivatePostgres

pytestmark = pytest.mark.timeout(60 + SECONDS)


@pytest.mark.parametrize("keep", ["none", "all"])
def test_killed_producers_and_consumers_lose_and_double_nothing(
    durable_url: str, postgres: PrivatePostgres, crew: Crew, rng: random.Random, keep: str
) -> None:
    """What was pushed waits, is done or is dead: once each, and as its ledgers say."""
    with headrace.connect(durable_url) as hr:
        run(hr, "create_queue", "q", {**SETTINGS, "keep": keep}, True)
    victims = ["producer", "producer", "consumer", "consumer", "hand", "hand"]
    places = [{"url": durable_url, "queue": "q"}] * len(victims)
    entries = storm(crew, rng, victims, places)
    await_silence(postgres)
    with headrace.connect(durable_url) as hr:
        check_queue(hr, entries)


@pytest.mark.parametrize("way", ["claim", "worker"])
@pytest.mark.parametrize("kind", ["complete", "reject"])
def test_zombie_finds_its_claim_lost(
    durable_url: str, crew: Crew, tmp_path: Path, kind: str, way: str
) -> None:
    """Stopped past its lease and woken again, it is refused, and nothing of it is written.

    Whether it claims by itself, and gets ``ItemLost``, or is a worker, which is told that its
    item is lost. Who took the item over has the last word, before or after.
    """
    word = tmp_path / "word"
    with headrace.connect(durable_url, patience=1) as hr:
        store = hr._store
        run(hr, "create_queue", "q", {**SETTINGS, "keep": "all", "lock_duration": 0.5}, True)
        with Ledger(tmp_path / "mine.ledger") as book:
            producer.push(store, book, "one", "q", 0)
            child = crew.start(
                "zombie", url=durable_url, queue="q", word=str(word), kind=kind, way=way
            )
            until(child.is_at_work, "a claim")
            taken = stop_and_take_over(child, store)
            assert [(item.attempts, item.crashes) for item in taken] == [(2, 1)]
            if kind == "reject":
                assert consumer.settle(store, book, "two", taken, "complete") == ["completed"]
            word.touch()
            child.process.send_signal(signal.SIGCONT)
            child.await_end()
            [entry] = child.entries()
            assert entry.outcome == {"refused": "item_lost", "extended": 0}
            if kind == "complete":
                assert consumer.settle(store, book, "two", taken, "complete") == ["completed"]
        assert [info.name for info in run(hr, "queues", "", "", 10)] == ["q"]
        [ended] = items(hr, "q", *State)
        assert (ended.cause, ended.item.iterations) == ("completed", 1)
        assert check_counts(hr, "q").counts.processed == 1


def stop_and_take_over(child: Child, store: Any) -> list[ItemState]:
    """Stop a child until its lease is over and we have its item."""

    def take() -> list[ItemState]:
        try:
            return until(lambda: consumer.claim(store, "q", 1, 60_000), "the end of its lease", 5)
        except (AssertionError, StoreBusy):
            # Stopped in the middle of a transaction, with what that has locked.
            child.process.send_signal(signal.SIGCONT)
            time.sleep(random.random() / 100)
            child.process.send_signal(signal.SIGSTOP)
            return []

    child.process.send_signal(signal.SIGSTOP)
    return until(take, "an item that is not locked")
