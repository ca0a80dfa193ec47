"""Sinks in memory."""

from __future__ import annotations

from collections.abc import Sequence

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
from headrace.contract.values import AckResult, Committed, Part, Span
from headrace.drivers.memory.following import MemoryFollowing
from headrace.drivers.memory.topics import immediate
from headrace.model.items import Document

KEY_MS = 24 * 3600 * 1000

_decode_documents = msgspec.json.Decoder(Document).decode_lines


class MemorySinks(MemoryFollowing):
    """The operations of sinks."""

    def stage(self, token: str, parts: Sequence[Part]) -> Op[None]:
        def act() -> None:
            _, before = self.data.staged.get(token, (0, ()))
            self.put(self.data.staged, token, (self.now(), (*before, *parts)))

        return immediate("stage", act)

    def publish(self, publication: Publication) -> Op[Published]:
        return immediate("publish", lambda: self._publish(publication))

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
            self.put(self.data.sinks, fence.sink, info)
        elif key is not None:
            self.put(self.data.once_published, key, (self.now() + KEY_MS, published))
        return published

    def ack_publish(self, proc: str, token: str, publication: Publication) -> Op[AckResult]:
        def write() -> Committed:
            published = self._move_staged(publication)
            return Committed(published.ts, published.spans)

        digest = digest_of(publication)
        return immediate("ack_publish", lambda: self.acked(proc, token, digest, write))

    def _move_staged(self, publication: Publication) -> Published:
        records = records_of(publication.stages)
        spans = tuple(
            Span(name, self.topic_data(name).next_seq, records[name]) for name in topics_of(records)
        )
        parts: list[Part] = []
        skipped = 0
        for stage in publication.stages:
            mine = self.data.staged.get(stage.token, (0, ()))[1]
            check_stage(stage, _counted(mine))
            for part in mine:
                if part.topic.startswith(QUEUE):
                    skipped += self._push_staged(part, publication)
                else:
                    parts.append(part)
            self.put(self.data.staged, stage.token, None)
        written = self.append(parts)
        return Published(ts=written.ts, spans=spans, records=records, skipped=skipped)

    def _push_staged(self, part: Part, publication: Publication) -> int:
        call = PushCall(
            queue=part.topic.removeprefix(QUEUE),
            documents=tuple(_decode_documents(part.body)),
            mode=publication.mode,
        )
        pushed = self.push_one(call)
        assert isinstance(pushed, Pushed), "a call without a key has no conflict"
        return sum(note.outcome == "skipped" for note in pushed.notes)

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        def act() -> None:
            for token in tokens:
                self.put(self.data.staged, token, None)

        return immediate("discard", act)

    def collect_stages(self, age_ms: int) -> Op[int]:
        def act() -> int:
            latest = self.now() - age_ms
            old = [token for token, (at, _) in self.data.staged.items() if at <= latest]
            for token in old:
                self.put(self.data.staged, token, None)
            return len(old)

        return immediate("collect_stages", act)

    def sink_info(self, sink: str) -> Op[SinkInfo]:
        return immediate("sink_info", lambda: self._sink(sink), writes=False)

    def _sink(self, name: str) -> SinkInfo:
        if name not in self.data.sinks:
            raise unknown_sink(name)
        return self.data.sinks[name]

    def sinks(self) -> Op[list[SinkInfo]]:
        def act() -> list[SinkInfo]:
            return [self.data.sinks[name] for name in sorted(self.data.sinks)]

        return immediate("sinks", act, writes=False)

    def reset_sink(self, sink: str) -> Op[SinkInfo]:
        def act() -> SinkInfo:
            info = self._sink(sink)
            self.put(self.data.sinks, sink, None)
            return info

        return immediate("reset_sink", act)


def _counted(parts: Sequence[Part]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        rows, records = found.get(part.topic, (0, 0))
        found[part.topic] = (rows + 1, records + part.count)
    return found
