"""A worker environment for each test, on each store with queues."""

from collections.abc import Iterator

import pytest
from served_store import Claims, Clock
from worker_fixtures import WorkerEnv

from headrace.worker import claim_ahead, prefetch

STORES = ["memory", "sqlite", "postgres"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def env(url: str) -> Iterator[WorkerEnv]:
    env = WorkerEnv(url)
    yield env
    env.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (claim_ahead, prefetch):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def claims(env: WorkerEnv, clock: Clock) -> Claims:
    return Claims(env, clock)
