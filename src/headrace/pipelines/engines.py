"""Engines: what calls the processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from headrace.contract.sinks import Staged
from headrace.errors import InvalidOption
from headrace.model.pipelines import EngineName
from headrace.pipelines.invoke import CallFailure, call, call_each, close_loop, outcomes_of
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import RangeOutcome
from headrace.pipelines.rows import Rows
from headrace.pipelines.time_limits import CallAbandoned, LimitedThreads

ENGINES: tuple[EngineName, ...] = ("spark", "inline")

MIN_PARTITIONED_RECORDS = 50_000
"""From this many records on, executors read a claim themselves instead of getting it sent."""


class PartitionedClaim(NamedTuple):
    """A claim whose records executors read from the store themselves."""

    topic: str
    first_seq: int
    last_seq: int
    skipped: Sequence[int]
    targets: Sequence[str]

    @property
    def records(self) -> int:
        """The number of records, without those that are skipped."""
        skipped = sum(self.first_seq <= seq <= self.last_seq for seq in self.skipped)
        return self.last_seq - self.first_seq + 1 - skipped


class PartitionedOutcome(NamedTuple):
    """The stages of a partitioned claim, and the first record that failed, if one did."""

    stages: tuple[Staged, ...]
    failed_seq: int | None


class PipelineEngine(Protocol):
    """Processes the rows of claims. Used by several threads concurrently."""

    name: EngineName

    def can_partition(self, processor: Processor, url: str) -> bool:
        """Whether executors can read records from the store at ``url`` themselves."""
        ...

    def process_partitioned(
        self,
        processor: Processor,
        claim: PartitionedClaim,
        url: str,
        *,
        max_body: int,
        timeout: float | None,
    ) -> PartitionedOutcome:
        """Process a claim and stage its results, to be published with its ack."""
        ...

    def check(self, processor: Processor) -> None:
        """Raise ``InvalidOption`` if the engine cannot run this processor."""
        ...

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        max_body: int,
        is_separate: bool,
        timeout: float | None,
    ) -> list[RangeOutcome]:
        """See ``invoke.call``; ``timeout`` is how many seconds one call may take.

        An exception is a failure of the engine: it saw no record fail. A record may be the reason
        nevertheless, if it crashed a worker.
        """
        ...

    def check_alive(self) -> None:
        """Raise if the engine cannot process any record."""
        ...

    def end_thread(self) -> None:
        """Release what belongs to the calling thread, which makes no further calls."""
        ...


class InlineEngine:
    """Calls processors in this process, without a JVM."""

    name: EngineName = "inline"

    def __init__(self) -> None:
        self._limited_threads = LimitedThreads()

    def can_partition(self, processor: Processor, url: str) -> bool:
        return False

    def process_partitioned(
        self,
        processor: Processor,
        claim: PartitionedClaim,
        url: str,
        *,
        max_body: int,
        timeout: float | None,
    ) -> PartitionedOutcome:
        raise NotImplementedError  # never called: ``can_partition`` is False

    def check(self, processor: Processor) -> None:
        if processor.kind == "frame":
            raise InvalidOption(
                f"processor {processor.name} takes a Spark DataFrame, which the inline engine does "
                "not have: run it with engine='spark'.",
                option="engine",
            )

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        max_body: int,
        is_separate: bool,
        timeout: float | None,
    ) -> list[RangeOutcome]:
        if timeout is None:
            return call(processor, rows, max_body=max_body, is_separate=is_separate)
        if processor.kind == "batch":
            return self._limited_threads.call(
                lambda limit: call(processor, rows, max_body=max_body, limit=limit), timeout
            )
        results: list[Any] = []
        try:
            self._limited_threads.call(
                lambda limit: call_each(processor, rows, results, limit), timeout
            )
        except CallAbandoned as error:
            if processor.is_async:
                raise  # several records were in progress
            results = [*results, CallFailure(error)]
        return outcomes_of(rows, results, max_body=max_body, is_separate=is_separate)

    def check_alive(self) -> None:
        self._limited_threads.check()

    def end_thread(self) -> None:
        close_loop()
        self._limited_threads.end(close_loop)


def open_engine(
    name: EngineName, *, master: str | None = None, spark: Any = None
) -> PipelineEngine:
    """Start the engine of that name: on a Spark master, or in the session ``spark``."""
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
