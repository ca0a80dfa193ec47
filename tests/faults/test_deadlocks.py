"""Many sessions that need the same items, each in an order of its own."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest

import headrace
from faults.children import consumer
from faults.kill_loop import KILLS, SECONDS
from faults.queue_checks import SETTINGS, check_counts, items
from faults.queue_crash_cases import run
from headrace.contract.items import ClaimRequest, ItemFilter, Outcome, PushCall
from headrace.contract.limits import RuleRow
from headrace.errors import QueueFull, StoreBusy
from headrace.model.query.typed_values import ANY
from headrace.model.queues.items import Document, State
from headrace.testing.contract.limit_rules import pattern
from headrace.testing.postgres import PrivatePostgres

ROUNDS = KILLS // 12
SESSIONS = 8
LIVE = (State.PLANNED, State.PENDING, State.ACTIVE)
SUBJECTS = "abcdefgh"
# Deadlocks must occur, and are found soon.
FAST = "options=-c%20deadlock_timeout%3D10ms"

pytestmark = pytest.mark.timeout(60 + SECONDS)


def test_deadlocks_never_reach_a_caller(
    postgres: PrivatePostgres, postgres_url: str, rng: random.Random
) -> None:
    """Sessions push, upsert, claim, settle, move and purge the same items, in any order.

    All succeed in the end. In a transaction of several operations a deadlock is ``StoreBusy``:
    nothing was written, and the owner of the transaction starts it again.
    """
    before = deadlocks(postgres)
    url = f"{postgres_url}&{FAST}"
    seeds = [rng.getrandbits(32) for _ in range(SESSIONS)]
    with headrace.connect(url) as hr:
        run(hr, "queues.create", "q", {**SETTINGS, "while_active": "next", "dead_to": ["r"]}, True)
        run(hr, "queues.create", "r", {**SETTINGS, "keep": "all"}, True)
        with ThreadPoolExecutor(len(seeds)) as threads:
            sessions = [threads.submit(jostle, url, seed) for seed in seeds]
            done = sum((session.result(SECONDS) for session in sessions), Counter())
        assert all(done[act.__name__] for act in ACTS), done
        assert deadlocks(postgres) > before, "nobody was in anybody's way"
        for queue in ("q", "r"):
            check_counts(hr, queue)
            subjects = [item.subject for item in items(hr, queue, *LIVE) if item.subject]
            assert sorted(subjects) == sorted(set(subjects))


def test_upserts_and_claims_under_a_limit_do_not_deadlock(
    postgres: PrivatePostgres, postgres_url: str, rng: random.Random
) -> None:
    """They meet the same subjects, channels and counters in different orders, and wait for each
    other: a deadlock, which PostgreSQL takes a second to find, is rare."""
    before = deadlocks(postgres)
    rule = RuleRow(id="os", key_values=pattern(os=ANY), limit=4, queue="q", on="enqueued")

    def collide(seed: int) -> int:
        own = random.Random(seed)
        refused = 0
        with headrace.connect(postgres_url) as hr:
            for _ in range(ROUNDS):
                docs = [
                    headrace.Doc(
                        1,
                        subject=own.choice(SUBJECTS[:5]),
                        channel={"os": own.choice(SUBJECTS[:3])},
                    )
                    for _ in range(own.randint(1, 5))
                ]
                try:
                    hr.upsert_many("q", docs)
                except QueueFull:
                    refused += 1
                for item in hr.queue("q").claim(own.randint(1, 3)):
                    item.complete()
        return refused

    with headrace.connect(postgres_url) as hr:
        run(hr, "queues.create", "q", SETTINGS, True)
        # Their creation is not what this is about.
        run(hr, "limits.create", [rule])
        hr.push_many("q", [headrace.Doc(0, channel={"os": name}) for name in SUBJECTS[:3]])
        seeds = [rng.getrandbits(32) for _ in range(SESSIONS)]
        with ThreadPoolExecutor(len(seeds)) as threads:
            list(threads.map(collide, seeds))
        check_counts(hr, "q")
        live = Counter(item.key_values for item in items(hr, "q", *LIVE))
        usages = run(hr, "limits.usage", "os", 0)
        assert {usage.key_values: usage.used for usage in usages if usage.used} == live
    assert deadlocks(postgres) - before <= 2


def deadlocks(postgres: PrivatePostgres) -> int:
    """The number of deadlocks that the server has found."""
    [(count,)] = postgres.execute(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    return count


class Session:
    """A session that collides with others, at random."""

    def __init__(self, hr: headrace.Headrace, url: str, seed: int) -> None:
        self.hr = hr
        self.rng = random.Random(seed)
        self.url = url.partition("?")[0] + f"?{FAST}"
        self.seed = seed
        self.claims = 0

    def queues(self) -> list[str]:
        return self.rng.sample("qr", 2)

    def push_call(self, queue: str) -> PushCall:
        """Some subjects that others use too, in no particular order."""
        documents = tuple(
            Document(payload="1", subject=subject) for subject in self.rng.sample(SUBJECTS, 4)
        )
        return PushCall(queue=queue, documents=documents, mode=self.rng.choice(["push", "upsert"]))


def push(one: Session) -> None:
    run(one.hr, "queues.push", [one.push_call(queue) for queue in one.queues()])


def work(one: Session) -> None:
    """Claim, and settle in a different order, with pushes to both queues."""
    [queue, _] = one.queues()
    one.claims += 1
    token = f"{one.seed}-{one.claims}"
    request = ClaimRequest(queue=queue, token=token, count=4, lease_ms=60_000)
    claimed = list(run(one.hr, "queues.claim", request).items)
    one.rng.shuffle(claimed)
    said = [
        Outcome(
            item=item.id,
            token=token,
            kind=one.rng.choice(consumer.KINDS),
            delay_ms=0,
            pushes=tuple(one.push_call(queue) for queue in one.queues()),
        )
        for item in claimed
    ]
    assert all(answer.state != "lost" for answer in run(one.hr, "queues.settle", queue, said))


def move(one: Session) -> None:
    """Move dead letters from one queue to the other."""
    [queue, other] = one.queues()
    run(one.hr, "queues.redrive", queue, ItemFilter(), other, 4)


def purge(one: Session) -> None:
    [queue, _] = one.queues()
    run(one.hr, "queues.purge_dead", queue, ItemFilter(), 1)


def tend(one: Session) -> None:
    [queue, _] = one.queues()
    run(one.hr, "queues.maintain", queue, 10)


def transact(one: Session) -> None:
    """Both queues in a transaction of the client."""
    _persist(one, one.hr.transaction)


def use(one: Session) -> None:
    """Both queues in a transaction of the user."""

    @contextmanager
    def using() -> Any:
        with psycopg.connect(one.url) as connection, connection.transaction():
            yield one.hr.using(connection)

    _persist(one, using)


def _persist(one: Session, begin: Callable[[], AbstractContextManager[Any]]) -> None:
    while True:
        try:
            with begin() as tx:
                for queue in one.queues():
                    for subject in one.rng.sample(SUBJECTS, 3):
                        tx.upsert(queue, 1, subject=subject)
            return
        except StoreBusy:
            continue


ACTS: tuple[Callable[[Session], None], ...] = (push, work, move, purge, tend, transact, use)


def jostle(url: str, seed: int) -> Counter[str]:
    """Run random operations. Return how often each ran."""
    done: Counter[str] = Counter()
    with headrace.connect(url) as hr:
        one = Session(hr, url, seed)
        for _ in range(ROUNDS):
            for act in one.rng.sample(ACTS, len(ACTS)):
                act(one)
                done[act.__name__] += 1
    return done
