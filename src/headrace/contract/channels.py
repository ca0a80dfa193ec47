"""Channels inside queues: what every driver implements. See ``contract.queues``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from headrace.contract.flags import reads, writes
from headrace.contract.items import ChannelRow, Deleted, SelectionRow
from headrace.contract.op import Op


class ChannelStore(Protocol):
    """Lines inside a queue, each named by key-values.

    A channel exists while it has live items. The first item that is pushed with its key-values
    (``Document.key_values``, in their form) makes it; the end of its last item removes it. The
    first item ever pushed to any channel of a queue increments the version of the queue's
    settings, since claims run by channel from then on.

    An item keeps its channel until it has ended, and has it again when it is made live again.
    An upsert replaces the channel like the rest. An item that moves to another channel goes
    behind all items in line there. Copies and moves to other queues go to the channel of the
    same name.

    **Turns.** A channel has turns while it has items in line. Its turns begin when its first item
    joins the line, behind all other channels, and end when the last has left. A claim with
    ``select`` and the order ``fair`` claims up to ``quantum`` items of each selected channel, in
    the order of turns, and within a channel in the queue's order. If that is fewer than the claim
    asked for, the channels that have more share the rest evenly, in as many rounds as it needs.
    The channels that gave items then go behind all others, in the order in which they gave. So no
    channel has to wait until another is empty, however many items that has.

    The order ``line`` is the queue's own, as if there were no channels, without the items of
    channels that are not selected. A claim without ``select`` claims the next items in the
    queue's line, in a channel or not. A claim with ``select`` never claims an item in no channel.

    **Newer content.** A document without a subject that is pushed to a channel replaces the
    content of the last item in its line, if that item has no subject and its own overrides have
    ``updateable=True``; the document's overrides do not matter. Its note is ``updated``. The
    document replaces everything, as an upsert does, and attempts and crashes are zero again. A
    document that is not due yet becomes an item of its own. An item that is in flight, planned,
    or not the last in line is never changed.

    An item without a subject that fails, by ``reject`` or by a lease that ran out, and would
    wait again, is dropped if a newer item in its channel replaces it::

        retry_position   the line is empty   the line has items
        front            it comes back       dropped if it is itself updateable
        back, or None    it comes back       dropped if the last in line is updateable

    The answer is ``dropped``, ``dropped`` is counted beside the failure, and
    ``keep_superseded`` gets the payload.

    **Strict channels.** Where the queue is ``serial``, at most one item of a channel is in flight,
    across all claims and in either order. No item of the channel is claimed while one of its items
    is in flight, or waits for its time with its place kept (a rejected item with
    ``retry_position`` ``front``). In a queue that is not ``serial``, the order within a channel is
    that of first claims. Items in no channel are not affected. When an item of a strict channel
    is settled, waiters for the queue are notified.

    **Delays.** No claim, in either order, claims an item of a delayed channel before the delay
    ends. Items in flight can be settled. A delay belongs to the key-values: it applies to items
    that are pushed later, and it outlives the deletion of the channel. The channel keeps its
    turn. ``ClaimResponse.next_due`` reports the end of the queue's earliest delay.
    """

    @writes()
    def register_selection(self, queue: str, select: str) -> Op[None]:
        """Remember a query (its form) that claims will select by.

        Claims get the same items with it, but need not evaluate the query for every waiting
        channel. A selection is forgotten a day after it was last registered. If a queue has more
        than 64, the one that was registered the longest ago is forgotten sooner. The version of
        the queue's settings grows when a selection is new, or forgotten. A query that selects
        every channel is not remembered, since it needs no evaluation.
        """
        ...

    @writes()
    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        """Forget a selection; returns whether there was one."""
        ...

    @reads
    def selections(self, queue: str) -> Op[builtins.list[SelectionRow]]:
        """The registered queries, by form in code point order."""
        ...

    @reads
    def list(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[builtins.list[ChannelRow]]:
        """Channels that a query (its form) selects, or all, by form in code point order, after
        ``after``."""
        ...

    @writes()
    def delete(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        """Remove all live items of up to ``limit`` channels that a query selects, or of any.

        Items in flight are removed like the others. An outcome of one of them is answered
        ``gone`` for a day, and ``lost`` after that. The subjects of the removed items are free
        again. Kept rows of ended items stay.
        """
        ...

    @writes(repeatable=True)
    def delay(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        """Delay a channel: no claim on its items before ``until``, or for ``for_ms`` from now.

        Returns the end of the delay; of two delays, the later end counts. With neither argument
        the delay ends, None is returned, and waiters for the queue are notified. The channel need
        not have items. ``UnknownQueue`` if there is no queue.
        """
        ...

    @reads
    def delayed_until(self, queue: str, key_values: str) -> Op[int | None]:
        """The end of a channel's delay; None if it is not, or no longer, delayed."""
        ...

    @reads
    def deleted_items(self, queue: str, token: str, items: Sequence[int]) -> Op[builtins.list[int]]:
        """Which of the items that were claimed with this token were deleted with their channel."""
        ...
