"""Channels that are held, under several sessions, in every order their steps can have."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import headrace
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import check_counts, queue

EVERY = Query().form
A = KeyValues.of({"name": "a"}).form
B = KeyValues.of({"name": "b"}).form


@pytest.mark.parametrize("options", [{"select": EVERY}, {"select": EVERY, "order": "line"}, {}])
def test_what_comes_back_with_a_hold_is_not_handed_out(stage, options):
    """Whoever sees it in line sees the hold; other channels are not held up."""
    stepper, (worker, claimer) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.push(doc(0, key_values=A), doc(1, key_values=B))
        [item] = q.claim(1)
        return (
            lambda: queue(worker, number).settle(item, "release", hold_ms=60_000),
            lambda: queue(claimer, number).take(5, **options),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert [payload(item) for item in run.results[1].items] == [1], run
        q = queue(stage.client, run.number)
        taking = q.take(5, **options)
        assert (taking.state, taking.next_due is None) == ("empty", False), run
        check_counts(q)


def test_a_hold_that_comes_while_a_claim_is_under_way(postgres_url):
    """A claim on PostgreSQL is one statement, but not one moment: what it has seen of holds when
    it begins may be old when it has its items."""
    address, _, schema = postgres_url.partition("?schema=")
    clock = FakeClock()
    with (
        headrace.connect(postgres_url, clock=clock) as worker,
        headrace.connect(postgres_url, clock=clock) as claimer,
        psycopg.connect(address) as other,
    ):
        q = queue(worker, 1)
        q.push(doc(0, key_values=A), doc(1, key_values=B, delay=1000))
        [item] = q.claim(1)
        clock.advance(1)
        # It looks at holds, and then lets what is due stand in line, where we make it wait.
        other.execute(f"select from {schema}.channel where key_values = %s for update", (B,))
        with ThreadPoolExecutor(1) as threads:
            claiming = threads.submit(queue(claimer, 1).take, 5, select=EVERY)
            _wait_for_who_waits(address, other)
            q.settle(item, "release", hold_ms=60_000)
            other.rollback()
            taking = claiming.result(30)
        assert [payload(item) for item in taking.items] == [1]
        check_counts(q)


def _wait_for_who_waits(address: str, holder: psycopg.Connection) -> None:
    """Until somebody waits for a lock of this connection."""
    give_up = time.monotonic() + 30
    with psycopg.connect(address, autocommit=True) as watcher:
        while not watcher.execute(
            "select from pg_stat_activity where %s = any(pg_blocking_pids(pid))",
            (holder.info.backend_pid,),
        ).fetchall():
            assert time.monotonic() < give_up, "nobody waits"
            time.sleep(0.01)
