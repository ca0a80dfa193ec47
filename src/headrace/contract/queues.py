"""Queues: what every driver implements. See ``contract.store`` for the rules of all parts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from headrace.contract.flags import have_keys, reads, writes
from headrace.contract.items import (
    ClaimRequest,
    ClaimResponse,
    ClientInfo,
    DeadGroup,
    FinishedItem,
    HeartbeatReply,
    ItemFilter,
    LoggedError,
    MetricSample,
    Outcome,
    PushCall,
    PushOutcome,
    QueueCounts,
    QueuePosition,
    Settled,
    WorkerRow,
    WorkerStatus,
)
from headrace.contract.op import Op
from headrace.model.maintenance import Tended
from headrace.model.queues.items import ItemState
from headrace.model.queues.settings import QueueChanges, QueueInfo, QueueSettings


class QueueStore(Protocol):
    """Items that wait to be worked on.

    An item is live (planned, pending or active) or it has ended (completed or dead). At most
    one live item of a queue has a given subject. A planned item is claimable the moment it is
    due, whether or not anything has moved it to pending.

    **Missing queues.** Every operation that names a queue raises ``UnknownQueue`` first if there
    is none, with these exceptions. ``queues.push`` and ``queues.create`` make the queue, and
    ``queues.redrive`` makes the queue that it moves items to. ``queues.settle`` and
    ``queues.extend`` find no valid claim, and ``queues.workers`` perhaps no worker.

    **Notifications.** Waiters for ``queue/<name>`` (``Store.waiter``) are notified when items of
    the queue may have become claimable: by a push, by an upsert, by an outcome or the end of a
    lease that puts an item in line, by ``queues.resume``, ``queues.update``,
    ``queues.retry_item``, ``queues.edit_item`` and ``queues.redrive``, and when
    ``queues.freeze`` ends a freeze or ``channels.delay`` a delay. ``queues.drop`` notifies them,
    too: they find the queue gone. There is no notification when a planned item becomes due: see
    ``ClaimResponse.next_due``. Waiters for ``capacity/<name>`` are
    notified when a queue with ``max_items`` or ``max_channel_items`` may have capacity again: by
    the end of an item, or by ``queues.update``.

    **Locks** are acquired in this order, so that two operations cannot deadlock: keys, queues,
    items by id, counters, heads of topics.
    """

    @writes(repeatable=have_keys)
    def push(self, calls: Sequence[PushCall]) -> Op[builtins.list[PushOutcome]]:
        """Push the documents of all calls in one transaction; one outcome per call, in order.

        A queue that does not exist is made with the stored defaults. Documents are pushed one by
        one, in order: a later one with the same subject finds the item of the earlier.

        ``push`` skips a document whose subject a live item has (``exists``). It also skips one
        whose subject was used before, if the queue's uniqueness still counts that (``taken``):
        for ever, or within the window from when the subject's last item was made. Uses are
        remembered only while ``unique`` is not ``live``. A dropped or cancelled item frees its
        subject.

        ``upsert`` replaces payload, headers, overrides, priority, channel and due time of a live
        item that is not active. The item's id, attempts and iterations stay. An item that was due
        and still is keeps its place, unless its channel changes. An item whose overrides have
        ``updateable=False`` is left alone (``fixed``). An active item is left alone (``active``).
        With ``while_active = next`` the document becomes the active item's successor instead, and
        replaces an earlier successor; its due time is computed now, so that a delay counts from
        now. A document whose subject is ``taken`` and has no live item is skipped.

        Where the queue has ``keep_superseded``, a replaced payload (also that of a replaced
        successor) is committed to that topic in the same transaction: ``{"queue", "id",
        "subject", "payload", "superseded_at"}``.

        A call after which the queue would have more live items than its ``max_items``, or a
        channel more than ``max_channel_items``, is answered ``PushFull`` and writes nothing. The
        other calls are not affected. Only new items count, not updates. Where calls are part of
        another operation (``queues.settle``, ``procs.ack_push``, a sink), that raises
        ``QueueFull`` and writes nothing. The store always accepts successors, copies of dead
        items, and items that are made live again.

        A call with a key that was used less than ``key_ttl_ms`` ago writes nothing: its outcome
        is the first one if the digest is the same, else ``PushConflict``. The keys of pushes and
        those of commits are separate; all queues share the keys of pushes.
        """
        ...

    @writes(repeatable=True)
    def claim(self, request: ClaimRequest) -> Op[ClaimResponse]:
        """Claim the next items, up to ``count``, in the queue's order.

        ``UnknownQueue`` if there is none. Nothing is claimed while the queue is paused, or frozen
        by an update, or when the version of its settings is not the requested one.

        The order is by discipline: the longest in line first (``fifo``), the last in line first
        (``lifo``), or higher priority first and the longest in line among equals (``priority``).
        An item that is due when it is pushed joins the line then. A planned item joins it with the
        first claim that finds it due: a claim first moves all due items into the line, in the
        order of their times and ids, except that an item which keeps its old place (``front``)
        returns to that place. With ``select`` a claim is by channel: see ``ChannelStore``.

        Each item becomes active, its attempts grow by one, and its lease ends ``lease_ms`` from
        now (its own ``lease``, else that of the call, else the queue's). The claim first ends
        the leases that have run out, whatever is in line: see ``queues.expire_leases``. It may
        get those items itself. A driver may postpone that for two seconds at most.

        Repeatable: a request that ``is_repeat`` gets the items that its token holds already.

        Relaxed: a claim lost in a crash is as if it was never made.

        Cost: independent of how many items wait or are planned.
        """
        ...

    @writes()
    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Op[builtins.list[Settled]]:
        """Apply the outcomes of claimed items; one answer per outcome, in order.

        An outcome counts only while its token is that of the item's present claim. A claim whose
        lease is over is still valid until another operation ends it. An outcome that does not
        count is answered ``lost``, and nothing of it is written, its commits and pushes included.
        The other outcomes are not affected.

        All items are settled first, in order, then all commits are written, then all pushes:
        a push may name the subject of an item that ends here. Those calls have no keys. An
        outcome may delay the item's channel, in the same transaction; ``due`` of the answer is
        then the end of the delay. An item in no channel that is released with a delay is delayed
        alone, and returns to its place.

        ``complete``    the item has ended; it is kept if the queue keeps completed items.
        ``reschedule``  it waits for ``due`` or ``delay_ms``, or the queue's ``reschedule_delay``;
                        attempts and crashes are zero again.
        ``reject``      it failed. It is dead with the cause ``rejected`` if its attempts are used
                        up; else it waits for ``due`` or ``delay_ms``, or as the queue's settings
                        say (``reject_delay``, ``backoff``).
        ``kill``        it is dead immediately, with the cause ``killed``.
        ``drop``        it is removed, never kept; its subject is free again despite ``unique``.
        ``release``     it returns unchanged, as if it had not been claimed; nothing is counted.

        A payload that is given replaces the item's own. All but ``release`` count an iteration.
        After a completed, dead or dropped item its successor becomes a new item with the same
        subject. An item that would wait again gets its successor's content, and has no attempts.

        A dead item is kept. If the queue has ``dead_to`` queues, each gets a copy in the same
        transaction, with the headers ``headrace-dead-queue``, ``-id``, ``-cause``, ``-error`` and
        ``-attempts``, and the item itself is not kept. A queue that is among its own ``dead_to``
        gets no copy. A copy has no subject if a live item of that queue has it, so that no copy
        is lost; a subject that is ``taken`` does not prevent a copy.

        A failure is added to the queue's error series, if it has one. Every ``reject`` is a
        failure, without a message if none is given; ``release`` never is.

        All but ``release`` count as ``processed``; see ``Counts``.
        """
        ...

    @writes(repeatable=True)
    def extend(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Op[builtins.list[int]]:
        """Extend the lease to ``lease_ms`` from now; returns the items that the token still claims.

        A claim whose lease is over is still valid until another operation ends it.
        """
        ...

    @writes()
    def expire_leases(self, queue: str, limit: int) -> Op[builtins.list[int]]:
        """End at most ``limit`` claims whose lease is over, the oldest first; returns the items.

        Each counts a crash and adds an entry to the error series. The item is dead with the cause
        ``worker lost`` at ``max_crashes``, or when its attempts are used up. Otherwise it is
        pending immediately: at its old place, or behind all others where the item's or the
        queue's ``retry_position`` is ``back``.
        """
        ...

    @writes(repeatable=lambda name, changes, must_be_new: not must_be_new)
    def create(self, name: str, changes: QueueChanges, must_be_new: bool) -> Op[QueueInfo]:
        """Make a queue with the stored defaults and some changes, or find it.

        An existing queue is returned as it is if there are no changes, and otherwise changed as
        by ``queues.update``. With ``must_be_new`` an existing queue raises ``QueueExists``.
        """
        ...

    @reads
    def info(self, name: str) -> Op[QueueInfo]:
        """The queue, or ``UnknownQueue``."""
        ...

    @reads
    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[QueueInfo]]:
        """Queues by name (in code point order), ``after`` excluded."""
        ...

    @writes()
    def update(self, name: str, changes: QueueChanges) -> Op[QueueInfo]:
        """Change settings; the version grows by one if any of them differ.

        A changed discipline reorders the waiting items; when each of them joined the line stays
        the same. Running counts are correct from the moment on from which they are kept. An
        update ends a freeze, and the desired status of the queue's workers is ``running`` again.
        """
        ...

    @writes(repeatable=True)
    def add_dead_queue(self, name: str, to: str) -> Op[QueueInfo]:
        """Add one more queue to those that get copies of dead items (``dead_to``).

        Works as ``queues.update`` does. Nothing changes if the queue is there already. Two queues
        that two callers add at the same time are both there afterwards.
        """
        ...

    @writes(repeatable=True)
    def pause(self, name: str, by: str | None) -> Op[QueueInfo]:
        """Allow no claims until the queue is resumed. Items in flight can be settled.

        Pausing a paused queue is no error, and changes nothing.
        """
        ...

    @writes(repeatable=True)
    def resume(self, name: str) -> Op[QueueInfo]:
        """Allow claims again. Resuming a queue that is not paused is no error."""
        ...

    @writes()
    def drop(self, name: str, keep_data: bool) -> Op[int]:
        """Remove a queue; returns how many live items it had.

        With ``keep_data`` its items stay. A queue that is made later with this name has them, in
        the order of its discipline. Without it everything is removed: items, history, series and
        uniqueness. Claims on its items are lost; items that stay wait again as if released.
        """
        ...

    @reads
    def defaults(self) -> Op[QueueSettings]:
        """The settings that new queues get."""
        ...

    @writes(repeatable=True)
    def set_defaults(self, changes: QueueChanges) -> Op[QueueSettings]:
        """Change the settings that new queues get; existing queues stay as they are."""
        ...

    @reads
    def item(self, queue: str, item: int | str) -> Op[ItemState | FinishedItem]:
        """An item by id, or the live item (else the last one that ended) of a subject.

        ``UnknownItem`` if there is none.
        """
        ...

    @reads
    def items(
        self, queue: str, state: int, after: int, limit: int
    ) -> Op[builtins.list[ItemState | FinishedItem]]:
        """Items in a state by id, ``after`` excluded.

        An item that is due may still be among the planned ones: see ``queues.claim``.
        """
        ...

    @reads
    def position(self, queue: str, item: int) -> Op[QueuePosition]:
        """Where a live item stands. ``UnknownItem`` if there is none. Counts, so it may be slow.

        An active item has no items before it. An item that is not due has all due items before
        it, and those that will be due earlier.
        """
        ...

    @writes()
    def cancel_item(self, queue: str, item: int) -> Op[ItemState | FinishedItem]:
        """Remove an item that waits, or that has ended and is kept; returns it as it was.

        ``ItemActive`` if it is in flight, ``UnknownItem`` if there is none. The subject of a
        waiting item is free again.
        """
        ...

    @writes()
    def retry_item(self, queue: str, item: int, claimed: ItemState | None = None) -> Op[ItemState]:
        """Make a waiting or ended item claimable now, behind all others, with no attempts used.

        Its id stays. ``claimed`` undoes a claim that was completed: it is the item as it was
        claimed. An item that has ended comes back in that state, even if the queue did not keep it.
        ``ItemActive`` if it is in flight; ``SubjectTaken`` if another live item has its subject.
        """
        ...

    @writes()
    def edit_item(
        self,
        queue: str,
        item: int,
        payload: tuple[str, int] | None,
        priority: int | None,
        due: int | None,
    ) -> Op[ItemState | FinishedItem]:
        """Change a waiting or ended item; ``ItemActive`` if it is in flight.

        Arguments of None change nothing. A waiting item that was due and still is keeps its place.
        """
        ...

    @reads
    def dead_items(
        self, queue: str, filter: ItemFilter, after: int, limit: int
    ) -> Op[builtins.list[FinishedItem]]:
        """Dead items that match, by id, ``after`` excluded."""
        ...

    @reads
    def dead_groups(self, queue: str) -> Op[builtins.list[DeadGroup]]:
        """Dead items by fingerprint, the largest group first (then by fingerprint).

        Items that died without an error are in one group if their cause is the same.
        """
        ...

    @reads
    def count_dead(self, queue: str, filter: ItemFilter) -> Op[int]:
        """How many dead items match."""
        ...

    @writes()
    def redrive(self, queue: str, filter: ItemFilter, to: str | None, limit: int) -> Op[int]:
        """Make up to ``limit`` matching dead items live again, by id; returns how many.

        They are due now, with no attempts used. They return to their own queue, or become new
        items of another one (made if it does not exist), with the same payload, headers, overrides
        and priority. An item stays dead, and does not count, if a live item has its subject.
        """
        ...

    @writes()
    def purge_dead(self, queue: str, filter: ItemFilter, limit: int) -> Op[int]:
        """Remove up to ``limit`` matching dead items, by id; returns how many."""
        ...

    @reads
    def counts(
        self, queues: Sequence[str] | None, computed: bool
    ) -> Op[builtins.list[QueueCounts]]:
        """The numbers of some queues (``UnknownQueue`` for a missing one) or of all, by name.

        They are running counts where the queue keeps those; else, or when ``computed``, the items
        are counted. Life-time counts are always running counts; zero if the queue keeps none.
        """
        ...

    @writes(repeatable=True)
    def consolidate(self, queues: Sequence[str] | None) -> Op[builtins.list[QueueCounts]]:
        """``queues.counts`` with ``computed``, and the running counts corrected by them."""
        ...

    @reads
    def logged_errors(
        self, queue: str, item: int | None, before: int, limit: int
    ) -> Op[builtins.list[LoggedError]]:
        """The queue's error series, of one item or of all, newest first, with ids below
        ``before``."""
        ...

    @reads
    def samples(self, queue: str, since: int, limit: int) -> Op[builtins.list[MetricSample]]:
        """The queue's metric series from a time on, oldest first."""
        ...

    @writes()
    def maintain(self, queue: str, limit: int) -> Op[Tended]:
        """Run the maintenance of one queue.

        - End at most ``limit`` leases that are over, and fold counts.
        - Add a sample to the metric series: at most one a minute, none where ``metrics`` are off.
        - Remove at most ``limit`` rows of each kind that the present settings no longer keep, the
          oldest first. Rows that are kept for a number of seconds are removed at that age;
          completed items of a queue that now keeps ``none`` are removed immediately.

        Returns how many leases ended, how many items died of that, and how many rows were removed.
        If one of these is as large as ``limit``, there may be more.
        """
        ...

    @writes(repeatable=True)
    def heartbeat(self, client: ClientInfo, workers: Sequence[WorkerRow]) -> Op[HeartbeatReply]:
        """Register a client and all of its workers; returns the workers' desired status.

        Their rows are made or updated, and the client's other workers are removed. The times are
        the store's: ``started_at`` is the first heartbeat, ``seen_at`` the last. The desired
        status of a known worker stays, whatever its row contains. A new worker of a frozen queue
        gets the desired status ``stopped``. The workers of a queue whose freeze has run out of
        time get ``running`` again. If a freeze begins or ends at the same time, either it finds
        the row of a new worker or the new worker sees it. Waiters on ``PRESENCE_WORD`` are
        notified if a worker is new, has another status (``current``), or was removed.
        """
        ...

    @writes(repeatable=True)
    def unregister(self, client: str) -> Op[None]:
        """Remove a client and its workers; no error if there is none. Waiters on
        ``PRESENCE_WORD`` are notified."""
        ...

    @reads
    def clients(self) -> Op[builtins.list[ClientInfo]]:
        """All clients with rows, by start, the dead ones included."""
        ...

    @reads
    def workers(self, queue: str | None) -> Op[builtins.list[WorkerRow]]:
        """All workers with rows, of one queue or of all, by start."""
        ...

    @writes(repeatable=True)
    def freeze(self, name: str, for_ms: int, desired: WorkerStatus) -> Op[builtins.list[WorkerRow]]:
        """Allow no claims for ``for_ms`` from now, and set the desired status of the workers.

        Returns those workers. ``for_ms`` of 0 ends a freeze; the queue need not be frozen.
        """
        ...

    @writes(repeatable=True)
    def forget_clients(self, silent_ms: int) -> Op[builtins.list[str]]:
        """Remove clients without a heartbeat for ``silent_ms``, with their workers; their ids."""
        ...
