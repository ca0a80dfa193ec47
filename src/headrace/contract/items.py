"""What goes into the operations of queues and comes out of them. See ``contract.values``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from headrace.contract.op import Op
from headrace.contract.values import CommitCall
from headrace.model.failures import Failure
from headrace.model.queues.channels import QUANTUM
from headrace.model.queues.items import Document, Ended, ItemState, State, Verdict
from headrace.model.queues.outcomes import ItemOutcome
from headrace.model.queues.settings import WhileActive

DAY_MS = 24 * 3600 * 1000


class PushCall(msgspec.Struct, frozen=True, kw_only=True):
    """One caller's documents for one queue, in order.

    ``push`` leaves an existing item alone, ``upsert`` replaces it. ``while_active`` overrides the
    queue's own setting. With ``debounce_ms`` an upsert makes the item (a new one, too) wait that
    long from now, but no longer than ``max_wait_ms`` from the beginning of its wait; the
    document's own due time does not count. The wait of a successor begins with its push.
    """

    queue: str
    documents: tuple[Document, ...]
    mode: Literal["push", "upsert"] = "push"
    while_active: WhileActive | None = None
    debounce_ms: int | None = None
    max_wait_ms: int | None = None
    key: str | None = None
    digest: str | None = None
    key_ttl_ms: int = DAY_MS


Skip = Literal["exists", "active", "taken", "fixed"]
"""Why a document was skipped: a live item has its subject; that item is in flight; the subject
was used before and still counts; the item's overrides forbid updates."""


class PushWarning(msgspec.Struct, frozen=True):
    """What became of one document that was not simply pushed."""

    index: int
    outcome: Literal["updated", "next", "skipped"]
    reason: Skip | None = None


class Pushed(msgspec.Struct, frozen=True, tag="pushed"):
    """What became of a call's documents: an id for each, and notes on those that were not new.

    The id is that of the live item which has the subject, or 0 where it is ``taken``. ``next``
    is content that waits for the end of an item's claim; its id is that item's.
    """

    ids: tuple[int, ...]
    notes: tuple[PushWarning, ...] = ()


class PushConflict(msgspec.Struct, frozen=True, tag="push_conflict"):
    """The call's key was used before with other content; nothing of the call was written."""

    key: str


class PushFull(msgspec.Struct, frozen=True, tag="push_full"):
    """The call would exceed the capacity of the queue, or of the channel that is named.

    Nothing of the call was written, and its key does not count as used. With a ``rule`` the
    capacity is that of a limit on enqueued items, and ``channel`` names the key-values that the
    rule counts together.
    """

    queue: str
    limit: int
    channel: str | None = None
    rule: str | None = None


PushOutcome = Pushed | PushConflict | PushFull


Confirm = Callable[[int], Op[bool] | None]


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on the next items of a queue.

    With a ``version`` nothing is claimed unless the queue's settings still have that version.
    ``lease_ms`` of None is the queue's own lease. ``worker`` describes the caller to people.

    ``select`` is the form of a query: only items of channels that it selects are claimed. With
    the ``order`` ``fair`` they come by the channels' turns, up to ``quantum`` of each in turn;
    with ``line`` as they stand in the queue's line.

    With ``may_confirm`` the client is ready to confirm the claim later: see ``ClaimResponse``.

    ``is_repeat`` says that the same request may have been executed, and its answer was lost: the
    items that its token holds are the answer, if there are any.
    """

    queue: str
    token: str
    count: int
    lease_ms: int | None = None
    version: int | None = None
    worker: str | None = None
    select: str | None = None
    order: Literal["fair", "line"] = "fair"
    quantum: int = QUANTUM
    may_confirm: bool = False
    is_repeat: bool = False


class ClaimResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a claim, in the order of the queue.

    ``empty`` means that nothing is due; ``paused`` that the queue is paused or frozen; ``stale``
    that the settings have another ``version`` by now. ``next_due`` is when the next event
    happens automatically (an item becomes due, a lease or a delay ends), if that is known: until
    then only a push makes items claimable. It is always known when nothing is due.

    ``confirm`` is None, unless the request had ``may_confirm`` and the claim is not durable yet.
    Then the claim has to be confirmed before work on any of its items begins: ``confirm(item)``
    makes the operation for that, which is run alone. It returns False if the item is not claimed
    by the token: a server that crashed may have lost the claim. True confirms the claim of all
    items. None in place of the operation means that the claim has been confirmed meanwhile.
    """

    state: Literal["claimed", "empty", "paused", "stale"]
    items: tuple[ItemState, ...] = ()
    version: int = 0
    now: int = 0
    next_due: int | None = None
    confirm: Confirm | None = None


class Outcome(ItemOutcome, frozen=True, kw_only=True):
    """A worker's outcome for an item that it claimed, with the writes that go with it.

    ``due`` is a time, ``delay_ms`` a wait from now; with neither, the queue's settings decide.
    ``chance`` decides the jitter. ``commits`` and ``pushes`` are written in the same transaction
    if the outcome counts, and not at all if it does not. The outcome may delay the item's
    channel: until the time ``channel_delay_until``, or for ``channel_delay_ms`` from now; see
    ``channels.delay``.
    """

    item: int
    token: str
    commits: tuple[CommitCall, ...] = ()
    pushes: tuple[PushCall, ...] = ()


class Settled(msgspec.Struct, frozen=True):
    """The state of an item after its outcome, or ``lost`` if the claim was no longer valid.

    ``gone`` is lost because the item's channel was deleted while it was in flight. ``due`` is when
    an item that waits again is due.
    """

    item: int
    state: Literal["completed", "planned", "pending", "dead", "dropped", "lost", "gone"]
    due: int | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nothing of the outcome was written."""
        return self.state in ("lost", "gone")


def settled(
    item: int, verdict: Verdict, waiting: ItemState | None, delayed_until: int | None
) -> Settled:
    """The answer for an item whose outcome counted; ``waiting`` is the item in line again."""
    if waiting is not None:
        due = waiting.next_execution if delayed_until is None else delayed_until
        return Settled(item, "pending" if waiting.state == State.PENDING else "planned", due)
    if isinstance(verdict, Ended):
        return Settled(item, "completed" if verdict.state == State.COMPLETED else "dead")
    return Settled(item, "dropped")


class ChannelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that has items: how many wait (planned or pending), and how many are in flight.

    ``delayed_until`` is the end of the channel's delay, if it is delayed.
    """

    key_values: str
    waiting: int
    active: int
    delayed_until: int | None = None


class SelectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a registered query, and when it was last registered."""

    select: str
    seen_at: int


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion of channels removed."""

    channels: int
    items: int


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items a queue has in each state, and how often each event happened in its life.

    ``total`` is the sum of the first five. Kept rows of completed and dead items count. The
    other counts only grow::

        entered      new items: pushed, copied or moved from another queue, or once a successor
        picked       claimed; a release does not subtract
        processed    settled by any outcome but a release
        rescheduled, rejected, dropped    settled in this way
        orphaned     leases that ran out
        errors       failures: rejections, leases that ran out, other outcomes with a failure
    """

    planned: int = 0
    pending: int = 0
    active: int = 0
    completed: int = 0
    dead: int = 0
    entered: int = 0
    picked: int = 0
    processed: int = 0
    rescheduled: int = 0
    rejected: int = 0
    dropped: int = 0
    orphaned: int = 0
    errors: int = 0

    @property
    def total(self) -> int:
        return self.planned + self.pending + self.active + self.completed + self.dead


COUNTED = Counts.__struct_fields__


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's numbers: its counts, and how long ago the oldest waiting item became due.

    ``due`` is how many items could be claimed now if no pause, delay or limit prevented it:
    pending items, planned items whose time has come, and items whose lease is over.
    """

    queue: str
    counts: Counts
    due: int = 0
    oldest_due_ms: int | None = None
    is_computed: bool = False


class FinishedItem(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """An item that is completed or dead and was kept. A dead one always has a fingerprint."""

    item: ItemState
    ended_at: int
    cause: str
    fingerprint: str | None = None
    title: str | None = None


class ItemFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects dead items; an item must match every field that is given.

    ``before`` and ``after`` compare with the time of death (in milliseconds), exclusively.
    """

    ids: tuple[int, ...] | None = None
    fingerprint: str | None = None
    subject: str | None = None
    cause: str | None = None
    before: int | None = None
    after: int | None = None


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead items with the same fingerprint. ``example`` is the newest of them, by id; title and
    cause are its own."""

    fingerprint: str
    title: str
    cause: str
    count: int
    first_at: int
    last_at: int
    example: int

    @property
    def first(self) -> datetime:
        """When the first of them died."""
        return _moment(self.first_at)

    @property
    def last(self) -> datetime:
        """When the last of them died."""
        return _moment(self.last_at)


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where a waiting item stands: how many items are claimed before it.

    ``delayed_until`` is the end of its channel's delay, if the channel is delayed.
    """

    item: ItemState
    before: int
    now: int
    delayed_until: int | None = None


class LoggedError(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a queue's error series."""

    id: int
    at: int
    item: int
    subject: str | None
    attempt: int
    worker: str | None
    failure: Failure

    @property
    def time(self) -> datetime:
        """When it happened."""
        return _moment(self.at)


class MetricSample(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's counts at a moment: one entry of its metric series."""

    at: int
    counts: Counts

    @property
    def time(self) -> datetime:
        """When the sample was made."""
        return _moment(self.at)


WorkerStatus = Literal["running", "paused", "stopping", "stopped"]


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: its desired and its current status, and the version of its settings.

    ``silent_ms`` is the time since its last heartbeat, by the store's clock, when it is listed.
    """

    id: str
    client: str
    queue: str
    desired: WorkerStatus = "running"
    current: WorkerStatus = "running"
    version: int = 0
    started_at: int = 0
    seen_at: int = 0
    busy: int = 0
    done: int = 0
    failed: int = 0
    rate: float = 0.0
    error: str | None = None
    silent_ms: int = 0


class ClientInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A client that has workers: where it runs, and when it sent its last heartbeat.

    ``silent_ms`` is the time since its last heartbeat, by the store's clock, when it is listed.
    """

    id: str
    name: str
    host: str
    pid: int
    started_at: int = 0
    seen_at: int = 0
    silent_ms: int = 0

    @property
    def started(self) -> datetime:
        """When it sent its first heartbeat."""
        return _moment(self.started_at)

    @property
    def seen(self) -> datetime:
        """When it sent its last heartbeat."""
        return _moment(self.seen_at)


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """The desired status of a client's workers, by worker id, and the store's time."""

    desired: dict[str, WorkerStatus]
    now: int


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
