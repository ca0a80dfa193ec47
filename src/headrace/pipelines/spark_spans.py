"""Large claims: executors read their stretch of the topic, process it and stage the results.

Nothing but the numbers goes through the driver, which then publishes all stages together with
the ack. The records never pass through the JVM: a task reads and stages by itself, with what the
source and the sink for DataFrames are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.contract.sinks import Staged, StagedCount
from headrace.contract.store import Store
from headrace.contract.values import Part
from headrace.model.codec import cut_rows
from headrace.model.tokens import claim_token
from headrace.pipelines.calling import call
from headrace.pipelines.engines import Span, SpanOutcome
from headrace.pipelines.places import Place, opened
from headrace.pipelines.processors import Processor
from headrace.pipelines.rows import Rows
from headrace.pipelines.session import need_spark
from headrace.pipelines.spark_task import Shipped, unpacked

FLUSH_BYTES = 4 * 1024 * 1024
OUTCOME = {"first_seq": "bigint", "staged": "string", "failed_seq": "bigint"}


@dataclass(frozen=True)
class SpanTask:
    """Processes stretches of a topic, for ``mapInArrow`` over rows of their ends."""

    shipped: Shipped
    place: Place
    span: Span
    max_body: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        processor, store = unpacked(self.shipped), opened(self.place)
        for batch in batches:
            for ends in batch.to_pylist():
                done = process_stretch(
                    store, processor, self.span, ends["first"], ends["last"], self.max_body
                )
                yield _row(ends["first"], done.stages[0], done.failed_seq)


@dataclass(frozen=True)
class FrameTask:
    """Stages the rows of a DataFrame's partition for every target, for ``mapInArrow``."""

    place: Place
    targets: Sequence[str]
    max_body: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from headrace.pipelines.sink.options import SinkOptions
        from headrace.pipelines.sink.writer import TaskWriter

        store = opened(self.place)
        first = next(batches, None)
        if first is None or not self.targets:
            return
        # Written for one topic, staged for each: their rows are the same.
        options = SinkOptions(url=self.place.url, topic=self.targets[0], max_body=self.max_body)

        def stage(token: str, parts: Sequence[Part]) -> None:
            copies = [replace(part, topic=topic) for topic in self.targets for part in parts]
            store.run(store.stage(token, copies))

        writer = TaskWriter(options, first.schema, stage)
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        staged = writer.write(chain([first], batches), number)
        counts = tuple(
            replace(count, target=topic) for topic in self.targets for count in staged.counts
        )
        yield _row(number, Staged(staged.token, counts), None)


def process_stretch(
    store: Store, processor: Processor, span: Span, first: int, last: int, max_body: int
) -> SpanOutcome:
    """Read, process and stage the records ``first`` to ``last``, under a token of its own.

    It ends with the first record that fails: then nothing of the claim is published, and what
    was staged is discarded.
    """
    # pyarrow comes with it, which only executors need.
    from headrace.pipelines.source.pages import by_batch, pages
    from headrace.pipelines.source.ranges import SeqRange

    staging = _Staging(store, span.targets)
    for page in pages(store, SeqRange(span.topic, first, last)):
        # Records are decoded, processed and forgotten while they are in the processor's cache.
        parts = by_batch(page) if processor.kind == "record" else [page]
        for rows in map(Rows.stored, parts):
            wanted = rows.without(span.skipped) if span.skipped else rows
            if not wanted.count:
                continue
            for piece in call(processor, wanted, max_body=max_body):
                if piece.error is not None:
                    return SpanOutcome((staging.done(),), piece.first_seq)
                staging.add(piece.lines)
    return SpanOutcome((staging.done(),), None)


def decoded(table: Any) -> SpanOutcome:
    """What all tasks have staged, in the order of the topic, and the first record that failed."""
    rows = sorted(table.to_pylist(), key=lambda row: row["first_seq"])
    stages = tuple(msgspec.json.decode(row["staged"], type=Staged) for row in rows)
    failed = [row["failed_seq"] for row in rows if row["failed_seq"] is not None]
    return SpanOutcome(stages, min(failed, default=None))


def _row(place: int, staged: Staged, failed_seq: int | None) -> Any:
    pa = need_spark("pyarrow")
    names = [("first_seq", pa.int64()), ("staged", pa.string()), ("failed_seq", pa.int64())]
    values = {
        "first_seq": place,
        "staged": msgspec.json.encode(staged).decode(),
        "failed_seq": failed_seq,
    }
    return pa.RecordBatch.from_pylist([values], schema=pa.schema(names))


class _Staging:
    """Stages lines for every target, some megabytes at a time."""

    def __init__(self, store: Store, targets: Sequence[str]) -> None:
        self._store = store
        self._targets = targets
        self._token = claim_token()
        self._texts: list[str] = []
        self._bytes = 0
        self._counts = dict.fromkeys(targets, (0, 0))

    def add(self, lines: Sequence[str]) -> None:
        if lines:
            text = "\n".join(lines) + "\n"
            self._texts.append(text)
            self._bytes += len(text)
        if self._bytes >= FLUSH_BYTES:
            self._flush()

    def done(self) -> Staged:
        self._flush()
        return Staged(
            self._token,
            tuple(
                StagedCount(topic, rows, records)
                for topic, (rows, records) in self._counts.items()
                if rows
            ),
        )

    def _flush(self) -> None:
        cut = cut_rows("".join(self._texts))
        for topic, (rows, records) in self._counts.items():
            self._counts[topic] = rows + len(cut), records + sum(count for count, *_ in cut)
        parts = [Part(topic, *row) for topic in self._targets for row in cut]
        if parts:
            self._store.run(self._store.stage(self._token, parts))
        self._texts, self._bytes = [], 0
