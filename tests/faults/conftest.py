"""Children, chance, and a server that may be stopped."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.crew import Crew
from faults.proxy import Proxy
from headrace.testing.postgres import FOR_TESTS, PrivatePostgres


@pytest.fixture
def postgres_url(new_postgres_url: str) -> str:
    """A schema that nobody had before: sessions of killed processes live on for a moment."""
    return new_postgres_url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file on a disk, where writes take their time."""
    return f"sqlite:///{tmp_path}/flow.db"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Processes that are gone when the test is over."""
    crew = Crew(tmp_path)
    yield crew
    crew.close()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Chance that the seed of the run decides."""
    return random.Random(request.config.getoption("randomly_seed", 0))


@pytest.fixture(scope="module")
def _fragile() -> Iterator[PrivatePostgres]:
    # Nothing but a synchronous commit brings the log to the disk: what is relaxed gets lost.
    with PrivatePostgres({**FOR_TESTS, "autovacuum": "off", "wal_writer_delay": "10s"}) as server:
        yield server


@pytest.fixture
def fragile(_fragile: PrivatePostgres) -> Iterator[PrivatePostgres]:
    """A server of these tests' own, to be stopped and restarted at will; empty again after."""
    yield _fragile
    _fragile.restart(immediately=True)
    _fragile.execute("drop schema if exists headrace cascade")


@pytest.fixture
def proxy(postgres: PrivatePostgres) -> Iterator[Proxy]:
    """A line to the server of all tests, that breaks where it is told to."""
    with Proxy(postgres.port) as proxy:
        yield proxy
