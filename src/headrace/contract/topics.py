"""Topics: what every driver implements. See ``contract.store`` for the rules of all parts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from headrace.contract.flags import have_keys, reads, writes
from headrace.contract.op import Op
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    Committed,
    Page,
    Promised,
    RangeQuery,
    StoredPage,
)
from headrace.model.topics.records import TopicInfo


class TopicStore(Protocol):
    """Append-only logs.

    A topic exists from its first record on. Its records have the seqs ``first_seq`` to
    ``next_seq - 1`` without a gap, in the order in which their commits became visible. Once a
    reader has seen seq n, no record with a seq <= n can appear later.
    """

    @writes(repeatable=have_keys)
    def commit(self, calls: Sequence[CommitCall]) -> Op[builtins.list[CommitOutcome]]:
        """Append the records of all calls in one transaction; one outcome per call, in order.

        All records get one timestamp: the clock, or the newest timestamp among the topics
        written to if that is later. So timestamps never fall within a topic. Each part gets the
        next ``count`` seqs of its topic, in the order of calls and parts. Heads of several topics
        are locked in one global order, and keys before heads, so that two commits cannot
        deadlock. Neighbouring parts of a topic, also of several calls, are stored as one row of
        up to about 128 KiB.

        A call with a key that was used less than ``key_ttl_ms`` ago writes nothing: its
        outcome is the first one if the digest is the same, else ``KeyConflict``. The other
        calls are not affected. A failed commit leaves no gap and no topic behind.

        Cost: independent of the topic's length; one row per topic and 128 KiB.
        """
        ...

    @reads
    def resolve(self, promised: Promised) -> Op[Committed | None]:
        """The outcome of a ``Promised`` commit; None if it did not commit, or not yet."""
        ...

    @reads
    def read(self, query: RangeQuery) -> Op[Page]:
        """Read one page: whole batches that cover the range, and which seqs of them count.

        Raises ``UnknownTopic`` when the topic has no records and never had any. Then raises
        ``UnknownSeq`` for a ``:seq`` end outside ``first_seq..next_seq - 1``; ``start`` is checked
        before ``end`` (when descending, the high end first). Full ids and timestamps need not
        exist. ``exclusive`` drops an exact end. It has no effect on timestamps, which mean the
        whole millisecond.

        A page covers at most ``limit`` records and stops early after the batch with which
        it passes ``max_bytes``; it always makes progress. No cursor or snapshot outlives
        the call.

        Cost: index look-ups and the batches read; independent of the topic's length.
        """
        ...

    @reads
    def read_stored(
        self, topic: str, low: int, high: int, limit: int, max_bytes: int
    ) -> Op[StoredPage]:
        """Read the records ``low`` to ``high`` as they are stored: ``topics.read``, but undecoded.

        For callers that decode many records together. ``low`` must exist: else ``UnknownTopic``,
        or ``UnknownSeq``. ``limit``, ``max_bytes`` and the cost are those of ``topics.read``.
        """
        ...

    @reads
    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[TopicInfo]]:
        """List topics with records, by name (in code point order), ``after`` excluded."""
        ...

    @reads
    def info(self, topic: str) -> Op[TopicInfo]:
        """Return a topic's head, or raise ``UnknownTopic``. Costs one row."""
        ...
