"""Large claims: executors read their partition of a claim, process it and stage the results.

Only sequence numbers pass through the driver, which then publishes all stages together with the
ack. The records never pass through the JVM: a task reads and stages them with the parts that the
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
from headrace.contract.values import CommitPart
from headrace.model.codec import cut_rows
from headrace.model.tokens import claim_token
from headrace.pipelines.engines import PartitionedClaim, PartitionedOutcome
from headrace.pipelines.invoke import call
from headrace.pipelines.processors import Processor
from headrace.pipelines.rows import Rows
from headrace.pipelines.source.ranges import SeqRange
from headrace.pipelines.spark_session import require_module
from headrace.pipelines.spark_task import SerializedProcessor, load_processor
from headrace.pipelines.store_location import StoreLocation, open_at
from headrace.pipelines.time_limits import worker_limit

FLUSH_BYTES = 4 * 1024 * 1024
PARTITION_COLUMNS = {"first_seq": "bigint", "staged": "string", "failed_seq": "bigint"}


@dataclass(frozen=True)
class PartitionTask:
    """Processes partitions of a claim, for ``mapInArrow`` over rows with their bounds."""

    serialized: SerializedProcessor
    location: StoreLocation
    claim: PartitionedClaim
    max_body: int
    timeout: float | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        processor, store = load_processor(self.serialized), open_at(self.location)
        for batch in batches:
            for bounds in batch.to_pylist():
                part = SeqRange(self.claim.topic, bounds["first"], bounds["last"])
                outcome = process_partition(
                    store, processor, self.claim, part, max_body=self.max_body, timeout=self.timeout
                )
                yield _row(bounds["first"], outcome.stages[0], outcome.failed_seq)


@dataclass(frozen=True)
class FrameTask:
    """Stages the rows of a DataFrame's partition for every target, for ``mapInArrow``."""

    location: StoreLocation
    targets: Sequence[str]
    max_body: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from headrace.pipelines.sink.options import SinkOptions
        from headrace.pipelines.sink.writer import TaskWriter

        store = open_at(self.location)
        first = next(batches, None)
        if first is None or not self.targets:
            return
        # Written for one topic and staged for each, since their rows are the same.
        options = SinkOptions(url=self.location.url, topic=self.targets[0], max_body=self.max_body)

        def stage(token: str, parts: Sequence[CommitPart]) -> None:
            copies = [replace(part, topic=topic) for topic in self.targets for part in parts]
            store.run(store.sinks.stage(token, copies))

        writer = TaskWriter(options, first.schema, stage)
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        staged = writer.write(chain([first], batches), number)
        counts = tuple(
            replace(count, target=topic) for topic in self.targets for count in staged.counts
        )
        yield _row(number, Staged(staged.token, counts), None)


def process_partition(
    store: Store,
    processor: Processor,
    claim: PartitionedClaim,
    part: SeqRange,
    *,
    max_body: int,
    timeout: float | None = None,
) -> PartitionedOutcome:
    """Read, process and stage the records of a partition of the claim, under its own token.

    It ends at the first record that fails: then nothing of the claim is published, and the driver
    discards the stages.
    """
    # Imported here: it needs pyarrow, which only executors need.
    from headrace.pipelines.source.pages import by_batch, pages

    stage_writer = _StageWriter(store, claim.targets)
    for page in pages(store, part):
        # Small portions are decoded and processed while they are in the CPU's cache.
        parts = by_batch(page) if processor.kind == "record" else [page]
        for rows in map(Rows.from_page, parts):
            kept = rows.without(claim.skipped) if claim.skipped else rows
            if not kept.count:
                continue
            with worker_limit(timeout) as limit:
                outcomes = call(processor, kept, max_body=max_body, limit=limit)
            for outcome in outcomes:
                if outcome.error is not None:
                    return PartitionedOutcome((stage_writer.finish(),), outcome.first_seq)
                stage_writer.add(outcome.lines)
    return PartitionedOutcome((stage_writer.finish(),), None)


def decode_partitions(table: Any) -> PartitionedOutcome:
    """The stages of all tasks, in the order of the topic, and the first record that failed."""
    rows = sorted(table.to_pylist(), key=lambda row: row["first_seq"])
    stages = tuple(msgspec.json.decode(row["staged"], type=Staged) for row in rows)
    failed = [row["failed_seq"] for row in rows if row["failed_seq"] is not None]
    return PartitionedOutcome(stages, min(failed, default=None))


def _row(first_seq: int, staged: Staged, failed_seq: int | None) -> Any:
    pa = require_module("pyarrow")
    names = [("first_seq", pa.int64()), ("staged", pa.string()), ("failed_seq", pa.int64())]
    values = {
        "first_seq": first_seq,
        "staged": msgspec.json.encode(staged).decode(),
        "failed_seq": failed_seq,
    }
    return pa.RecordBatch.from_pylist([values], schema=pa.schema(names))


class _StageWriter:
    """Stages lines for every target, a few megabytes at a time."""

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

    def finish(self) -> Staged:
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
        parts = [CommitPart(topic, *row) for topic in self._targets for row in cut]
        if parts:
            self._store.run(self._store.sinks.stage(self._token, parts))
        self._texts, self._bytes = [], 0
