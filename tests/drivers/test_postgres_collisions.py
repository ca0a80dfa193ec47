"""Transactions that collide on PostgreSQL."""

import threading

import psycopg
import pytest
from psycopg import errors as pg

import headrace
from headrace.drivers.postgres.advisory_locks import AdvisoryLock
from headrace.testing.postgres import PrivatePostgres

TIMEOUT = 20
LINE = f"{AdvisoryLock.COLLIDED:d}, 0"
"""The lock that transactions wait for after a collision."""


def test_collisions_are_retried_and_never_shown(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    """Our side loses a deadlock with a foreign transaction, and is repeated."""
    hr.commit([("a", {}), ("b", {})])
    attempts: list[int] = []
    unsubscribe = headrace.telemetry.subscribe(lambda event: attempts.append(event.attempts))
    with psycopg.connect(postgres.url) as other:
        other.execute("set deadlock_timeout = '10s'")
        other.execute(f"select 1 from {schema}.topic where name = 'b' for update".encode())
        thread = threading.Thread(target=lambda: hr.commit([("a", {}), ("b", {})]))
        thread.start()
        for _ in range(500):
            rows = postgres.execute("select 1 from pg_stat_activity where wait_event_type = 'Lock'")
            if rows:
                break
            threading.Event().wait(0.01)
        # Now the commit holds a and waits for b. Locking a closes the circle.
        other.execute(f"select 1 from {schema}.topic where name = 'a' for update".encode())
        other.rollback()
        thread.join(20)
    unsubscribe()
    assert (hr.topic("a").length(), hr.topic("b").length()) == (2, 2)
    assert max(attempts) > 1


@pytest.mark.parametrize("verb", ["push", "upsert"])
def test_operations_that_collided_run_one_at_a_time(
    hr: headrace.Headrace, postgres: PrivatePostgres, postgres_url: str, verb: str
) -> None:
    """Otherwise large operations might collide for ever. Other operations do not wait."""
    queue = hr.queue("q")
    queue.push(1)
    collisions = iter(["the first attempt"])

    def collide(operation: str, point: int | str) -> None:
        if operation == "queues.push" and next(collisions, None):
            raise pg.DeadlockDetected("deadlock detected")

    act = threading.Thread(target=lambda: getattr(queue, verb)(2, subject="a"))
    with psycopg.connect(postgres.url) as first:
        first.execute(f"select pg_advisory_xact_lock({LINE})".encode())
        hr._store.probe = collide
        act.start()
        waiting = (
            f"select 1 from pg_locks where {first.info.backend_pid} = any(pg_blocking_pids(pid))"
        )
        for _ in range(TIMEOUT * 100):
            if postgres.execute(waiting):
                break
            act.join(0.01)
        else:
            pytest.fail("did not stand in line")
        with headrace.connect(postgres_url) as other:
            other.queue("q").push(3)
        assert len(list(queue.items())) == 2
    act.join(TIMEOUT)
    assert len(list(queue.items())) == 3
