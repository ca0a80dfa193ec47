"""What goes into operations and comes out of them.

All of these encode and decode with msgspec: the same values travel over HTTP and to
Spark's executors.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.model.topics.positions import OPEN, Position, record_id
from headrace.model.topics.records import Batch, StoredBatch, TopicInfo


class CommitPart(msgspec.Struct, frozen=True, gc=False):
    """``count`` records for one topic, as JSON lines: one row of the batch table."""

    topic: str
    count: int
    body: str
    headers: str | None = None


class CommitCall(msgspec.Struct, frozen=True, kw_only=True):
    """One caller's records, in order, and its idempotency key if it has one."""

    parts: tuple[CommitPart, ...]
    key: str | None = None
    digest: str | None = None
    key_ttl_ms: int = 24 * 3600 * 1000


class SeqSpan(msgspec.Struct, frozen=True, gc=False):
    """``count`` neighbouring records of a topic."""

    topic: str
    first_seq: int
    count: int


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """A call's records are in the log: one span per part, all with one timestamp.

    ``ahead_ms`` is how far the timestamp lies beyond the clock: a clock that ran ahead once
    pins the topics it touched until the real time comes.
    """

    ts: int
    spans: tuple[SeqSpan, ...]
    ahead_ms: int = 0

    def ids(self) -> list[str]:
        """The ids of all records, part by part."""
        before_seq = record_id(self.ts, "")
        return [
            f"{before_seq}{seq}"
            for span in self.spans
            for seq in range(span.first_seq, span.first_seq + span.count)
        ]


class KeyConflict(msgspec.Struct, frozen=True, tag="key_conflict"):
    """The call's key was used before with other content; nothing of the call was written."""

    key: str


class PromisedRow(msgspec.Struct, frozen=True, gc=False):
    """A row that is written, and numbered at COMMIT."""

    topic: str
    id: str


class Promised(msgspec.Struct, frozen=True, tag="promised"):
    """A call's records are written in an open transaction and numbered when it commits.

    ``rows`` are the first row of each topic, ``counts`` the (topic, count) of each part,
    ``since`` a time before which the records are certainly not dated.
    """

    rows: tuple[PromisedRow, ...]
    counts: tuple[tuple[str, int], ...]
    since: int


CommitOutcome = Committed | Promised | KeyConflict


class RangeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a topic to read, and how many at most.

    ``start`` and ``end`` are the low and the high end in either reading direction.
    """

    topic: str
    start: Position = OPEN
    end: Position = OPEN
    exclusive: bool = False
    descending: bool = False
    limit: int
    max_bytes: int


class Page(msgspec.Struct, frozen=True):
    """A stretch of a range: whole batches in reading order, of which ``first..last`` count.

    ``low..high`` is the whole range as it was found, narrowed to records that exist; it is
    empty when ``high < low``. Reading goes on behind ``last`` (before ``first``, when
    descending) until the range is done.
    """

    topic: TopicInfo
    low: int
    high: int
    first: int
    last: int
    batches: tuple[Batch, ...]


class StoredPage(msgspec.Struct, frozen=True):
    """Neighbouring batches as they are stored, of which the records ``first..last`` count."""

    topic: str
    first: int
    last: int
    batches: tuple[StoredBatch, ...]


class ProcSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A proc to be found, or made if there is none of that name.

    With a ``ttl_ms`` it lives only while it is used: maintenance removes a proc that had no
    claim, ack or ``procs.touch`` for that long.
    """

    name: str
    topic: str
    offset: str
    ttl_ms: int | None = None


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``procs.claim``.

    ``claimed`` has records; ``empty`` means that there are none to claim; ``busy`` that another
    claim is outstanding; ``disabled`` that the proc is disabled, perhaps by this very call;
    ``overtaken`` that the records from ``first_seq`` to ``last_seq`` were pruned before the proc
    had read them.
    """

    state: Literal["claimed", "empty", "busy", "disabled", "overtaken"]
    proc: str
    topic: str = ""
    first_seq: int = 0
    last_seq: int = -1
    deadline: int | None = None
    skipped: tuple[int, ...] = ()
    batches: tuple[Batch, ...] = ()
    error: str | None = None


class AckAnswer(msgspec.Struct, frozen=True):
    """The acknowledged range ``first..last``, and what was committed with it."""

    range: str
    committed: Committed | Promised | None = None


ALL_PARTS = frozenset(
    {
        "channels",
        "limits",
        "locks",
        "counters",
        "sinks",
        "pipelines",
        "tokens",
        "schedules",
        "admin",
    }
)
"""What a store may have beyond topics, procs and queues."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do beyond the contract. Ask this, never the driver's name.

    ``survives_restart``      committed data is still there after the process has ended.
    ``is_shared``             other processes can use the same store.
    ``resolves_outcome``      the outcome of a COMMIT can be found after its connection was lost.
    ``has_record_view``       a SQL view shows single records to anyone with a SQL shell.
    ``supports_transactions``  several operations can share a transaction, also the user's own.
    ``numbers_at_commit``     inside such a transaction records are numbered at COMMIT, so that
                              a long transaction blocks no other writer; their ids are known
                              afterwards, and the transaction itself does not see them.
    ``has_server``            another process does the work, and the caller's own can go on.
    ``parts``                 the parts of the store beyond topics, procs and queues, by name.
    """

    survives_restart: bool
    is_shared: bool
    resolves_outcome: bool
    has_record_view: bool
    supports_transactions: bool
    numbers_at_commit: bool
    has_server: bool
    parts: frozenset[str] = ALL_PARTS


Fact = str | int | float | bool | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a diagnosis, and its verdict.

    ``check`` is a stable name: the same check has the same name in every diagnosis. ``fail``
    means that a promise does not hold or that work cannot be done; ``warn`` that it may come to
    that. Every finding that is not ``ok`` has a next step. ``facts`` are for programs.
    """

    check: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    next_step: str = ""
    facts: dict[str, Fact] = {}
