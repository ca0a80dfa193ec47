"""Engines: who calls the processors."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from headrace.errors import InvalidOption
from headrace.pipelines.calling import call, close_loop
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import Piece
from headrace.pipelines.rows import Rows

EngineName = Literal["spark", "inline"]
ENGINES: tuple[EngineName, ...] = ("spark", "inline")


class Engine(Protocol):
    """Turns the rows of a claim into pieces. Used by many threads at once."""

    name: EngineName

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
