"""Servers and settings that all tests share."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headrace.testing.postgres import PrivatePostgres

settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("default")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    """One private server for the whole run; a missing one is a failure, never a skip."""
    with PrivatePostgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PrivatePostgres) -> Iterator[str]:
    """A schema of its own for each test."""
    schema = f"t{os.getpid()}_{next(_numbers)}"
    yield f"{postgres.url}?schema={schema}"
    postgres.execute(f"drop schema if exists {schema} cascade")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file of its own for each test."""
    return f"sqlite:///{tmp_path}/flow.db"


@pytest.fixture
def memory_url() -> str:
    """A named store, so that several clients of one test can share it."""
    return f"memory://t{next(_numbers)}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Every driver in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def durable_url(request: pytest.FixtureRequest) -> str:
    """Every driver that other processes can use, in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))
