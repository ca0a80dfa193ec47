"""Sinks: records and items that many processes write, and that become visible together.

Executors *stage* rows under tokens of their own; readers do not see them. When all executors are
done, one process *publishes* the tokens: all rows or none, and only once, however often it tries.
See ``contract.store`` for the rules of all parts.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.contract.values import AckAnswer, CommitPart, SeqSpan

QUEUE = "queue/"
"""The prefix of a queue's name where a target may be a topic or a queue."""


class StagedCount(msgspec.Struct, frozen=True):
    """How many rows, and records in them, were staged for a target (a topic, or a queue)."""

    target: str
    rows: int
    records: int


class Staged(msgspec.Struct, frozen=True):
    """What one attempt of a task reports as staged; ``sinks.publish`` checks it."""

    token: str
    counts: tuple[StagedCount, ...]


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """Which batch of which query a publication is, for a sink that accepts each batch once.

    With ``on_replay = check`` a replay must have as many records as the first run had.
    """

    sink: str
    query: str
    batch: int
    on_replay: Literal["check", "skip"] = "check"


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Stages to be published, in the order their records are to have.

    It counts once: by its ``fence``, or by its ``key`` for a day. ``mode`` is how documents
    enter their queues.
    """

    stages: tuple[Staged, ...]
    fence: Fence | None = None
    key: str | None = None
    mode: Literal["push", "upsert"] = "push"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published: the place of the records in each topic, all with one timestamp.

    ``records`` counts per target. ``skipped`` counts the documents for queues that were skipped,
    as a push skips a document whose item exists. A replay gets the answer of the first run.
    """

    ts: int = 0
    spans: tuple[SeqSpan, ...] = ()
    records: dict[str, int] = {}
    skipped: int = 0
    is_replay: bool = False


class SinkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A sink: the query that writes to it, its last batch, and what that published."""

    name: str
    query: str
    batch: int
    at: int
    published: Published

    @property
    def time(self) -> datetime:
        """When the last batch was published."""
        return datetime.fromtimestamp(self.at / 1000, UTC)


class SinkStore(Protocol):
    """Staging and publishing."""

    @writes(repeatable=True)
    def stage(self, token: str, parts: Sequence[CommitPart]) -> Op[None]:
        """Keep rows under a token, where no reader and no count finds them.

        A part's ``topic`` is a topic or, with the prefix ``queue/``, a queue: then its body is
        documents (``Document``) as JSON lines. A token belongs to one writer, which may stage
        more under it, in order. Relaxed: ``sinks.publish`` detects rows that a crash has lost.
        """
        ...

    @writes(repeatable=True)
    def publish(self, publication: Publication) -> Op[Published]:
        """Make staged rows part of their topics and queues, in one transaction.

        Records are numbered in the order of the stages and, within a stage, in the order of
        staging. They get one timestamp, as those of ``topics.commit`` do. Documents are pushed in
        the same order. ``StageLost`` if the rows or records under any token are not exactly those
        of its ``Staged``: nothing is written then.

        With a fence:

        - A sink that does not exist is made with this query.
        - The query's last batch is a replay: nothing is written, and the first answer is returned.
          ``SinkRewound`` if the numbers of records differ and ``on_replay`` is not ``skip``.
        - An older batch raises ``SinkRewound``, another query ``SinkTaken``.

        A key that was used is a replay.

        Where rows are staged in the database itself, the topics stay locked for a time that does
        not depend on how much is published.
        """
        ...

    @writes(repeatable=True)
    def ack_publish(self, proc: str, token: str, publication: Publication) -> Op[AckAnswer]:
        """``procs.ack`` and ``sinks.publish`` in one transaction: both or neither.

        A repeat with the token of the last ack and the same publication publishes nothing and
        gets the same answer; with another publication it raises ``ClaimLost``. The claim acts as
        the fence: the publication has neither a fence nor a key.
        """
        ...

    @writes(repeatable=True)
    def discard(self, tokens: Sequence[str]) -> Op[None]:
        """Remove the rows that are staged under tokens; published rows stay."""
        ...

    @writes()
    def prune_stages(self, age_ms: int) -> Op[int]:
        """Remove tokens under which nothing was staged for ``age_ms``; returns how many."""
        ...

    @reads
    def info(self, sink: str) -> Op[SinkInfo]:
        """The sink, or ``UnknownSink``."""
        ...

    @reads
    def list(self) -> Op[builtins.list[SinkInfo]]:
        """All sinks, by name."""
        ...

    @writes()
    def reset(self, sink: str) -> Op[SinkInfo]:
        """Forget a sink's query, so that another may write to it; returns its last state.

        ``UnknownSink`` if there is none. Published rows stay.
        """
        ...
