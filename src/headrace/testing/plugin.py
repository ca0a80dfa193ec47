"""Fixtures for pytest, available as soon as headrace is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.testing.fixtures import Rehearsal


@pytest.fixture
def headrace_memory() -> Iterator[Rehearsal]:
    """A client in memory with a clock of its own, for tests: ``headrace.testing.fixtures``."""
    # Imported here: most tests of a project do not need it.
    from headrace.testing.fixtures import Rehearsal

    with Rehearsal() as client:
        yield client
