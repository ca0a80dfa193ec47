"""What runs in Spark's executors: load a processor, and call it with Arrow batches."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import HeadraceError
from headrace.model.pipelines import Kind
from headrace.pipelines.arrow import rows_of
from headrace.pipelines.invoke import call
from headrace.pipelines.processors import Processor, import_processor, processor_of
from headrace.pipelines.results import RangeOutcome
from headrace.pipelines.spark_session import require_module
from headrace.pipelines.time_limits import worker_limit

OUTCOME_COLUMNS = {
    "first_seq": "bigint",
    "last_seq": "bigint",
    "lines": "string",
    "error": "string",
}
"""The columns of the outcomes: a row for each, its lines joined by newlines."""

CANNOT_LOAD = "headrace: the executors cannot load the processor"
"""By this text the driver recognises that no record is to blame."""


class SerializedProcessor(NamedTuple):
    """A processor to send: its reference or its pickled function, and paths of its modules."""

    kind: Kind
    reference: str | None
    pickled: bytes | None
    paths: Sequence[str]
    name: str


@dataclass(frozen=True)
class SparkTask:
    """Calls a processor with each Arrow batch of a partition, for ``mapInArrow``."""

    serialized: SerializedProcessor
    max_body: int
    is_separate: bool
    topic: str
    timeout: float | None = None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa = require_module("pyarrow")
        processor = load_processor(self.serialized)
        if processor.kind == "batch":
            # A batch processor gets all records of a partition in one call.
            batches = iter(pa.Table.from_batches(list(batches)).combine_chunks().to_batches())
        for batch in batches:
            if batch.num_rows:
                # The limit is not for Spark, which may take any time to fetch the next batch.
                with worker_limit(self.timeout) as limit:
                    outcomes = call(
                        processor,
                        rows_of(batch, self.topic),
                        max_body=self.max_body,
                        is_separate=self.is_separate,
                        limit=limit,
                    )
                yield _encode_outcomes(outcomes)


def decode_outcomes(table: Any) -> list[RangeOutcome]:
    """The outcomes from a table of executors, in order."""
    columns = table.to_pydict()
    return [
        RangeOutcome(first, last, lines.split("\n") if lines else (), error)
        for first, last, lines, error in sorted(
            zip(*(columns[name] for name in table.column_names), strict=True),
            key=lambda row: row[0],
        )
    ]


def _encode_outcomes(outcomes: Sequence[RangeOutcome]) -> Any:
    pa = require_module("pyarrow")
    return pa.RecordBatch.from_arrays(
        [
            pa.array([outcome.first_seq for outcome in outcomes], pa.int64()),
            pa.array([outcome.last_seq for outcome in outcomes], pa.int64()),
            pa.array(["\n".join(outcome.lines) or None for outcome in outcomes], pa.string()),
            pa.array([outcome.error for outcome in outcomes], pa.string()),
        ],
        names=["first_seq", "last_seq", "lines", "error"],
    )


@lru_cache(maxsize=100)
def load_processor(serialized: SerializedProcessor) -> Processor:
    """Load the processor, once in each worker."""
    for path in serialized.paths:
        if path not in sys.path and Path(path).exists():
            sys.path.append(path)
    try:
        if serialized.reference is not None:
            function = import_processor(serialized.reference)
        else:
            assert serialized.pickled is not None
            function = pickle.loads(serialized.pickled)  # noqa: S301  # our own driver sent it
    except (Exception, SystemExit) as error:
        # The user's module may raise anything while it is imported.
        text = (
            str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        )
        raise RuntimeError(f"{CANNOT_LOAD} {serialized.name}: {text}") from error
    return processor_of(function, kind=serialized.kind, reference=serialized.reference)
