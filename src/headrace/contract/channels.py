"""Channels inside queues: what every driver implements. See ``contract.queues``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.contract.items import ChannelRow, Deleted, SelectionRow
from headrace.contract.op import Op


class ChannelStore(Protocol):
    """Lines inside a queue, each named by key-values.

    A channel is there while it has live items: the first item that is pushed with its
    key-values (``Document.key_values``, in their form) makes it, and with the last one it is
    gone. The first item ever pushed to a channel makes the version of the queue's settings grow,
    since claims go another way from then on.

    An item keeps its channel until it has ended, and has it again when it is made live again.
    An upsert replaces the channel like the rest; an item that goes to another one goes behind
    all that stand in line there. Copies and moves to other queues go to the channel of the same
    name.

    **Turns.** A channel takes its turns while something of it stands in line: from when the first
    item comes to stand there, behind all other channels, until the last has left. A claim with
    ``select`` and the order ``fair`` takes up to ``quantum`` items of each selected channel, the
    one whose turn it is first; within a channel in the queue's order. If all of them have given
    and it is not enough, those that have more share the rest alike, as often as it takes. Those
    that gave stand behind all others then, in the order in which they did. So no channel waits
    for the end of another, however long that is.

    The order ``line`` is the queue's own, as if there were no channels, without the items of
    channels that are not selected. A claim without ``select`` takes whatever is next in the
    queue's line, in a channel or not. One with ``select`` takes nothing that is in no channel.

    **Newer content.** A document without a subject that is pushed to a channel replaces what the
    last item in its line carries, if that has no subject and its own overrides say
    ``updateable=True``, whatever the document says: its note is ``updated``. Everything is
    replaced as by an upsert, and attempts and crashes are zero again; a document that is not due
    yet is an item of its own. What is out, planned, or not the last is never changed.

    An item without a subject that fails, by ``reject`` or by a lease that ran out, and would
    wait again, is dropped if something newer in its channel stands for it::

        retry_position   the line is empty   something is in line
        front            it comes back       dropped if it is itself updateable
        back             it comes back       dropped if the last in line is updateable

    The answer is ``dropped``, ``dropped`` is counted beside the failure, and
    ``keep_superseded`` gets the payload.

    **Strict channels.** Where the queue says ``serial``, a channel hands out one item at a time,
    whoever asks and in whatever order, and nothing while one of its items is out, or waits for
    its time with its place kept (a rejected item with ``retry_position`` ``front``). Otherwise
    the order within a channel is that of first claims. Items in no channel are not concerned.
    Whoever waits for the queue is woken when an item of a strict channel is settled.

    **Holds.** Nothing of a channel that is held is handed out before the end of the hold, whoever
    asks and in whatever order; what is out can be settled. A hold is about the key-values: it
    counts for what is pushed later, and if the channel is deleted meanwhile. The channel keeps
    its turn. ``Taking.next_due`` tells the end of the earliest hold of the queue.
    """

    def register_selection(self, queue: str, select: str) -> Op[None]:
        """Remember a query (its form) that claims will select by.

        What they get is the same, but they need not ask the query of every channel that waits.
        It is forgotten a day after it was last registered; or sooner, where a queue has more than
        64 and it is the one that was registered the longest ago. The version of the queue's
        settings grows when a selection is new, or forgotten. A query that selects every channel
        is not remembered, since nothing need be asked.
        """
        ...

    def forget_selection(self, queue: str, select: str) -> Op[bool]:
        """Forget a selection; whether there was one."""
        ...

    def selections(self, queue: str) -> Op[list[SelectionRow]]:
        """The queries that are registered, by form in code point order."""
        ...

    def channels(
        self, queue: str, select: str | None, after: str, limit: int
    ) -> Op[list[ChannelRow]]:
        """Channels that a query (its form) selects, or all, by form in code point order, after
        ``after``."""
        ...

    def delete_channels(self, queue: str, select: str | None, limit: int) -> Op[Deleted]:
        """Remove all live items of up to ``limit`` channels that a query selects, or of any.

        Items that are out are removed like the others; an outcome of theirs is answered ``gone``
        for a day, and ``lost`` after that. Their subjects are free again. What was kept of ended
        items stays.
        """
        ...

    def hold_channel(
        self, queue: str, key_values: str, until: int | None, for_ms: int | None
    ) -> Op[int | None]:
        """Hand out nothing of a channel before ``until``, or for ``for_ms`` from now.

        Returns the end of the hold: of two, the later one counts. With neither a hold is ended,
        None is returned, and whoever waits for the queue is woken. The channel need not have
        items. ``UnknownQueue`` if there is no queue.
        """
        ...

    def channel_hold(self, queue: str, key_values: str) -> Op[int | None]:
        """The end of a channel's hold; None if it is not held (any more)."""
        ...

    def gone_items(self, queue: str, token: str, items: Sequence[int]) -> Op[list[int]]:
        """Which items that were out by this token have gone with their channel."""
        ...
