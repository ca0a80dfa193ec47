"""Clients of compat modules, in blocking and in async code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from async_facade import Blocking, Kinds, LoopThread

from headrace.compat._async import fetchq
from headrace.compat.fetchq import FetchQ
from headrace.testing.clocks import FakeClock


@pytest.fixture(params=["blocking", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    """The loop of all async objects of a test."""
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def kinds(mode: str, loop: LoopThread, clock: FakeClock) -> Iterator[Kinds]:
    kinds = Kinds(mode, loop, clock)
    yield kinds
    kinds.close()


@pytest.fixture
def new_fetchq(mode: str, loop: LoopThread) -> Iterator[Callable[[], Any]]:
    """Make clients of FetchQ that are not connected yet."""
    made: list[Any] = []

    def make() -> Any:
        if mode == "async":
            client: Any = Blocking(fetchq.AsyncFetchQ(), loop)
        else:
            client = FetchQ()
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()
