"""Sinks in memory."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.items import PushCall, Pushed
from headrace.contract.op import Op
from headrace.contract.sink_rules import (
    as_replay,
    check_stage,
    digest_of,
    records_of,
    replayed,
    topics_of,
    unknown_sink,
)
from headrace.contract.sinks import QUEUE, Publication, Published, SinkInfo
from headrace.contract.values import AckAnswer, CommitPart, Committed, SeqSpan
from headrace.drivers.memory.topics import immediate
from headrace.model.queues.items import Document

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext

KEY_MS = 24 * 3600 * 1000

_decode_documents = msgspec.json.Decoder(Document).decode_lines


class MemorySinks:
    """The operations of sinks."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def stage(self, token: str, parts: Sequence[CommitPart]) -> Op[None]:
        def act() -> None:
            _, before = self.data.staged.get(token, (0, ()))
            self._context.topics.put(self.data.staged, token, (self.now(), (*before, *parts)))

        return immediate("sinks.stage", act)

    def publish(self, publication: Publication) -> Op[Published]:
        return immediate("sinks.publish", lambda: self._publish(publication))

    def _publish(self, publication: Publication) -> Published:
        fence, key = publication.fence, publication.key
        before = replayed(self.data.sinks.get(fence.sink), publication) if fence else None
        if key is not None and self.data.once_published.get(key, (0,))[0] > self.now():
            before = as_replay(self.data.once_published[key][1])
        if before is not None:
            return before
        published = self._move_staged(publication)
        if fence is not None:
            info = SinkInfo(
                name=fence.sink,
                query=fence.query,
                batch=fence.batch,
                at=self.now(),
                published=published,
            )
            self._context.topics.put(self.data.sinks, fence.sink, info)
        elif key is not None:
            self._context.topics.put(
                self.data.once_published, key, (self.now() + KEY_MS, published)
            )
        return published

    def ack_publish(self, proc: str, token: str, publication: Publication) -> Op[AckAnswer]:
        def write() -> Committed:
            published = self._move_staged(publication)
            return Committed(published.ts, published.spans)

        digest = digest_of(publication)
        return immediate(
            "sinks.ack_publish", lambda: self._context.procs.acked(proc, token, digest, write)
        )

    def _move_staged(self, publication: Publication) -> Published:
        records = records_of(publication.stages)
        spans = tuple(
            SeqSpan(name, self._context.topics.topic_data(name).next_seq, records[name])
            for name in topics_of(records)
        )
        parts: list[CommitPart] = []
        skipped = 0
        for stage in publication.stages:
            mine = self.data.staged.get(stage.token, (0, ()))[1]
            check_stage(stage, _counted(mine))
            for part in mine:
                if part.topic.startswith(QUEUE):
                    skipped += self._push_staged(part, publication)
                else:
                    parts.append(part)
            self._context.topics.put(self.data.staged, stage.token, None)
        written = self._context.topics.append(parts)
        return Published(ts=written.ts, spans=spans, records=records, skipped=skipped)

    def _push_staged(self, part: CommitPart, publication: Publication) -> int:
        call = PushCall(
            queue=part.topic.removeprefix(QUEUE),
            documents=tuple(_decode_documents(part.body)),
            mode=publication.mode,
        )
        pushed = self._context.pushes.push_one(call)
        assert isinstance(pushed, Pushed), "a call without a key has no conflict"
        return sum(note.outcome == "skipped" for note in pushed.notes)

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        def act() -> None:
            for token in tokens:
                self._context.topics.put(self.data.staged, token, None)

        return immediate("sinks.discard", act)

    def prune_stages(self, age_ms: int) -> Op[int]:
        def act() -> int:
            latest = self.now() - age_ms
            old = [token for token, (at, _) in self.data.staged.items() if at <= latest]
            for token in old:
                self._context.topics.put(self.data.staged, token, None)
            return len(old)

        return immediate("sinks.prune_stages", act)

    def info(self, sink: str) -> Op[SinkInfo]:
        return immediate("sinks.info", lambda: self._sink(sink), writes=False)

    def _sink(self, name: str) -> SinkInfo:
        if name not in self.data.sinks:
            raise unknown_sink(name)
        return self.data.sinks[name]

    def list(self) -> Op[builtins.list[SinkInfo]]:
        def act() -> list[SinkInfo]:
            return [self.data.sinks[name] for name in sorted(self.data.sinks)]

        return immediate("sinks.list", act, writes=False)

    def reset(self, sink: str) -> Op[SinkInfo]:
        def act() -> SinkInfo:
            info = self._sink(sink)
            self._context.topics.put(self.data.sinks, sink, None)
            return info

        return immediate("sinks.reset", act)


def _counted(parts: Sequence[CommitPart]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        rows, records = found.get(part.topic, (0, 0))
        found[part.topic] = (rows + 1, records + part.count)
    return found
