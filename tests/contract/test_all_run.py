"""No driver leaves a part of the contract out."""

import importlib

import pytest

from headrace.testing.contract import CONTRACTS


@pytest.mark.parametrize("driver", ["memory", "sqlite", "postgres", "wire", "bare", "http"])
def test_every_contract_runs_on(driver: str) -> None:
    """A contract class that a driver's file forgets would be skipped in silence."""
    module = importlib.import_module(f"test_{driver}")
    run = {
        base
        for name, test in vars(module).items()
        if name.startswith("Test")
        for base in test.__mro__
    }
    assert set(CONTRACTS) <= run
