"""What a memory store holds of locks."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.locks import LockState, Waiting


@dataclass
class LockData:
    """All locks, who waits for each, in order, and the floor of numbers under its one name."""

    states: dict[str, LockState] = field(default_factory=dict)
    lines: dict[str, tuple[Waiting, ...]] = field(default_factory=dict)
    floor: dict[str, int] = field(default_factory=lambda: {"": 0})
