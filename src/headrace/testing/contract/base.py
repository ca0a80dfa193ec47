"""Fixtures that all contract classes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import pytest

from headrace.contract.values import Capabilities
from headrace.testing.clocks import FakeClock
from headrace.testing.sync_facade import ClientMode, connect, shut

Connect = Callable[..., Any]


Test = TypeVar("Test", bound=Callable[..., None])


def needs(*parts: str) -> Callable[[Test], Test]:
    """Mark a test that needs parts of the store beyond topics, procs and queues, or
    ``transactions``."""

    def mark(test: Test) -> Test:
        test.needed_parts = frozenset(parts)  # type: ignore[attr-defined]  # read by ``Contract.connect``
        return test

    return mark


class Contract:
    """Gives each test an empty store, a clock that stands still, and a client ``hr``.

    ``needed_parts`` names the parts of the store beyond topics, procs and queues that all tests of a
    class use, or ``transactions``. On a driver that lacks one of them these tests are expected
    failures.
    """

    needed_parts: ClassVar[frozenset[str]] = frozenset()

    @pytest.fixture(params=["blocking", "async"])
    def mode(self, request: pytest.FixtureRequest) -> ClientMode:
        name: ClientMode = request.param
        return name

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def client_options(self, clock: FakeClock) -> dict[str, Any]:
        """How clients are opened. Override it where the clock belongs elsewhere."""
        return {"clock": clock}

    @pytest.fixture
    def connect(
        self,
        request: pytest.FixtureRequest,
        mode: ClientMode,
        store_url: str,
        client_options: dict[str, Any],
    ) -> Iterator[Connect]:
        """Open one more client on the same store."""
        clients = []
        needed = self.needed_parts | getattr(request.function, "needed_parts", frozenset())

        def open_client(**options: Any) -> Any:
            client = connect(mode, store_url, **{**client_options, **options})
            clients.append(client)
            missing = needed - _offered(client.capabilities)
            if missing:
                pytest.xfail(f"the driver has no {', '.join(sorted(missing))}")
            return client

        yield open_client
        for client in clients:
            shut(client)

    @pytest.fixture
    def hr(self, connect: Connect) -> Any:
        return connect()


def _offered(capabilities: Capabilities) -> frozenset[str]:
    own = {"transactions"} if capabilities.supports_transactions else set()
    return capabilities.parts | own


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
