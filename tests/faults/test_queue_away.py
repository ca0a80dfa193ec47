"""Queues on a PostgreSQL server that crashes, is restarted, and drops its clients."""

import os
import random
from pathlib import Path

from msgspec.structs import replace

import headrace
from faults.children import consumer, producer
from faults.crew import Crew
from faults.load import await_progress, drop_clients, load
from faults.queue_checks import SETTINGS, await_silence, check_queue
from faults.queue_scenes import claim, ids, push, run
from faults.waiting import until
from headrace.contract.items import Take
from headrace.model.items import Document, State
from headrace.testing.ledger import read
from headrace.testing.postgres import PrivatePostgres

ONE = Document(payload="1")
MANY = 20_000
# Ten seconds are what is asked of it, and what ``make soak`` allows; among all other tests a
# busy machine has pauses of its own.
SOON = 10.0 if "HEADRACE_KILLS" in os.environ else 30.0
"""Seconds after which everybody works again."""


def test_end_of_a_lease_survives_a_crash_of_the_server(fragile: PrivatePostgres) -> None:
    """A claim need not be on the disk, but a dead item that it found must not come back."""
    with headrace.connect(fragile.url) as hr:
        run(hr, "create_queue", "q", {"max_crashes": 1}, True)
        [poison, other] = push(hr, "q", ONE, ONE)
        assert claim(hr, "q", "first", 1, lease_ms=0) == [poison]
        assert claim(hr, "q", "second", 2) == [other]
        fragile.restart(immediately=True)
        assert ids(hr, "q", State.DEAD) == [poison]
        assert poison not in ids(hr, "q", State.PENDING, State.ACTIVE)


def test_loose_claim_that_a_crash_has_undone_cannot_be_secured(fragile: PrivatePostgres) -> None:
    """The server is back, and knows nothing of it: the room is free again, and whoever began with
    the item now would run beside the limit. What was secured before is counted still."""
    with headrace.connect(fragile.url) as hr:
        hr.create_limit(None, 1, name="one")
        item = int(push(hr, "q", ONE)[0])
        loosely = Take(queue="q", token="first", count=1, may_be_loose=True)
        assert run(hr, "claim_items", loosely).is_loose
        fragile.restart(immediately=True)
        assert not run(hr, "secure_claim", "q", "first", item)
        assert run(hr, "claim_items", replace(loosely, token="second")).is_loose
        assert run(hr, "secure_claim", "q", "second", item)
        fragile.restart(immediately=True)
        assert run(hr, "secure_claim", "q", "second", item)
        assert [usage.used for usage in hr.limit_usage("one")] == [1]


def test_loose_claim_that_a_crash_has_undone_is_not_secured_by_others(
    fragile: PrivatePostgres,
) -> None:
    """What is brought to the disk of the server that is back does not bring it there."""
    with headrace.connect(fragile.url) as hr:
        hr.create_limit(None, 2)
        push(hr, "q", ONE)
        loosely = Take(queue="q", token="first", count=1, may_be_loose=True)
        assert run(hr, "claim_items", loosely).is_loose
        fragile.restart(immediately=True)
        [item] = claim(hr, "q", "second", 1)
        assert run(hr, "secure_claim", "q", "second", int(item))
        assert not hr._store.is_secured("first")


def test_work_on_queues_goes_on_when_the_server_is_back(
    fragile: PrivatePostgres, crew: Crew, tmp_path: Path, rng: random.Random
) -> None:
    """Within seconds; no caller notices, and nothing is lost or done twice."""
    faults = [
        lambda: fragile.restart(immediately=True),
        lambda: fragile.restart(immediately=False),
        lambda: drop_clients(fragile, rng),
    ]
    rng.shuffle(faults)
    with headrace.connect(fragile.url) as hr, load(tmp_path) as work:
        store = hr._store
        run(hr, "create_queue", "q", SETTINGS, True)
        for n in range(3):
            work.start(
                f"pusher{n}",
                lambda book, n=n: producer.run(store, book, f"pusher{n}", "q", work.is_over),
            )
            work.start(
                f"worker{n}",
                lambda book, n=n: consumer.run(store, book, f"worker{n}", "q", work.is_over),
            )
        crew.start("producer", url=fragile.url, queue="q")
        crew.start("consumer", url=fragile.url, queue="q")
        crew.start("hand", url=fragile.url, queue="q")
        await_progress(work, crew.children)
        for fault in faults:
            fault()
            await_progress(work, crew.children, seconds=SOON)
        work.stop()
        assert work.complaints() == []
        for child in crew.children:
            child.kill()
        await_silence(fragile)
        check_queue(hr, [*read(work.ledgers.values()), *crew.entries()])


def test_work_under_limits_goes_on_when_the_server_is_back(fragile: PrivatePostgres) -> None:
    """Handlers are quick, so that claims come before they are on the disk: what a crash takes
    away is handled by another claim, and every slot is free in the end."""
    seen: list[int] = []
    with headrace.connect(fragile.url) as hr:
        hr.create_limit(None, 1000, name="all")
        queue = hr.queue("q")
        queue.push_many(range(MANY), channel={"os": "linux"})
        worker = hr.register_worker("q", lambda item: seen.append(item.payload), chunk=20)
        for part in (1, 2):
            until(lambda part=part: len(seen) > part * MANY // 4, "work")
            fragile.restart(immediately=True)
        until(lambda: set(seen) == set(range(MANY)), "all items")
        until(lambda: hr.compute_stats("q")[0].active == 0, "the end of all claims")
        worker.stop()
        assert [usage.used for usage in hr.limit_usage("all")] in ([], [0])
        assert hr.compute_stats("q")[0].pending == 0
