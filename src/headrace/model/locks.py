"""Locks: whose turn it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec


class LockState(msgspec.Struct, frozen=True, kw_only=True):
    """A lock: the number of its last grant, and who has it until when."""

    key_values: str
    fence: int = 0
    session: str | None = None
    holder: str | None = None
    since: int = 0
    until: int = 0


class Waiting(NamedTuple):
    """A place in the line before a lock, and until when it counts."""

    session: str
    until: int


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a session has a lock (``mine``), may take it now (``free``) or not yet (``taken``).

    ``next_at`` is when that changes by itself: a lease, or a place in line, ends.
    """

    state: Literal["mine", "free", "taken"]
    now: int
    next_at: int | None = None
    holder: str | None = None


def turn_of(lock: LockState | None, line: Sequence[Waiting], session: str, now: int) -> Turn:
    """What a session finds when it asks for a lock.

    Who came first goes first. A place that was not kept does not count, but is not given away
    either: if its owner comes back, it has it again.
    """
    if lock is not None and lock.session is not None:
        if lock.session == session:
            return Turn(state="mine", now=now)
        if lock.until > now:
            return Turn(state="taken", now=now, next_at=lock.until, holder=lock.holder)
    for place in line:
        if place.session == session:
            break
        if place.until > now:
            return Turn(state="taken", now=now, next_at=place.until)
    return Turn(state="free", now=now)


def wake_word(key_values: str) -> str:
    """What those who wait for a lock listen to."""
    return f"lock/{hashlib.blake2b(key_values.encode(), digest_size=16).hexdigest()}"
