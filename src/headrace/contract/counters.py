"""Counters of user code: what every driver implements. See ``contract.limits``."""

from __future__ import annotations

import builtins
from typing import Literal, Protocol

import msgspec

from headrace.contract.flags import reads, writes
from headrace.contract.limits import Usage
from headrace.contract.op import Op

NO_QUEUE = ""
"""The queue of counters that belong to no queue; no queue has this name."""


class CounterCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request for ``count`` slots under some key-values (in their form).

    ``session`` is 128 random bits of the caller's own, and the only proof of ownership later.
    ``holder`` describes the caller to people. ``waits`` says that the caller waits for free slots.
    """

    key_values: str
    session: str
    count: int
    lease_ms: int
    holder: str | None = None
    waits: bool = False


class CounterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``granted`` until a time, or ``full``: then ``refusal`` is the first limit that is reached.

    ``next_at`` is when the next lease of a counter ends, or a rate has capacity again. If that
    time has passed, ``counters.end`` may free slots.
    """

    state: Literal["granted", "full"]
    now: int
    until: int = 0
    refusal: Usage | None = None
    next_at: int | None = None


class CounterRow(msgspec.Struct, frozen=True, kw_only=True):
    """The count of some key-values, and how many holders it has; a count that was set has none."""

    key_values: str
    count: int
    holders: int


class CounterAddition(msgspec.Struct, frozen=True, kw_only=True):
    """The count that was set, after an addition; unchanged with the ``refusal`` of a limit."""

    count: int
    refusal: Usage | None = None


class CounterStore(Protocol):
    """Slots that user code holds beside running items, under the same rules.

    A slot counts like a running item in a channel with its key-values, in no queue. The rules
    about ``running`` items of all queues together apply to it, and the rates, with their
    overrides. It adds to the same counters. The check and the count are one transaction, as with
    items, so no mix of callers exceeds a limit. A rule that changes counts all existing slots.

    A holder has a lease. A write ends it, never the clock alone: ``counters.end``, run by
    maintenance or by a caller that needs free slots, such as a claim on a limited queue. Until
    then the slots count, and the lease can be extended.
    """

    @writes(repeatable=True)
    def acquire(self, call: CounterCall) -> Op[CounterAnswer]:
        """Acquire ``count`` slots, if every limit has capacity for all of them; else none.

        A session that holds slots already gets the same answer again. A caller that ``waits`` and
        is answered ``full`` is notified by ``FREE_SLOTS`` when there may be free slots.
        """
        ...

    @writes(repeatable=True)
    def extend(self, session: str, lease_ms: int) -> Op[int]:
        """Extend a session's lease to ``lease_ms`` from now; returns the new end.

        ``SlotsLost`` if the session no longer holds slots.
        """
        ...

    @writes()
    def release(self, session: str) -> Op[bool]:
        """Release a session's slots; returns whether it held any.

        Notifies the waiters for those slots.
        """
        ...

    @writes()
    def set(self, key_values: str, count: int) -> Op[int]:
        """Set the count of some key-values, without a lease and regardless of rules.

        Replaces the count that was set before, and returns that. 0 removes it. Notifies as
        ``counters.release`` does.
        """
        ...

    @writes()
    def add(self, key_values: str, count: int) -> Op[CounterAddition]:
        """Add to the count that was set, if every limit has capacity for all of it; else nothing.

        The check is that of ``counters.acquire``, and rates count what is added. A negative
        ``count`` subtracts, regardless of rules, and at most what was set. It notifies as
        ``counters.release`` does.
        """
        ...

    @reads
    def list(self, select: str | None, after: str, limit: int) -> Op[builtins.list[CounterRow]]:
        """The counts of the key-values that a query (its form) selects, or of all; by form in
        code point order, after ``after``."""
        ...

    @writes()
    def end(self, limit: int) -> Op[int]:
        """Release the slots of up to ``limit`` holders whose lease is over; returns how many."""
        ...


FREE_SLOTS = "queue/*"
"""The notification for callers that wait for free slots, and not for items."""
