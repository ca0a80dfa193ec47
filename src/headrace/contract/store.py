"""The store: what every driver implements and every layer above relies on.

All methods of ``TopicStore`` and ``ProcStore`` only *build* an ``Op``; ``run`` and
``arun`` execute it. Unless an operation says otherwise: it is atomic (all of it or none);
errors are raised from ``run`` and leave nothing written; arguments are already checked
for form by the caller (names, counts, encodings) but not for existence; the clock is the
store's (milliseconds since 1970), which tests may replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeVar

from headrace.contract.counters import CounterStore
from headrace.contract.locks import LockStore
from headrace.contract.op import Op
from headrace.contract.pipelines import PipelineStore
from headrace.contract.queues import QueueStore
from headrace.contract.sinks import SinkStore
from headrace.contract.values import (
    AckResult,
    Capabilities,
    ClaimResult,
    CommitCall,
    CommitOutcome,
    Committed,
    Finding,
    Page,
    ProcSpec,
    Promised,
    RangeQuery,
    StoredPage,
)
from headrace.model.collecting import Collected
from headrace.model.procs import Lag, ProcChanges, ProcInfo
from headrace.model.record import TopicInfo

T = TypeVar("T")


class Waiter(Protocol):
    """Ends its wait when there may be something new."""

    def wait(self, seconds: float) -> bool:
        """Wait for a hint or for some time, at most the given one; whether a hint came."""
        ...

    async def await_hint(self, seconds: float) -> bool:
        """``wait`` without blocking the event loop."""
        ...

    def wake(self) -> None:
        """End the wait, or the next one, from another thread."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class TopicStore(Protocol):
    """Append-only logs.

    A topic exists from its first record on. Its records have the seqs ``first_seq`` to
    ``next_seq - 1`` without a gap, in the order in which their commits became visible: a
    reader that has seen seq n never later finds a new record at or below n.
    """

    def commit(self, calls: Sequence[CommitCall]) -> Op[list[CommitOutcome]]:
        """Append the records of all calls in one transaction; one outcome per call, in order.

        All records get one timestamp: the clock, or the newest timestamp among the topics
        written to if that is later, so that timestamps never fall within a topic. Each
        part takes the next ``count`` seqs of its topic in the order of calls and parts.
        Heads of several topics are locked in one global order, and keys before heads, so
        that two commits cannot deadlock. Neighbouring parts of a topic, of whichever call, are
        stored as one row of up to about 128 KiB.

        A call with a key that was used less than ``key_ttl_ms`` ago writes nothing: its
        outcome is the first one if the digest is the same, else ``KeyConflict``. The other
        calls are not affected. A failed commit leaves no gap and no topic behind.

        Cost: independent of the topic's length; one row per topic and 128 KiB.
        """
        ...

    def resolve(self, promised: Promised) -> Op[Committed | None]:
        """What became of a ``Promised`` commit; None if it is not there (yet, or at all)."""
        ...

    def read(self, query: RangeQuery) -> Op[Page]:
        """Read one page: whole batches that cover the range, and which seqs of them count.

        Raises ``UnknownTopic`` when the topic has no records and never had; then
        ``UnknownSeq`` for a ``:seq`` end outside ``first_seq..next_seq - 1``, ``start``
        looked at before ``end`` (when descending, the high end first). Full ids and
        timestamps need not exist. ``exclusive`` drops an exact end and has no effect on
        timestamps, which mean the whole millisecond.

        A page covers at most ``limit`` records and stops early after the batch with which
        it passes ``max_bytes``; it always makes progress. No cursor or snapshot outlives
        the call.

        Cost: index look-ups and the batches read; independent of the topic's length.
        """
        ...

    def read_stored(
        self, topic: str, low: int, high: int, limit: int, max_bytes: int
    ) -> Op[StoredPage]:
        """Read the records ``low`` to ``high`` as they are stored: ``read``, but undecoded.

        For who decodes many at once. ``low`` must exist: else ``UnknownTopic``, or
        ``UnknownSeq``. ``limit`` and ``max_bytes`` are those of ``read``, and so is the cost.
        """
        ...

    def topics(self, prefix: str, after: str, limit: int) -> Op[list[TopicInfo]]:
        """List topics with records, by name (in code point order), ``after`` excluded."""
        ...

    def topic_info(self, topic: str) -> Op[TopicInfo]:
        """Return a topic's head, or raise ``UnknownTopic``. Costs one row."""
        ...


class ProcStore(Protocol):
    """Named, durable readers: each has one position and at most one outstanding claim.

    Every operation that names a proc raises ``UnknownProc`` first if there is none.
    """

    def create_proc(self, spec: ProcSpec, changes: ProcChanges) -> Op[ProcInfo]:
        """Find the proc, or make it; then apply ``changes`` to its settings.

        Raises ``ProcNameTaken`` if it exists on another topic. The topic need not exist
        yet. The offset counts only when the proc is made: ``>`` starts at the first
        record, ``$>`` behind the newest one (by seq), an id or ``:seq`` strictly after it,
        a timestamp at the first record of that millisecond or later. ``UnknownSeq`` if
        ``:seq`` does not exist. Nothing is written on error.
        """
        ...

    def claim(self, proc: str, token: str, count: int, max_bytes: int) -> Op[ClaimResult]:
        """Hand out the next records, up to ``count``, and remember that they are out.

        An outstanding claim that has not run out makes the answer ``held``; one that has
        is given back first, exactly as ``reclaim`` would, in the same transaction. That
        may disable the proc: the answer is then ``disabled``, and the change is kept.
        Records are handed out in order, none skipped, none twice unless given back. The
        batches contain at least one record of the claim, and the claim shrinks to what
        ``max_bytes`` allows.

        Relaxed: a claim lost in a crash is as if it was never made.
        """
        ...

    def claim_span(self, proc: str, token: str, count: int) -> Op[ClaimResult]:
        """``claim`` without the records: the answer has no batches, and no bytes limit it.

        For many records, which others read by their seqs, as many at once as they are.
        """
        ...

    def claim_any(
        self, procs: Sequence[str], token: str, count: int, max_bytes: int
    ) -> Op[ClaimResult]:
        """Claim for whichever of the procs has work, the one that claimed longest ago first.

        Disabled procs and those with a standing claim are passed over. ``empty`` if none
        has work.
        """
        ...

    def extend(self, proc: str, token: str) -> Op[int | None]:
        """Give the claim its full time again from now; returns the new deadline.

        ``ClaimLost`` unless the token is that of the outstanding claim. A claim whose time
        ran out still stands until it is taken or given back.
        """
        ...

    def ack(self, proc: str, token: str) -> Op[AckResult]:
        """Move the proc behind its claim.

        The token of the last ack gets the same answer again; any other token that is not
        that of the outstanding claim raises ``ClaimLost``. Allowed while disabled. Resets
        the count of reclaims.
        """
        ...

    def ack_commit(self, proc: str, token: str, call: CommitCall) -> Op[AckResult]:
        """``ack`` and ``commit`` of one call in one transaction: both or neither.

        A repeat with the token of the last ack and the same content commits nothing and
        gets the same answer; with other content it raises ``ClaimLost``. The call has no
        key.
        """
        ...

    def ack_part(self, proc: str, token: str, last_id: str, call: CommitCall) -> Op[AckResult]:
        """``ack_commit`` of the records up to ``last_id``, one of the claim's; the rest is free.

        What was not acked is handed out again by the next claim, and no reclaim is counted. The
        range of the answer ends with ``last_id``. Without parts nothing is committed. A repeat
        is answered as that of ``ack_commit``.
        """
        ...

    def reclaim(
        self, proc: str, token: str | None, failed_seq: int | None, error: str | None
    ) -> Op[str]:
        """Give the claim back; returns the range the proc falls back to, '' if none.

        Errors in order: ``ProcDisabled``, ``NothingToReclaim``, ``ClaimLost`` for a wrong
        token. Without a token whatever claim is outstanding is taken away. Counts one
        reclaim; at ``max_reclaims`` the strategy decides: ``disable`` disables the proc,
        ``continue`` goes on, ``dead_letter`` commits the failed record to ``<proc>-dead``
        in the same transaction and goes on behind it.
        """
        ...

    def keep_proc(self, proc: str) -> Op[None]:
        """Say that a proc with a time to live is still wanted."""
        ...

    def inspect(self, proc: str) -> Op[ProcInfo]:
        """Return what is known of the proc."""
        ...

    def procs(self, topic: str | None) -> Op[list[ProcInfo]]:
        """List procs by name, of one topic or of all."""
        ...

    def disable(self, proc: str) -> Op[ProcInfo]:
        """Stop handing out records; ``ProcAlreadyDisabled`` if so. A claim stays as it is."""
        ...

    def resume(self, proc: str) -> Op[ProcInfo]:
        """Hand out records again, reclaims at 0; ``ProcAlreadyActive`` if so."""
        ...

    def destroy(self, proc: str) -> Op[ProcInfo]:
        """Remove the proc and its claim; returns its last state. No other proc is touched."""
        ...

    def seek(self, proc: str, offset: str) -> Op[ProcInfo]:
        """Move the proc as if it were made now with this offset; drops its claim.

        ``UnknownSeq`` as in ``create_proc``.
        """
        ...

    def update_proc(self, proc: str, changes: ProcChanges) -> Op[ProcInfo]:
        """Change settings; they count from the next claim or reclaim on."""
        ...

    def lag(self, proc: str) -> Op[Lag]:
        """How many records are not acked, and how old the oldest of them is."""
        ...

    def pending(self, procs: Sequence[str] | None) -> Op[list[str]]:
        """Names of active procs (of those named, or all) that have not acked everything.

        The name of a pipeline stands for its procs. A name that is neither raises
        ``UnknownProc``.
        """
        ...


class Session(TopicStore, ProcStore, QueueStore, LockStore, Protocol):
    """The operations of a store inside a transaction that somebody else ends.

    An operation that raises leaves no trace of itself, and the transaction goes on. Nothing
    is retried. Where the store ``numbers_at_commit``, the outcome of a commit is
    ``Promised`` and its records are invisible here; elsewhere it is ``Committed``, with
    numbers that are lost again if the transaction is rolled back.
    """

    def run(self, op: Op[T]) -> T:
        """Execute an operation in the transaction."""
        ...

    async def arun(self, op: Op[T]) -> T:
        """Execute an operation in the transaction without blocking the event loop."""
        ...


class MaintenanceStore(Protocol):
    """Chores that keep a store small. Nothing correct depends on when they are done."""

    def set_ages(self, topic: str, min_age_ms: int | None, max_age_ms: int | None) -> Op[TopicInfo]:
        """Say how long a topic keeps its records; ``UnknownTopic`` if it has none.

        With ``min_age_ms`` records older than that are collected once every proc, disabled
        ones included, has passed them and the range it claimed before its last one. With
        ``max_age_ms`` records older than that are collected whoever needs them: a proc that
        is overtaken is told at its next claim, every time, until it is sought. With neither,
        nothing is collected.
        """
        ...

    def collect(self, topic: str) -> Op[Collected]:
        """Collect one topic by its ages.

        ``first_seq`` moves exactly to the rule's position, in one transaction that excludes
        commits, new procs and seeks of this topic; reads never show what lies below. Rows
        that lie below as a whole are removed, a bounded number per call.
        """
        ...

    def collectable(self) -> Op[list[str]]:
        """Topics that have an age set."""
        ...

    def take_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        """Take a chore for some time, unless somebody else has it (or ``force``)."""
        ...

    def expire(self) -> Op[list[str]]:
        """Remove procs whose time to live is over, and keys that have run out; the procs."""
        ...


class DiagnosisStore(Protocol):
    """A look at the database itself."""

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        """Look at the engine, its settings and its state; one finding per check.

        Changes nothing, and needs no more rights than reading records does. Every driver
        has the checks ``engine``, ``durability``, ``topics`` (is one dated ahead of the
        clock?) and ``size``, and those with tables ``schema``; the others are its own.
        ``deep`` also reads what takes long.
        """
        ...


class Store(
    TopicStore,
    ProcStore,
    PipelineStore,
    QueueStore,
    SinkStore,
    LockStore,
    CounterStore,
    MaintenanceStore,
    DiagnosisStore,
    Protocol,
):
    """A database with Headrace in it.

    ``run`` and ``arun`` execute an operation, alone in its transaction, and emit one
    telemetry event. They retry by themselves, until the store's patience ends, whatever
    is safe to retry: deadlocks and serialisation failures, a busy database, and a lost
    connection as long as COMMIT was not sent. After a COMMIT whose answer was lost they
    find out what became of it; ``OutcomeUnknown`` is raised only when nobody can tell any
    more. ``StoreUnavailable`` and ``StoreBusy`` mean that nothing was written.

    Cancelling ``arun`` waits for an outcome that is already under way.

    A store may be used from many threads, or from many tasks of one event loop. After a
    fork the child opens connections of its own.

    ``url`` is what it was opened with, for other processes that are to open the same one.
    """

    url: str

    @property
    def name(self) -> str:
        """The driver's name, for people."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do beyond the contract."""
        ...

    def run(self, op: Op[T]) -> T:
        """Execute an operation and wait for it."""
        ...

    async def arun(self, op: Op[T]) -> T:
        """Execute an operation without blocking the event loop."""
        ...

    def waiter(self, topic: str) -> Waiter:
        """One who waits for records of a topic: woken at once by commits of this process,
        within milliseconds by other processes where that is possible, and never later than
        a look every quarter of a second, or every second if hints are proven to arrive. They may
        be lost or come for nothing."""
        ...

    def transaction(self) -> AbstractContextManager[Session]:
        """A transaction of our own for several operations: committed when the block ends,
        rolled back when it raises. Only where the store ``composes``."""
        ...

    def atransaction(self) -> AbstractAsyncContextManager[Session]:
        """The same for async code."""
        ...

    def using(self, connection: Any) -> Session:
        """Take part in the user's open transaction on a connection of the user's own.

        ``InvalidOption`` for a kind of connection the store does not know, one to another
        database, or one in autocommit. Committing is the user's.
        """
        ...

    def ausing(self, connection: Any) -> Session:
        """The same for async code."""
        ...

    def close(self) -> None:
        """Release what ``run`` opened. Idempotent."""
        ...

    async def aclose(self) -> None:
        """Release what ``arun`` opened. Idempotent."""
        ...
