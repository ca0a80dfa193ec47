"""Named locks: what every driver implements. See ``contract.store``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.model.locks import Turn

LOCK_KEPT_MS = 3600 * 1000
"""How long a lock without a holder and without waiters is remembered."""


class LockCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a lock.

    ``session`` is 128 random bits of the caller's own, and the only proof of ownership later.
    With ``place_ms`` a caller that does not get the lock gets a place in line for that long;
    without it, none. ``holder`` describes the caller to people.
    """

    key_values: str
    session: str
    lease_ms: int
    place_ms: int | None = None
    holder: str | None = None


class LockAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``granted`` with the number of the grant and the end of the lease; else see ``Turn``."""

    state: Literal["granted", "taken"]
    now: int
    fence: int = 0
    until: int = 0
    next_at: int | None = None
    holder: str | None = None


class LockRow(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that has a holder or waiters. Its session stays secret.

    ``holder`` is None between two holders; ``waiting`` counts the places in line that are valid.
    """

    key_values: str
    fence: int
    holder: str | None = None
    since: int = 0
    until: int = 0
    waiting: int = 0
    now: int = 0


class LockStore(Protocol):
    """Exclusive locks, each named by key-values (in their form).

    Exactly the same key-values are the same lock; any others are another lock. At most one session
    holds a lock. Every grant has a **fencing number**, higher than those of all earlier grants of
    this lock. That holds for ever: after releases, crashes and restarts, and when the lock was
    forgotten meanwhile. A grant is flushed before it is answered, whatever the durability of the
    store.

    A lease ends by a write, never by the clock alone. When its time is over, the next session that
    asks may acquire the lock. Until one does, the first session still holds it.
    """

    @writes(repeatable=True)
    def acquire(self, call: LockCall) -> Op[LockAnswer]:
        """Acquire a lock, if no session holds it and no earlier session waits for it.

        Else the answer is ``taken``. With ``place_ms`` the session then has a place in line: the
        place that it has already, or a new one behind all others. A place that is not kept in
        time (``locks.renew_places``) does not count, so that no session waits for a dead one. If
        its session returns before ``locks.forget`` removes the place, it has the same place
        again. Without ``place_ms`` the session's place is removed.

        A session that holds the lock gets the same answer again; its lease is not extended.
        """
        ...

    @writes(repeatable=True)
    def renew_places(self, sessions: Sequence[str], place_ms: int) -> Op[builtins.list[str]]:
        """Keep places in line for ``place_ms`` from now; returns the sessions that have one.

        Relaxed.
        """
        ...

    @reads
    def turn(self, key_values: str, session: str) -> Op[Turn]:
        """Whether it is worth asking for a lock now. Changes nothing."""
        ...

    @writes(repeatable=True)
    def extend(self, key_values: str, session: str, lease_ms: int) -> Op[int]:
        """Extend a lock's lease to ``lease_ms`` from now; returns the new end.

        ``LockLost`` if the session no longer holds the lock. A lease that is over can be extended,
        unless another session has acquired the lock.
        """
        ...

    @writes()
    def release(self, key_values: str, session: str) -> Op[bool]:
        """Release a lock, and any place in line; returns whether the session held the lock.

        The session whose turn it is now is notified: ``wake_word(key_values, session)``.
        """
        ...

    @writes()
    def guard(self, key_values: str, session: str) -> Op[int]:
        """The number of the session's grant; ``LockLost`` if it no longer holds the lock.

        In a transaction no other session gets the lock before the transaction ends, so the holder
        wrote everything that the transaction writes. The lease can be extended meanwhile.
        """
        ...

    @writes()
    def force_release(self, key_values: str, fence: int | None) -> Op[LockRow]:
        """Release a lock on behalf of its holder, which then finds it lost; returns the old row.

        ``UnknownLock`` if no session holds it, or if ``fence`` is given and is not the number of
        the grant. Notifies as ``locks.release`` does.
        """
        ...

    @reads
    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[LockRow]]:
        """Locks with a holder or waiters that a query (its form) selects, or all of them; by form
        in code point order, after ``after``."""
        ...

    @writes()
    def forget(self, age_ms: int, limit: int) -> Op[int]:
        """Forget up to ``limit`` locks that had no holder and no waiter for ``age_ms``; how many.

        Their fencing numbers continue where they were. Leases and places that ended that long ago
        count as released.
        """
        ...
