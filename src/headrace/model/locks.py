"""Locks: which session may acquire one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from headrace.model.tokens import claim_token

# The length of a session's prefix that identifies its client.
CLIENT_CHARS = 12


class LockState(msgspec.Struct, frozen=True, kw_only=True):
    """A lock: the number of its last grant, the session that holds it, and its lease."""

    key_values: str
    fence: int = 0
    session: str | None = None
    holder: str | None = None
    since: int = 0
    until: int = 0


class Waiting(NamedTuple):
    """A waiter for a lock, and until when its place in line counts."""

    session: str
    until: int


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a session holds a lock (``mine``), may acquire it (``free``) or not yet (``taken``).

    ``next_at`` is when the answer changes with time: the end of a lease, or of a place in line.
    ``ahead`` is the waiter that may acquire the lock before this session.
    """

    state: Literal["mine", "free", "taken"]
    now: int
    next_at: int | None = None
    holder: str | None = None
    ahead: str | None = None


def turn_of(lock: LockState | None, line: Sequence[Waiting], session: str, now: int) -> Turn:
    """Whether a session may acquire a lock now.

    Waiters go in the order in which they came. A place in line that was not kept alive does not
    count, but it is not removed: if its session returns, the place counts again.
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
            return Turn(state="taken", now=now, next_at=place.until, ahead=place.session)
    return Turn(state="free", now=now)


def next_in_line(line: Sequence[Waiting], now: int) -> str | None:
    """The session that is next when a lock is released."""
    return next((place.session for place in line if place.until > now), None)


def lock_session(client: str) -> str:
    """A new session of a client for one grant of a lock."""
    return client + claim_token()


def wake_word(key_values: str, session: str) -> str:
    """The notification for the waiters of one client for a lock."""
    name = hashlib.blake2b(key_values.encode(), digest_size=16).hexdigest()
    client = hashlib.blake2b(session[:CLIENT_CHARS].encode(), digest_size=8).hexdigest()
    return f"lock/{name}/{client}"
