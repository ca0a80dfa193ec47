"""Fixtures that all contract classes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.testing.clocks import FakeClock
from headrace.testing.faces import FaceName, connect, shut

Connect = Callable[..., Any]


class Contract:
    """Gives each test an empty store, a clock that stands still, and a client ``hr``."""

    @pytest.fixture(params=["blocking", "async"])
    def face(self, request: pytest.FixtureRequest) -> FaceName:
        name: FaceName = request.param
        return name

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def connect(self, face: FaceName, store_url: str, clock: FakeClock) -> Iterator[Connect]:
        """Open one more client on the same store."""
        clients = []

        def open_client(**options: Any) -> Any:
            client = connect(face, store_url, **{"clock": clock, **options})
            clients.append(client)
            return client

        yield open_client
        for client in clients:
            shut(client)

    @pytest.fixture
    def hr(self, connect: Connect) -> Any:
        return connect()


def seqs(records: Any) -> list[int]:
    """The sequence numbers of records."""
    return [record.seq for record in records]


def bodies(records: Any) -> list[Any]:
    """The bodies of records."""
    return [record.body for record in records]


def fill(hr: Any, count: int, topic: str = "t") -> list[str]:
    """Commit ``count`` numbered records in one call."""
    ids: list[str] = hr.commit_many(topic, [{"n": n} for n in range(count)])
    return ids
