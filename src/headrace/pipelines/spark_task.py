"""What runs in Spark's executors: a processor, found there and called there."""

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
from headrace.pipelines.calling import call
from headrace.pipelines.processors import Processor, find, processor_of
from headrace.pipelines.results import Piece
from headrace.pipelines.session import need_spark

OUTCOME = {"first_seq": "bigint", "last_seq": "bigint", "lines": "string", "error": "string"}
"""The columns of what comes back: a row for each piece, its lines joined by newlines."""

CANNOT_LOAD = "headrace: the executors cannot load the processor"
"""By this the driver knows that it is not the records' fault."""


class Shipped(NamedTuple):
    """A processor on its way: by reference, or pickled, with where its modules may be."""

    kind: Kind
    reference: str | None
    pickled: bytes | None
    paths: Sequence[str]
    name: str


@dataclass(frozen=True)
class Task:
    """Calls a processor with each Arrow batch of a partition, for ``mapInArrow``."""

    shipped: Shipped
    max_body: int
    is_separate: bool
    topic: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa = need_spark("pyarrow")
        processor = unpacked(self.shipped)
        if processor.kind == "batch":
            # All records of a partition at once, however they travelled.
            batches = iter(pa.Table.from_batches(list(batches)).combine_chunks().to_batches())
        for batch in batches:
            if batch.num_rows:
                pieces = call(
                    processor,
                    rows_of(batch, self.topic),
                    max_body=self.max_body,
                    is_separate=self.is_separate,
                )
                yield _encoded(pieces)


def decoded(table: Any) -> list[Piece]:
    """The pieces that came back, in order."""
    columns = table.to_pydict()
    return [
        Piece(first, last, lines.split("\n") if lines else (), error)
        for first, last, lines, error in sorted(
            zip(*(columns[name] for name in table.column_names), strict=True),
            key=lambda row: row[0],
        )
    ]


def _encoded(pieces: Sequence[Piece]) -> Any:
    pa = need_spark("pyarrow")
    return pa.RecordBatch.from_arrays(
        [
            pa.array([piece.first_seq for piece in pieces], pa.int64()),
            pa.array([piece.last_seq for piece in pieces], pa.int64()),
            pa.array(["\n".join(piece.lines) or None for piece in pieces], pa.string()),
            pa.array([piece.error for piece in pieces], pa.string()),
        ],
        names=["first_seq", "last_seq", "lines", "error"],
    )


@lru_cache(maxsize=100)
def unpacked(shipped: Shipped) -> Processor:
    """The processor, once for each worker."""
    for path in shipped.paths:
        if path not in sys.path and Path(path).exists():
            sys.path.append(path)
    try:
        if shipped.reference is not None:
            function = find(shipped.reference)
        else:
            assert shipped.pickled is not None
            function = pickle.loads(shipped.pickled)  # noqa: S301  # our own driver sent it
    except (Exception, SystemExit) as error:
        # The user's code may raise anything while it is imported.
        text = (
            str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
        )
        raise RuntimeError(f"{CANNOT_LOAD} {shipped.name}: {text}") from error
    return processor_of(function, kind=shipped.kind, reference=shipped.reference)
