"""Delayed channels under several sessions, in every order their steps can have."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import headrace
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import check_counts, queue

EVERY = Query().form
A = KeyValues.of({"name": "a"}).form
B = KeyValues.of({"name": "b"}).form


@pytest.mark.parametrize("options", [{"select": EVERY}, {"select": EVERY, "order": "line"}, {}])
def test_an_item_returned_with_a_delay_is_not_claimed(stepped, options):
    """A session that sees the item in line also sees the delay. Other channels are not delayed."""
    stepper, (worker, claimer) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc(0, key_values=A), doc(1, key_values=B))
        [item] = q.claim(1)
        return (
            lambda: queue(worker, number).settle(item, "release", channel_delay_ms=60_000),
            lambda: queue(claimer, number).claim_response(5, **options),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert [payload(item) for item in run.results[1].items] == [1], run
        q = queue(stepped.client, run.number)
        response = q.claim_response(5, **options)
        assert (response.state, response.next_due is None) == ("empty", False), run
        check_counts(q)


def test_a_delay_set_during_a_claim(postgres_url):
    """A claim on PostgreSQL is one statement but not one moment: the delays that it has read may be
    outdated when it has its items."""
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
        # It reads the delays, and then puts due items in line, where the test makes it wait.
        other.execute(f"select from {schema}.channel where key_values = %s for update", (B,))
        with ThreadPoolExecutor(1) as threads:
            claiming = threads.submit(queue(claimer, 1).claim_response, 5, select=EVERY)
            _wait_for_blocked_session(address, other)
            q.settle(item, "release", channel_delay_ms=60_000)
            other.rollback()
            response = claiming.result(30)
        assert [payload(item) for item in response.items] == [1]
        check_counts(q)


def _wait_for_blocked_session(address: str, holder: psycopg.Connection) -> None:
    """Until a session waits for a lock of this connection."""
    give_up = time.monotonic() + 30
    with psycopg.connect(address, autocommit=True) as watcher:
        while not watcher.execute(
            "select from pg_stat_activity where %s = any(pg_blocking_pids(pid))",
            (holder.info.backend_pid,),
        ).fetchall():
            assert time.monotonic() < give_up, "nobody waits"
            time.sleep(0.01)
