"""Fixtures of the tests of single drivers."""

from collections.abc import Iterator

import pytest

import headrace


@pytest.fixture
def hr(postgres_url: str) -> Iterator[headrace.Headrace]:
    """A client on PostgreSQL, unless a module has another."""
    with headrace.connect(postgres_url) as client:
        yield client


@pytest.fixture
def schema(postgres_url: str) -> str:
    return postgres_url.rpartition("=")[2]
