"""Child processes, a seeded generator, and a server that may be stopped."""

import gc
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.processes import ChildProcesses
from faults.proxy import Proxy
from headrace.testing.postgres import FOR_TESTS, PrivatePostgres

_numbers = itertools.count()


@pytest.fixture
def postgres_url(new_postgres_url: str) -> str:
    """A schema that was never used before: sessions of killed processes live on for a moment."""
    return new_postgres_url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file on a real disk, where writes take their time."""
    return f"sqlite:///{tmp_path}/flow.db"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ChildProcesses]:
    """Child processes that end with the test."""
    processes = ChildProcesses(tmp_path)
    yield processes
    processes.close()


@pytest.fixture
def garbage_collected() -> Iterator[None]:
    """Collects what interrupts leave when the test is over, and not during a later test.

    Finalizers of interrupted calls may raise, which such tests ignore and others do not.
    """
    yield
    gc.collect()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """A random generator with the seed of the run."""
    return random.Random(request.config.getoption("randomly_seed", 0))


@pytest.fixture(scope="module")
def _fragile() -> Iterator[PrivatePostgres]:
    # Only a synchronous commit flushes the log: relaxed commits get lost.
    with PrivatePostgres({**FOR_TESTS, "autovacuum": "off", "wal_writer_delay": "10s"}) as server:
        yield server


@pytest.fixture
def fragile(_fragile: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """A server of these tests only, which they may stop and restart, with a new database for each
    test: what a test left unfinished goes on for a moment after it."""
    name = f"test_{next(_numbers)}"
    _fragile.execute(f"create database {name}")
    _fragile.database = name
    yield _fragile
    _fragile.database = "postgres"
    _fragile.restart(immediately=True)


@pytest.fixture
def proxy(postgres: PrivatePostgres) -> Iterator[Proxy]:
    """A connection to the shared server that breaks on demand."""
    with Proxy(postgres.port) as proxy:
        yield proxy
