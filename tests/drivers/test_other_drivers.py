"""A driver of another distribution: found by its entry point, judged by the contract."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import InvalidOption, InvalidUrl, UnsupportedStore
from headrace.testing import contract

MODULE = """
from headrace.drivers.memory.store import MemoryStore

OPENED = []


class ToyStore(MemoryStore):
    name = "toy"


def open_toy(url, options):
    OPENED.append((url, options))
    return ToyStore(url.location, patience=options.patience, clock=options.clock)
"""
ENTRY_POINTS = """
[headrace.drivers]
toy = toy_driver:open_toy
broken = toy_driver:missing
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with a driver, as pip would install it."""
    (tmp_path / "toy_driver.py").write_text(MODULE)
    info = tmp_path / "toy_driver-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-driver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("toy_driver", None)


def test_a_scheme_opens_the_driver_of_its_entry_point() -> None:
    with headrace.connect("toy://here?colour=red", durability="relaxed", patience=7) as hr:
        hr.push("mail", 1)
        assert repr(hr) == "<Headrace on toy, ready>"
    [(url, options)] = sys.modules["toy_driver"].OPENED
    assert (url.scheme, url.location, url.options) == ("toy", "here", {"colour": "red"})
    assert (options.is_safe, options.migrate, options.patience) == (False, "create", 7)


def test_what_every_driver_refuses() -> None:
    with pytest.raises(InvalidOption):
        headrace.connect("toy://here", migrate="later")
    with pytest.raises(InvalidUrl, match="no driver for 'toys'"):
        headrace.connect("toys://here")


def test_a_driver_that_cannot_be_loaded_says_so() -> None:
    with pytest.raises(UnsupportedStore, match="toy_driver:missing"):
        headrace.connect("broken://here")


class TestCommit(contract.CommitContract):
    """The public suite judges the driver through its URL."""

    @pytest.fixture
    def store_url(self) -> str:
        # The store is one of memory, whose names are known to all tests of this process.
        return f"toy://{uuid.uuid4()}"
