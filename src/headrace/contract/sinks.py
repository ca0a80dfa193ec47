"""Sinks: records and items that many processes write, and that appear all at once.

Executors *stage* rows under a token of their own; nobody sees them. When all are done, one
process *publishes* the tokens: all rows, or none, and once however often it is tried. See
``contract.store`` for what holds for all operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from headrace.contract.op import Op
from headrace.contract.values import AckResult, Part, Span

QUEUE = "queue/"
"""What stands before a queue's name where a part may go to a topic or to a queue."""


class StagedCount(msgspec.Struct, frozen=True):
    """How many rows, and records in them, were staged for a target (a topic, or a queue)."""

    target: str
    rows: int
    records: int


class Staged(msgspec.Struct, frozen=True):
    """What one attempt of a task says it has staged, for who publishes to check."""

    token: str
    counts: tuple[StagedCount, ...]


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """Which batch of which query a publication is, for a sink that takes each batch once.

    With ``on_replay = check`` a replay must have as many records as the first run had.
    """

    sink: str
    query: str
    batch: int
    on_replay: Literal["check", "skip"] = "check"


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Stages to be published, in the order their records are to have.

    It counts once: by its ``fence``, or by its ``key`` for a day. ``mode`` is how documents
    for queues are taken in.
    """

    stages: tuple[Staged, ...]
    fence: Fence | None = None
    key: str | None = None
    mode: Literal["push", "upsert"] = "push"


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published: the place of the records in each topic, all with one timestamp.

    ``records`` counts per target. Documents for queues that were left alone, as a push leaves
    alone what exists, are among ``skipped``. A replay is told what the first run was told.
    """

    ts: int = 0
    spans: tuple[Span, ...] = ()
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

    def stage(self, token: str, parts: Sequence[Part]) -> Op[None]:
        """Keep rows under a token, where no reader and no count finds them.

        A part's ``topic`` is a topic or, with ``queue/`` before it, a queue: then its body is
        documents (``Document``) as JSON lines. A token belongs to one writer, which may stage
        more under it, in order. Relaxed: what a crash takes away is missed by ``publish``.
        """
        ...

    def publish(self, publication: Publication) -> Op[Published]:
        """Make staged rows part of their topics and queues, in one transaction.

        Records are numbered in the order of the stages and, within each, in which they were
        staged; they get one timestamp as those of a ``commit`` do. Documents are pushed in the
        same order. ``StageLost`` if the rows or records under any token are not exactly those
        that it says: nothing is written then.

        With a fence: a sink that is not known is made with this query. The query's last batch
        again is a replay: nothing is written, and the first answer given (``SinkRewound`` if
        the numbers of records differ and the fence does not say ``skip``). An older batch is
        ``SinkRewound``, another query ``SinkTaken``. A key that was used is a replay.

        The topics stay locked for a time that does not depend on how much is published, where
        rows are staged in the database itself.
        """
        ...

    def ack_publish(self, proc: str, token: str, publication: Publication) -> Op[AckResult]:
        """``ack`` of a proc's claim and ``publish`` in one transaction: both or neither.

        A repeat with the token of the last ack and the same publication publishes nothing and
        gets the same answer; with another it raises ``ClaimLost``. The claim is the fence: the
        publication has no other, and no key.
        """
        ...

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        """Remove what is left under tokens; what was published stays."""
        ...

    def collect_stages(self, age_ms: int) -> Op[int]:
        """Remove tokens under which nothing was staged for so long; how many there were."""
        ...

    def sink_info(self, sink: str) -> Op[SinkInfo]:
        """What is known of a sink, or ``UnknownSink``."""
        ...

    def sinks(self) -> Op[list[SinkInfo]]:
        """All sinks, by name."""
        ...

    def reset_sink(self, sink: str) -> Op[SinkInfo]:
        """Forget a sink's query, so that another may write to it; its last state.

        ``UnknownSink`` if there is none. What was published stays.
        """
        ...
