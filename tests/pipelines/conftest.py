"""The two engines, and a store with a client."""

from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from headrace import Headrace


@pytest.fixture(params=["inline", "spark"])
def on(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options that run a pipeline, on each engine in turn."""
    if request.param == "inline":
        return {"engine": "inline"}
    return {"engine": "spark", "spark": request.getfixturevalue("spark")}


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[Headrace]:
    with headrace.connect(sqlite_url) as client:
        yield client
