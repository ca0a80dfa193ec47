"""Fixtures for pytest, there as soon as headrace is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.testing.rehearsing import Rehearsal


@pytest.fixture
def headrace_memory() -> Iterator[Rehearsal]:
    """A client in memory with a clock of its own, for tests: ``headrace.testing.rehearsing``."""
    # Imported here: most tests of a project do without.
    from headrace.testing.rehearsing import Rehearsal

    with Rehearsal() as client:
        yield client
