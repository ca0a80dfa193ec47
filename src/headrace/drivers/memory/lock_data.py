"""The locks in a memory store."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.locks import LockState, Waiting


@dataclass
class LockData:
    """All locks, the waiters for each in order, and the floor of grant numbers under one name."""

    states: dict[str, LockState] = field(default_factory=dict)
    lines: dict[str, tuple[Waiting, ...]] = field(default_factory=dict)
    floor: dict[str, int] = field(default_factory=lambda: {"": 0})
