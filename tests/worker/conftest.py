"""A workshop for each test, on each store that has queues."""

from collections.abc import Iterator

import pytest
from served import Claims, Clock
from workshop import Shop

from headrace.worker import claiming

STORES = ["memory", "sqlite", "postgres"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    shop = Shop(url)
    yield shop
    shop.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(claiming, "monotonic", clock)
    return clock


@pytest.fixture
def claims(shop: Shop, clock: Clock) -> Claims:
    return Claims(shop, clock)
