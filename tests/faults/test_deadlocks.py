"""Many sessions that want the same items, each in an order of its own."""

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
from faults.queue_checks import SETTINGS, check_counts, items
from faults.queue_scenes import run
from faults.storms import KILLS, SECONDS
from headrace.contract.items import Filter, Outcome, PushCall, Take
from headrace.errors import StoreBusy
from headrace.model.items import Document, State
from headrace.testing.postgres import PrivatePostgres

ROUNDS = KILLS // 12
SESSIONS = 8
LIVE = (State.PLANNED, State.PENDING, State.ACTIVE)
SUBJECTS = "abcdefgh"
# Deadlocks are found soon, and found they must be.
FAST = "options=-c%20deadlock_timeout%3D10ms"

pytestmark = pytest.mark.timeout(60 + SECONDS)


def test_deadlocks_never_reach_a_caller(
    postgres: PrivatePostgres, postgres_url: str, rng: random.Random
) -> None:
    """Sessions push, upsert, claim, settle, move and purge what others do, in any order.

    All succeed in the end. In a transaction of several operations a deadlock is ``StoreBusy``:
    nothing was written, and whoever owns the transaction begins it again.
    """
    before = deadlocks(postgres)
    url = f"{postgres_url}&{FAST}"
    seeds = [rng.getrandbits(32) for _ in range(SESSIONS)]
    with headrace.connect(url) as hr:
        run(hr, "create_queue", "q", {**SETTINGS, "while_active": "next", "dead_to": ["r"]}, True)
        run(hr, "create_queue", "r", {**SETTINGS, "keep": "all"}, True)
        with ThreadPoolExecutor(len(seeds)) as threads:
            sessions = [threads.submit(jostle, url, seed) for seed in seeds]
            done = sum((session.result(SECONDS) for session in sessions), Counter())
        assert all(done[act.__name__] for act in ACTS), done
        assert deadlocks(postgres) > before, "nobody was in anybody's way"
        for queue in ("q", "r"):
            check_counts(hr, queue)
            subjects = [item.subject for item in items(hr, queue, *LIVE) if item.subject]
            assert sorted(subjects) == sorted(set(subjects))


def deadlocks(postgres: PrivatePostgres) -> int:
    """How many the server has found."""
    [(count,)] = postgres.execute(
        "select deadlocks from pg_stat_database where datname = current_database()"
    )
    return count


class Session:
    """One who gets in the way of others, at random."""

    def __init__(self, hr: headrace.Headrace, url: str, seed: int) -> None:
        self.hr = hr
        self.rng = random.Random(seed)
        self.url = url.partition("?")[0] + f"?{FAST}"
        self.seed = seed
        self.claims = 0

    def queues(self) -> list[str]:
        return self.rng.sample("qr", 2)

    def push_call(self, queue: str) -> PushCall:
        """Some subjects that others have too, in no particular order."""
        documents = tuple(
            Document(payload="1", subject=subject) for subject in self.rng.sample(SUBJECTS, 4)
        )
        return PushCall(queue=queue, documents=documents, mode=self.rng.choice(["push", "upsert"]))


def push(one: Session) -> None:
    run(one.hr, "push", [one.push_call(queue) for queue in one.queues()])


def work(one: Session) -> None:
    """Claim, and settle in another order, with pushes to both queues."""
    [queue, _] = one.queues()
    one.claims += 1
    token = f"{one.seed}-{one.claims}"
    take = Take(queue=queue, token=token, count=4, lease_ms=60_000)
    taken = list(run(one.hr, "claim_items", take).items)
    one.rng.shuffle(taken)
    said = [
        Outcome(
            item=item.id,
            token=token,
            kind=one.rng.choice(consumer.KINDS),
            delay_ms=0,
            pushes=tuple(one.push_call(queue) for queue in one.queues()),
        )
        for item in taken
    ]
    assert all(answer.state != "lost" for answer in run(one.hr, "settle", queue, said))


def move(one: Session) -> None:
    """Dead letters from one queue to the other."""
    [queue, other] = one.queues()
    run(one.hr, "redrive", queue, Filter(), other, 4)


def purge(one: Session) -> None:
    [queue, _] = one.queues()
    run(one.hr, "purge_dead", queue, Filter(), 1)


def tend(one: Session) -> None:
    [queue, _] = one.queues()
    run(one.hr, "tend_queue", queue, 10)


def transact(one: Session) -> None:
    """Both queues in a transaction of the client's."""
    _persist(one, one.hr.transaction)


def use(one: Session) -> None:
    """Both queues in a transaction of the user's own."""

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
    """Do this and that; how often each."""
    done: Counter[str] = Counter()
    with headrace.connect(url) as hr:
        one = Session(hr, url, seed)
        for _ in range(ROUNDS):
            for act in one.rng.sample(ACTS, len(ACTS)):
                act(one)
                done[act.__name__] += 1
    return done
