"""The counters of user code in a memory store."""

from __future__ import annotations

from typing import NamedTuple


class CounterState(NamedTuple):
    """What a session has counted; without an end if it was set."""

    key_values: str
    number: int
    until: int | None
    holder: str | None
    since: int
