"""Counters of user code: what every driver implements. See ``contract.limits``."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from headrace.contract.limits import Usage
from headrace.contract.op import Op

NO_QUEUE = ""
"""The queue of what is counted without one; no queue has this name."""


class CounterCall(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants to count so many more of some key-values (in their form).

    ``session`` is 128 random bits of the caller's own, and the only proof of ownership later.
    ``holder`` is who asks, for people. ``waits`` says that the caller listens for room.
    """

    key_values: str
    session: str
    count: int
    lease_ms: int
    holder: str | None = None
    waits: bool = False


class CounterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``granted`` until a time, or ``full``: then ``refusal`` is the first limit without room.

    ``next_at`` is when the next lease of a counter ends, or a rate has room: if it has passed,
    ``end_counters`` may make room.
    """

    state: Literal["granted", "full"]
    now: int
    until: int = 0
    refusal: Usage | None = None
    next_at: int | None = None


class CounterRow(msgspec.Struct, frozen=True, kw_only=True):
    """How much is counted of some key-values, and by how many holders; what was set has none."""

    key_values: str
    count: int
    holders: int


class CounterStore(Protocol):
    """What user code counts beside running items, under the same rules.

    A counter is like a running item in a channel with its key-values, in no queue: the rules about
    ``running`` items of all queues together apply to it, rates too, with their overrides, and it
    counts in the same totals. It is checked and counted in one transaction, as items are: a limit
    is never exceeded, whoever asks. Rules that change count all counters that are there.

    A holder has a lease. It ends by a write (``end_counters``, by maintenance or by whoever needs
    the room, claims on limited queues among them), never by the clock alone: until then it counts,
    and can be extended.
    """

    def acquire_counter(self, call: CounterCall) -> Op[CounterAnswer]:
        """Count so many more, if all limits have room for all of them; else nothing is counted.

        A session that holds something already gets the same answer again. Who ``waits`` and finds
        no room is woken by ``ROOM`` when there may be some.
        """
        ...

    def extend_counter(self, session: str, lease_ms: int) -> Op[int]:
        """Keep what a session holds for so long from now; returns the new end. ``SlotsLost`` if
        it holds nothing any more."""
        ...

    def give_back(self, session: str) -> Op[bool]:
        """Count what a session holds no longer; whether it held anything.

        Wakes whoever waits for the room.
        """
        ...

    def set_counter(self, key_values: str, count: int) -> Op[int]:
        """Count so many of some key-values, whatever the rules say and without a lease, in place
        of what was set before; returns that. 0 removes it. Wakes as ``give_back`` does."""
        ...

    def counters(self, select: str | None, after: str, limit: int) -> Op[list[CounterRow]]:
        """What is counted, by key-values that a query (its form) selects, or all; by form in code
        point order, after ``after``."""
        ...

    def end_counters(self, limit: int) -> Op[int]:
        """Give back what up to ``limit`` holders have whose lease is over; how many there were."""
        ...


ROOM = "queue/*"
"""What those listen to who wait for room in totals, and not for items."""
