"""Named locks: what every driver implements. See ``contract.store``."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from headrace.contract.op import Op
from headrace.model.locks import Turn

LOCK_KEPT_MS = 3600 * 1000
"""How long a lock that nobody has or wants is remembered."""


class LockCall(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks for a lock.

    ``session`` is 128 random bits of the caller's own, and the only proof of ownership later.
    With ``place_ms`` who does not get it gets a place in line, for so long; without, none.
    ``holder`` is who asks, for people.
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
    """A lock that somebody has, or waits for. Its session is nobody else's business.

    ``holder`` is None between two holders; ``waiting`` counts the places in line that stand.
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

    The very same key-values are the same lock; any others are another one. At most one session
    has a lock. Every grant has a **fencing number**, higher than those of all grants of this
    lock before, for ever: also after releases, crashes and restarts, and when the lock was
    forgotten meanwhile. A grant is on disk before it is answered, whatever the durability of
    the store.

    A lease ends by a write, never by the clock alone: when its time is over, the next one who
    asks may take the lock, and until somebody does the session still has it.
    """

    def acquire_lock(self, call: LockCall) -> Op[LockAnswer]:
        """Take a lock, if nobody has it and nobody who came before waits for it.

        Else it is ``taken``, and the session has a place in line with ``place_ms``: a new one
        behind all others, or the one it has. A place that is not kept (``keep_place``) in time
        does not count, so nobody waits for the dead; if its owner comes back before the lock
        goes to nobody, it has the same place again. Without ``place_ms`` a place is given up.

        A session that has the lock gets the same answer again; its lease is not extended.
        """
        ...

    def keep_place(self, session: str, place_ms: int) -> Op[bool]:
        """Keep a place in line for so long from now; False if there is none. Relaxed."""
        ...

    def lock_turn(self, key_values: str, session: str) -> Op[Turn]:
        """Whether it is worth asking for a lock now. Changes nothing."""
        ...

    def extend_lock(self, key_values: str, session: str, lease_ms: int) -> Op[int]:
        """Keep a lock for so long from now; returns the new end. ``LockLost`` if the session does
        not have it any more. Possible after the end of the lease, unless somebody took it."""
        ...

    def release_lock(self, key_values: str, session: str) -> Op[bool]:
        """Give a lock back, and any place in line; whether the session had the lock.

        Whoever waits for ``wake_word(key_values)`` is woken.
        """
        ...

    def guard_lock(self, key_values: str, session: str) -> Op[int]:
        """The number of the session's grant; ``LockLost`` if it does not have the lock any more.

        In a transaction nobody else gets the lock before its end: what is written there was
        written by the holder. Extending it goes on meanwhile.
        """
        ...

    def break_lock(self, key_values: str, fence: int | None) -> Op[LockRow]:
        """Take a lock away from whoever has it; what it was. Its holder finds it lost.

        ``UnknownLock`` if nobody has it, or has it by another number than ``fence``. Wakes as
        ``release_lock`` does.
        """
        ...

    def locks(self, select: str | None, after: str, limit: int) -> Op[list[LockRow]]:
        """Locks that somebody has or waits for and that a query (its form) selects, or all; by
        form in code point order, after ``after``."""
        ...

    def forget_locks(self, age_ms: int, limit: int) -> Op[int]:
        """Forget up to ``limit`` locks that nobody had or wanted for so long; how many.

        Their numbers go on where they were. Leases and places that ended so long ago count as
        given back.
        """
        ...
