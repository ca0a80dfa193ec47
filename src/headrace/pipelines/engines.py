"""Engines: who calls the processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from headrace.contract.sinks import Staged
from headrace.errors import InvalidOption
from headrace.pipelines.calling import call, close_loop
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import Piece
from headrace.pipelines.rows import Rows

EngineName = Literal["spark", "inline"]
ENGINES: tuple[EngineName, ...] = ("spark", "inline")


LARGE = 50_000
"""From so many records on a claim is worth to be shared out, and not to be sent around."""


class Span(NamedTuple):
    """A claim whose records executors read by themselves."""

    topic: str
    first_seq: int
    last_seq: int
    skipped: Sequence[int]
    targets: Sequence[str]


class SpanOutcome(NamedTuple):
    """What was staged for a span; with the first record that failed, if one did."""

    stages: tuple[Staged, ...]
    failed_seq: int | None


class Engine(Protocol):
    """Turns the rows of a claim into pieces. Used by many threads at once."""

    name: EngineName

    def takes_spans(self, processor: Processor, url: str) -> bool:
        """Whether it can process records of a store that it is only told the place of."""
        ...

    def process_span(
        self, processor: Processor, span: Span, url: str, *, max_body: int
    ) -> SpanOutcome:
        """Process a claim and stage its results, to be published with its ack."""
        ...

    def check(self, processor: Processor) -> None:
        """``InvalidOption`` if it cannot run such a processor."""
        ...

    def process(
        self, processor: Processor, rows: Rows, *, max_body: int, is_separate: bool
    ) -> list[Piece]:
        """See ``calling.call``. Raises only what is not the records' fault."""
        ...

    def rest(self) -> None:
        """This thread asks no more."""
        ...


class InlineEngine:
    """Calls processors here: no JVM, no wait."""

    name: EngineName = "inline"

    def takes_spans(self, processor: Processor, url: str) -> bool:
        return False

    def process_span(
        self, processor: Processor, span: Span, url: str, *, max_body: int
    ) -> SpanOutcome:
        raise NotImplementedError

    def check(self, processor: Processor) -> None:
        if processor.kind == "frame":
            raise InvalidOption(
                f"processor {processor.name} takes a Spark DataFrame, which the inline engine does "
                "not have: run it with engine='spark'.",
                option="engine",
            )

    def process(
        self, processor: Processor, rows: Rows, *, max_body: int, is_separate: bool
    ) -> list[Piece]:
        return call(processor, rows, max_body=max_body, is_separate=is_separate)

    def rest(self) -> None:
        close_loop()


def open_engine(name: EngineName, *, master: str | None = None, spark: Any = None) -> Engine:
    """The engine of that name, started: on a Spark master, or in a session that is given."""
    if name not in ENGINES:
        raise InvalidOption(
            f"engine is {name!r}: use one of {', '.join(ENGINES)}.", option="engine"
        )
    if name == "inline":
        if master is not None or spark is not None:
            option = "master" if master is not None else "spark"
            raise InvalidOption(f"the inline engine has no {option}.", option=option)
        return InlineEngine()
    from headrace.pipelines.spark_engine import SparkEngine

    return SparkEngine.open(master=master, spark=spark)
