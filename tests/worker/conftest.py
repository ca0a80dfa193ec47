"""A workshop for each test, on each store that has queues."""

from collections.abc import Iterator

import pytest
from workshop import Shop

STORES = ["memory", "sqlite", "postgres"]


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def shop(url: str) -> Iterator[Shop]:
    shop = Shop(url)
    yield shop
    shop.close()
