"""Waiting for a condition."""

import os
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0


def until(
    condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = PATIENCE
) -> Any:
    """Wait for a condition to hold and return its value, or fail with a description."""
    give_up = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            awaited = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds:g} s in vain for {awaited}")
        time.sleep(0.002)


def orphanhood() -> Callable[[], bool]:
    """A function that says whether the parent of this process is gone."""
    parent = os.getppid()
    return lambda: os.getppid() != parent
