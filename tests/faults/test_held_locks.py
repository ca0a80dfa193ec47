"""Statements that wait for a lock for longer than their caller waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

import headrace
from faults.answer_log import acts
from faults.crash_case import opened
from faults.polling import until
from headrace.errors import OutcomeUnknown, StoreError
from headrace.testing import sync_facade
from headrace.testing.pgbouncer import PrivatePgBouncer
from headrace.testing.postgres import PrivatePostgres

PATIENCE = 0.2
CALLS = 6


@pytest.fixture(params=["direct", "pooled"])
def url(
    postgres: PrivatePostgres, postgres_url: str, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The URL of a store, directly or through a pooler."""
    if request.param == "direct":
        yield postgres_url
        return
    with PrivatePgBouncer(postgres, sessions=CALLS) as pooler:
        yield postgres_url.replace(postgres.url, pooler.url)


@contextmanager
def locked(url: str, *tables: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        for table in tables:
            connection.execute(f"lock table {table} in access exclusive mode".encode())
        yield


@pytest.fixture
def waiting(postgres: PrivatePostgres, postgres_url: str) -> Callable[[], int]:
    """The number of server processes that wait for a lock on the tables of this test."""
    query = (
        "select count(*) from pg_stat_activity "
        "where wait_event_type = 'Lock' and position(%s in query) > 0"
    )
    schema = postgres_url.rpartition("=")[2]
    return lambda: postgres.execute(query, schema)[0][0]


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_statement_that_was_given_up_ends_at_the_server(
    postgres: PrivatePostgres,
    postgres_url: str,
    url: str,
    mode: sync_facade.ClientMode,
    waiting: Callable[[], int],
) -> None:
    """It neither keeps waiting nor runs later, when the lock is free."""
    with headrace.connect(postgres_url) as calm, ExitStack() as stack:
        calm.queues.create("q")
        calm.commit([("one", {"name": "first"}), ("two", {"name": "first"})])
        # A client for each call, since an async one belongs to one thread.
        clients = [stack.enter_context(opened(mode, url, patience=PATIENCE)) for _ in range(CALLS)]
        kinds = [acts(hr)[-number] for number, hr in enumerate(clients)]
        schema = postgres_url.rpartition("=")[2]

        def call(number: int) -> None:
            with pytest.raises((StoreError, OutcomeUnknown)):
                kinds[number](f"call {number}")

        with (
            locked(postgres.url, f"{schema}.item", f"{schema}.batch"),
            ThreadPoolExecutor(CALLS) as threads,
        ):
            done = [threads.submit(call, number) for number in range(CALLS)]
            until(lambda: waiting() == CALLS, "all calls to wait for the lock")
            for each in done:
                each.result(30)
            until(lambda: waiting() == 0, "the end of their statements")
        assert calm.queue("q").stats().pending == 0
        assert [record.body["name"] for record in calm.range("one")] == ["first"]
