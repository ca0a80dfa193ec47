"""What goes into the operations of queues and comes out of them. See ``contract.values``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from headrace.contract.values import CommitCall
from headrace.model.channels import QUANTUM
from headrace.model.failures import Failure
from headrace.model.items import Document, ItemState, Kind
from headrace.model.queues import WhileActive

DAY_MS = 24 * 3600 * 1000


class PushCall(msgspec.Struct, frozen=True, kw_only=True):
    """One caller's documents for one queue, in order.

    ``push`` leaves alone what exists, ``upsert`` replaces it. ``while_active`` goes before the
    queue's own setting. With ``debounce_ms`` an upsert makes the item (a new one too) wait so
    long from now, but no longer than ``max_wait_ms`` from the beginning of its wait, whatever
    the document says; the wait of a successor begins with its push.
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
was used before and still counts; the item says that it may not be updated."""


class Note(msgspec.Struct, frozen=True):
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
    notes: tuple[Note, ...] = ()


class PushConflict(msgspec.Struct, frozen=True, tag="push_conflict"):
    """The call's key was used before with other content; nothing of the call was written."""

    key: str


class PushFull(msgspec.Struct, frozen=True, tag="push_full"):
    """The queue (or the channel that is named) may not hold so many; nothing of the call was
    written, and its key does not count as used.

    With a ``rule`` that is a limit about enqueued items, and the values are those that it counts
    together.
    """

    queue: str
    limit: int
    channel: str | None = None
    rule: str | None = None


PushOutcome = Pushed | PushConflict | PushFull


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on the next items of a queue.

    With a ``version`` nothing is handed out unless the queue's settings still have it.
    ``lease_ms`` of None is the queue's own. ``worker`` is who asks, for people.

    ``select`` is the form of a query: only items of channels that it selects are handed out,
    by ``order`` of the channels' turns (``fair``), up to ``quantum`` of each in turn, or as they
    stand in the queue's line (``line``).

    With ``may_be_loose`` the answer may come before the claim is on the disk, where that matters:
    then it ``is_loose``, and ``secure_claim`` has to be run before any item of it is begun with.
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
    may_be_loose: bool = False


class Taking(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim got, in the order of the queue.

    ``empty`` means nothing is due; ``paused`` that the queue is, or that it is held; ``stale``
    that the settings have another ``version`` by now. ``next_due`` is when the next thing
    happens by itself (an item becomes due, a lease or a hold ends), if that is known: until then
    only a push brings anything. It is always known when nothing is due.
    """

    state: Literal["claimed", "empty", "paused", "stale"]
    items: tuple[ItemState, ...] = ()
    version: int = 0
    now: int = 0
    next_due: int | None = None
    is_loose: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of an item it has claimed, and what is to happen with it at once.

    ``due`` is a time, ``delay_ms`` a wait from now; neither: as the queue's settings say.
    ``chance`` decides the jitter. ``commits`` and ``pushes`` are written if the outcome counts,
    in the same transaction, and not at all if it does not. ``hold_until`` is a time before which
    nothing of the item's channel is to run, ``hold_ms`` a wait from now; see ``hold_channel``.
    """

    item: int
    token: str
    kind: Kind
    payload: str | None = None
    format: int = 0
    due: int | None = None
    delay_ms: int | None = None
    failure: Failure | None = None
    chance: float = 0.0
    commits: tuple[CommitCall, ...] = ()
    pushes: tuple[PushCall, ...] = ()
    hold_until: int | None = None
    hold_ms: int | None = None

    def held_until(self, now: int) -> int | None:
        """Until when its channel is held, if it is."""
        return now + self.hold_ms if self.hold_ms is not None else self.hold_until


class Settled(msgspec.Struct, frozen=True):
    """What became of an item: where it is now, or ``lost`` if the claim did not stand any more.

    ``gone`` is lost because the item's channel was deleted while it was out. ``due`` is when an
    item that waits again may run.
    """

    item: int
    state: Literal["completed", "planned", "pending", "dead", "dropped", "lost", "gone"]
    due: int | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nothing of the outcome was written."""
        return self.state in ("lost", "gone")


class ChannelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that has items: how many of them wait (planned or pending), and are out.

    ``held_until`` is the time before which none of them runs, if it is held.
    """

    key_values: str
    waiting: int
    active: int
    held_until: int | None = None


class SelectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The form of a query that is registered, and when that was last done."""

    select: str
    seen_at: int


class Deleted(msgspec.Struct, frozen=True):
    """What a deletion of channels removed."""

    channels: int
    items: int


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many items a queue has in each state, and how often things happened in its life.

    ``total`` is the sum of the first five. What is kept of completed and dead items counts.
    The others only grow::

        entered      new items: pushed, copied or moved from another queue, or once a successor
        picked       handed out; a release takes nothing back
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


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's numbers: its counts, and how long ago the oldest waiting item became due."""

    queue: str
    counts: Counts
    oldest_due_ms: int | None = None
    is_computed: bool = False


class EndedItem(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """An item that is completed or dead and was kept. A dead one always has a fingerprint."""

    item: ItemState
    ended_at: int
    cause: str
    fingerprint: str | None = None
    title: str | None = None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead items; all that is given must hold.

    ``before`` and ``after`` are about when it died (in milliseconds) and exclude that moment.
    """

    ids: tuple[int, ...] | None = None
    fingerprint: str | None = None
    subject: str | None = None
    cause: str | None = None
    before: int | None = None
    after: int | None = None


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead items that failed alike. ``example`` is the newest of them, by id; title and cause
    are its own."""

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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a waiting item stands: how many are handed out before it.

    ``held_until`` is the time before which nothing of its channel runs, if that is held.
    """

    item: ItemState
    before: int
    now: int
    held_until: int | None = None


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


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's counts at a moment: one entry of its metric series."""

    at: int
    counts: Counts

    @property
    def time(self) -> datetime:
        """When it was so."""
        return _moment(self.at)


WorkerStatus = Literal["running", "paused", "stopping", "stopped"]


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: what it shall do, what it does, and under which settings."""

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


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A client that has workers: where it runs, and when it was last heard of."""

    id: str
    name: str
    host: str
    pid: int
    started_at: int = 0
    seen_at: int = 0

    @property
    def started(self) -> datetime:
        """When it was first heard of."""
        return _moment(self.started_at)

    @property
    def seen(self) -> datetime:
        """When it was last heard of."""
        return _moment(self.seen_at)


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a client's workers shall do, by worker id, and the time."""

    desired: dict[str, WorkerStatus]
    now: int


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
