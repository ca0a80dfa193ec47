"""Sinks in SQL: fences, keys and the last batch of each sink. Each driver stages rows in its own
way."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.contract.items import PushCall
from headrace.contract.op import Op, Steps
from headrace.contract.sink_rules import (
    as_replay,
    decode_published,
    digest_of,
    encode_published,
    records_of,
    replayed,
    unknown_sink,
)
from headrace.contract.sinks import Publication, Published, SinkInfo
from headrace.contract.values import AckAnswer, Committed, SeqSpan
from headrace.drivers.sql_common.statements import Notify, Row
from headrace.drivers.sql_common.topics import Head
from headrace.model.queues.items import Document

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

KEY_MS: Final = 24 * 3600 * 1000
SCOPE: Final = "publish"
MAX_STAGES: Final = 1000

_decode_documents = msgspec.json.Decoder(Document).decode_lines


class SqlSinks(ABC):
    """The operations of sinks over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def publish(self, publication: Publication) -> Op[Published]:
        # Repeatable: after a lost COMMIT the fence or the key returns the first answer.
        return Op("sinks.publish", lambda: self._publish(publication), repeatable=True)

    def _publish(self, publication: Publication) -> Steps[Published]:
        before = yield from self._enter(publication)
        if before is not None:
            return before
        published = yield from self.published(publication)
        yield from self._leave(publication, published)
        return published

    def ack_publish(self, proc: str, token: str, publication: Publication) -> Op[AckAnswer]:
        def write() -> Steps[Committed]:
            published = yield from self.published(publication)
            return Committed(published.ts, published.spans)

        digest = digest_of(publication)
        return Op(
            "sinks.ack_publish",
            lambda: self._context.procs.acked(proc, token, digest, write),
            repeatable=True,
        )

    @abstractmethod
    def published(self, publication: Publication) -> Steps[Published]:
        """Move staged rows to their topics and queues."""

    def _enter(self, publication: Publication) -> Steps[Published | None]:
        """The earlier answer under this fence or key; None if it is new."""
        fence = publication.fence
        if fence is not None:
            _, [row] = yield (
                self.sql.add_sink(sink=fence.sink, query=fence.query, now=self.clock()),
                self.sql.lock_sink(sink=fence.sink, now=self.clock()),
            )
            return replayed(_sink(row), publication)
        if publication.key is None:
            return None
        taken = yield self.sql.reserve_keys(
            scope=SCOPE, keys=[publication.key], ttls=[KEY_MS], digests=[""], now=self.clock()
        )
        if taken:
            return None
        [row] = yield self.sql.read_keys(scope=SCOPE, keys=[publication.key])
        return as_replay(decode_published(row["outcome"]))

    def _leave(self, publication: Publication, published: Published) -> Steps[None]:
        outcome = encode_published(published)
        fence = publication.fence
        if fence is not None:
            yield self.sql.advance_sink(
                sink=fence.sink, batch=fence.batch, outcome=outcome, now=self.clock()
            )
        elif publication.key is not None:
            yield self.sql.save_key_outcomes(scope=SCOPE, key=publication.key, outcome=outcome)

    def heads_of(self, topics: builtins.list[str]) -> Steps[tuple[dict[str, Head], int]]:
        """The heads of topics, locked, and the time for new records in them."""
        if not topics:
            return {}, 0
        yield Notify(frozenset(topics))
        heads = yield from self._context.topics.lock_heads(sorted(topics))
        return heads, max(max(head.now, head.last_ts) for head in heads.values())

    def push_staged(self, queue: str, documents: str, publication: Publication) -> Steps[int]:
        """Push documents that were staged as JSON lines; returns how many were skipped."""
        call = PushCall(
            queue=queue, documents=tuple(_decode_documents(documents)), mode=publication.mode
        )
        pushed = yield from self._context.pushes.push_one(call)
        return sum(note.outcome == "skipped" for note in pushed.notes)

    def info(self, sink: str) -> Op[SinkInfo]:
        def steps() -> Steps[SinkInfo]:
            return _one((yield self.sql.find_sinks(sink=sink)), sink)

        return Op("sinks.info", steps, writes=False)

    def list(self) -> Op[builtins.list[SinkInfo]]:
        def steps() -> Steps[list[SinkInfo]]:
            return [_info(row) for row in (yield self.sql.find_sinks(sink=None))]

        return Op("sinks.list", steps, writes=False)

    def reset(self, sink: str) -> Op[SinkInfo]:
        def steps() -> Steps[SinkInfo]:
            return _one((yield self.sql.drop_sink(sink=sink)), sink)

        return Op("sinks.reset", steps)


def outcome_of(
    publication: Publication, heads: dict[str, Head], ts: int, skipped: int
) -> Published:
    """The answer of a publication whose records follow these heads."""
    records = records_of(publication.stages)
    spans = tuple(
        SeqSpan(name, head.next_seq, records[name]) for name, head in sorted(heads.items())
    )
    return Published(ts=ts, spans=spans, records=records, skipped=skipped)


def _one(rows: Iterable[Row], name: str) -> SinkInfo:
    for row in rows:
        return _info(row)
    raise unknown_sink(name)


def _sink(row: Row) -> SinkInfo | None:
    """The sink, or None if its row was only just made and has no batch yet."""
    return None if row["last_batch"] < 0 else _info(row)


def _info(row: Row) -> SinkInfo:
    return SinkInfo(
        name=row["name"],
        query=row["query_id"],
        batch=row["last_batch"],
        at=row["at"],
        published=decode_published(row["outcome"]),
    )
