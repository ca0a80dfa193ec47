"""Queues: what every driver implements. See ``contract.store`` for what holds for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.contract.channels import ChannelStore
from headrace.contract.items import (
    Backlog,
    ClientRow,
    DeadGroup,
    EndedItem,
    Filter,
    LoggedError,
    Orders,
    Outcome,
    Place,
    PushCall,
    PushOutcome,
    Sample,
    Settled,
    Take,
    Taking,
    WorkerRow,
    WorkerStatus,
)
from headrace.contract.limits import LimitStore
from headrace.contract.op import Op
from headrace.contract.values import AckResult
from headrace.model.items import ItemState
from headrace.model.queues import QueueChanges, QueueInfo, QueueSettings


class QueueStore(ChannelStore, LimitStore, Protocol):
    """Items that wait to be worked on.

    An item is live (planned, pending or active) or it has ended (completed or dead). At most
    one live item of a queue has a given subject. A planned item is claimable the moment it is
    due, whether or not anything has moved it to pending.

    Every operation that names a queue raises ``UnknownQueue`` first if there is none. Only
    ``push`` and ``create_queue`` make it, and ``redrive`` the one it moves items to; ``settle``
    and ``extend_items`` find no claim that stands, and ``workers`` no worker perhaps.

    Whoever waits for ``queue/<name>`` (``Store.waiter``) is woken when items of the queue may
    have become claimable: by a push, an upsert, an outcome or the end of a lease that puts one
    in line, by ``resume_queue``, ``update_queue``, ``retry_item``, ``edit_item``, ``redrive``
    and the end of a hold. Nobody is woken when a planned item becomes due: see ``next_due``.
    Whoever waits for ``room/<name>`` is woken when a queue with ``max_items`` or
    ``max_channel_items`` may have room again: by the end of an item, or by ``update_queue``.

    Order of locks, so that two operations cannot deadlock: keys, queues, items by id, counters,
    heads of topics.
    """

    def push(self, calls: Sequence[PushCall]) -> Op[list[PushOutcome]]:
        """Take in the documents of all calls in one transaction; one outcome per call, in order.

        A queue that does not exist is made with the stored defaults. Documents are taken one
        by one, in order: a later one with the same subject finds the item of the earlier.

        ``push`` skips a document whose subject is that of a live item (``exists``), or whose
        subject was used before and the queue's uniqueness still counts it (``taken``: for ever,
        or within the window from when its last item was made). Uses are remembered only while
        ``unique`` is not ``live``. An item that was dropped or cancelled frees its subject.

        ``upsert`` replaces payload, headers, overrides, priority, channel and due time of a live
        item that is not active, and leaves its id, attempts and iterations. An item that was due
        and still is keeps its place, unless its channel is another. An item whose overrides say
        ``updateable=False`` is left alone (``fixed``). An active item is left alone (``active``),
        or with ``while_active = next`` the document becomes its successor, replacing an earlier
        one; its time is fixed now, so that a delay counts from here. A subject that is ``taken``
        and has no live item is skipped.

        Where the queue says ``keep_superseded``, a replaced payload (also a replaced successor)
        is committed to that topic in the same transaction: ``{"queue", "id", "subject",
        "payload", "superseded_at"}``.

        A call that would make the queue hold more live items than its ``max_items``, or a channel
        more than ``max_channel_items``, is answered ``PushFull`` and writes nothing; the others
        are not affected. Only new items count, not updates. Where calls come with something else
        (``settle``, ``ack_push``, a sink), that raises ``QueueFull`` and nothing is written at
        all. What comes by itself always comes: successors, copies of the dead, and what is made
        live again.

        A call with a key that was used less than ``key_ttl_ms`` ago writes nothing: its outcome
        is the first one if the digest is the same, else ``PushConflict``. The keys of pushes and
        those of commits are different things; queues do not have keys of their own.
        """
        ...

    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckResult]:
        """``ack`` of a proc's claim and ``push`` in one transaction: both or neither.

        A repeat with the token of the last ack and the same calls pushes nothing and gets the
        same answer; with other calls it raises ``ClaimLost``. The calls have no keys.
        """
        ...

    def claim_items(self, take: Take) -> Op[Taking]:
        """Hand out the next items, up to ``count``, in the queue's order.

        ``UnknownQueue`` if there is none. Nothing is handed out while the queue is paused, or
        held by an update, or when its settings' version is not the one asked for. The order is
        by discipline: the longest in line first (``fifo``), the last in line first (``lifo``),
        or higher priority first and the longest in line among equals (``priority``). An item
        stands in line from its push if it is due then; a planned one from the first claim that
        finds it due: claims let all due items into the line first, in the order of their times
        and ids, except that one which keeps its old place (``front``) returns to that. With
        ``select`` it is about channels: see ``ChannelStore``.

        Each item becomes active, its attempts grow by one, and its lease ends ``lease_ms`` from
        now (its own ``timeout``, else that of the call, else the queue's). Leases that have run
        out are ended by this very call if it would otherwise come back with less than was
        asked for: see ``expire_leases``. Those items may be part of what it gets.

        Relaxed: a claim lost in a crash is as if it was never made.

        Cost: independent of how many items wait or are planned.
        """
        ...

    def secure_claim(self, queue: str, token: str, item: int) -> Op[bool]:
        """Bring a claim that ``is_loose`` to the disk, named by its token and one of its items.

        False if the item is not held by the token any more; so it is when the database went away
        and has lost the claim. It must not be begun with then. By itself, not in a transaction
        with others: it is about what was answered before.
        """
        ...

    def is_secured(self, token: str) -> bool:
        """Whether a claim that ``is_loose`` is known to be on the disk by now, because something
        else was brought there behind it. Asks nobody; False says nothing."""
        ...

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Op[list[Settled]]:
        """Say what became of claimed items; one answer per outcome, in order.

        An outcome counts only while its token is that of the item's present claim; a lease that
        is over still stands until somebody ends it. Otherwise the answer is ``lost`` and nothing
        of that outcome is written, its commits and pushes included; the others are not affected.
        All items are settled first, in order, then all commits are written, then all pushes:
        a push may name the subject of an item that ends here. Those calls have no keys. An
        outcome with a hold holds the item's channel, in the same transaction; ``due`` of the
        answer is that time then. An item in no channel that is released with a hold waits for it
        alone, and returns to its place.

        ``complete``    the item has ended; it is kept if the queue keeps completed items.
        ``reschedule``  it waits for ``due`` or ``delay_ms``, or the queue's ``reschedule_delay``;
                        attempts and crashes are zero again.
        ``reject``      it failed. Dead, if it was handed out as often as it may be, with the
                        cause ``rejected``; else it waits for ``due`` or ``delay_ms``, or as the
                        queue says (``reject_delay``, ``backoff``).
        ``kill``        dead at once, with the cause ``killed``.
        ``drop``        gone without a trace; its subject is free again, whatever ``unique`` says.
        ``release``     handed back untouched: as if it had not been claimed; nothing is counted.

        A payload that is given replaces the item's own. All but ``release`` count an iteration.
        An item that has a successor gives its place to it: a completed, dead or dropped item is
        followed by a new item with the same subject, one that would wait again takes the
        successor's content and starts with no attempts.

        A dead item is kept, and the queue's ``dead_to`` queues get a copy each, with the headers
        ``headrace-dead-queue``, ``-id``, ``-cause``, ``-error`` and ``-attempts``, in the same
        transaction; then the item itself is not kept. A queue that is among its own ``dead_to``
        gets no copy. A copy goes without its subject where a
        live item of that queue has it, so that nothing is lost, and nothing is ``taken`` for it.

        A failure is added to the queue's error series, if it has one. Every ``reject`` is a
        failure, one without words if none is given; ``release`` never is.

        All but ``release`` count as ``processed``; see ``Counts``.
        """
        ...

    def extend_items(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Op[list[int]]:
        """Let the claim last ``lease_ms`` from now; the items that are still held by the token.

        A lease that is over still stands until somebody ends it.
        """
        ...

    def expire_leases(self, queue: str, limit: int) -> Op[list[int]]:
        """End claims whose lease is over, at most ``limit``, the oldest first; the items' ids.

        Each counts a crash and is an entry of the error series. The item is dead with the cause
        ``worker lost`` at ``max_crashes``, or when it was handed out as often as it may be;
        otherwise it is pending at once, at its old place.
        """
        ...

    def create_queue(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        """Make a queue with the stored defaults and some changes, or find it.

        An existing one is returned as it is if there are no changes, else changed as in
        ``update_queue``; with ``must_be_new`` it is ``QueueExists``.
        """
        ...

    def queue_info(self, name: str) -> Op[QueueInfo]:
        """The queue, or ``UnknownQueue``."""
        ...

    def queues(self, prefix: str, after: str, limit: int) -> Op[list[QueueInfo]]:
        """Queues by name (in code point order), ``after`` excluded."""
        ...

    def update_queue(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        """Change settings; the version grows by one if any of them differ.

        A changed discipline puts the waiting items in the new order, by the same turns. Running
        counts are right from the moment on from which they are kept. A hold is ended, and the
        queue's workers shall run again.
        """
        ...

    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        """Let copies of what dies in a queue go to one more queue (``dead_to``), as ``update_queue``.

        Nothing changes if they go there already. Two that are added at once are both there.
        """
        ...

    def pause_queue(self, name: str, by: str | None) -> Op[QueueInfo]:
        """Hand out nothing until it is resumed. What is out can be settled.

        Pausing a paused queue is no error, and changes nothing.
        """
        ...

    def resume_queue(self, name: str) -> Op[QueueInfo]:
        """Hand out items again. Resuming a queue that is not paused is no error."""
        ...

    def drop_queue(self, name: str, keep_data: bool) -> Op[int]:
        """Remove a queue; returns how many live items it had.

        With ``keep_data`` its items stay, and are found again by a queue that is made with this
        name, in the order of its discipline; without, all of it is removed: items, history,
        series and uniqueness. Claims on its items are lost; where they stay, they wait again as
        if they had been released.
        """
        ...

    def queue_defaults(self) -> Op[QueueSettings]:
        """The settings that new queues get."""
        ...

    def set_queue_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        """Change them; queues that exist stay as they are."""
        ...

    def item(self, queue: str, item: int | str) -> Op[ItemState | EndedItem]:
        """An item by id, or the live item (else the last one that ended) of a subject.

        ``UnknownItem`` if there is none.
        """
        ...

    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[list[ItemState | EndedItem]]:
        """Items in a state by id, ``after`` excluded.

        An item that is due may still be among the planned ones: see ``claim_items``.
        """
        ...

    def place(self, queue: str, item: int) -> Op[Place]:
        """Where a live item stands. ``UnknownItem`` if there is none. Counts, so it may be slow.

        An active item has none before it; one that is not due has all that are, and those that
        will be earlier.
        """
        ...

    def cancel_item(self, queue: str, item: int) -> Op[ItemState]:
        """Remove a waiting item; ``ItemActive`` if it is in flight, ``UnknownItem`` if not live.

        Its subject is free again. Returns it as it was.
        """
        ...

    def retry_item(self, queue: str, item: int) -> Op[ItemState]:
        """Let a waiting or ended item run now, behind all others, with all its attempts before
        it; its id stays.

        ``ItemActive`` if it is in flight; ``SubjectTaken`` if another live item has its subject.
        """
        ...

    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | EndedItem]:
        """Change a waiting or ended item; ``ItemActive`` if it is in flight.

        What is None stays. A waiting item that was due and still is keeps its place.
        """
        ...

    def dead_items(self, queue: str, filter: Filter, after: int, limit: int) -> Op[list[EndedItem]]:
        """Dead items that match, by id, ``after`` excluded."""
        ...

    def dead_groups(self, queue: str) -> Op[list[DeadGroup]]:
        """Dead items by fingerprint, the largest group first (then by fingerprint).

        Items that died without an error are alike if their cause is the same.
        """
        ...

    def count_dead(self, queue: str, filter: Filter) -> Op[int]:
        """How many dead items match."""
        ...

    def redrive(self, queue: str, filter: Filter, to: str | None, limit: int) -> Op[int]:
        """Make up to ``limit`` matching dead items live again, by id; returns how many.

        They run now, with all their attempts before them, in their own queue or as new items
        of another (which is made if need be), with the same payload, headers, overrides and
        priority. One whose subject is taken by a live item stays, and does not count.
        """
        ...

    def purge_dead(self, queue: str, filter: Filter, limit: int) -> Op[int]:
        """Remove up to ``limit`` matching dead items, by id; returns how many."""
        ...

    def backlogs(self, queues: Sequence[str] | None, computed: bool) -> Op[list[Backlog]]:
        """The numbers of some queues (``UnknownQueue`` for a missing one) or of all, by name.

        From running counts where the queue keeps them, else (or when ``computed``) counted; the
        life-time counters are always running ones, and zero for a queue that keeps none.
        """
        ...

    def consolidate(self, queues: Sequence[str] | None) -> Op[list[Backlog]]:
        """``backlogs`` computed, and the running counts set right by them."""
        ...

    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[list[LoggedError]]:
        """The queue's error series, of one item or of all, newest first, with ids below
        ``before``."""
        ...

    def samples(self, queue: str, since: int, limit: int) -> Op[list[Sample]]:
        """The queue's metric series from a time on, oldest first."""
        ...

    def tend_queue(self, queue: str, limit: int) -> Op[int]:
        """Maintenance of one queue: end leases, fold counts, add a sample to the series (at most
        one a minute, none where ``metrics`` are off), and remove at most ``limit`` of each thing
        that is kept too long by the present settings, the oldest first. Returns how many things
        were removed: with as many as ``limit`` there may be more.

        What is kept for some seconds is removed when it is that old; completed items of a queue
        that keeps ``none`` any more at once.
        """
        ...

    def beat(self, client: ClientRow, workers: Sequence[WorkerRow]) -> Op[Orders]:
        """Say that a client and these workers (all it has) are there; what they shall do.

        Their rows are made or brought up to date, and the client's other workers are removed.
        The times are the store's: ``started_at`` is the first beat, ``seen_at`` the last. What
        was desired of a known worker stays, whatever its row says. A new worker of a queue that
        is held shall be stopped; the workers of a queue whose hold ran out of time shall run
        again.
        """
        ...

    def leave(self, client: str) -> Op[None]:
        """Remove a client and its workers. No error if there is none."""
        ...

    def clients(self) -> Op[list[ClientRow]]:
        """All clients with rows, by start, the dead ones included."""
        ...

    def workers(self, queue: str | None) -> Op[list[WorkerRow]]:
        """All workers with rows, of one queue or of all, by start."""
        ...

    def hold_queue(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[list[WorkerRow]]:
        """Hand out nothing for ``for_ms`` from now and desire this of its workers; those workers.

        ``for_ms`` of 0 ends a hold. The queue need not have been held.
        """
        ...

    def forget_clients(self, silent_ms: int) -> Op[list[str]]:
        """Remove clients (and their workers) that were not heard of for so long; their ids."""
        ...
