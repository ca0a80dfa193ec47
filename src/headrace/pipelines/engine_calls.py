"""Calls of an engine that survive its failures.

An engine may fail without saying which record is the reason: a lost executor, a worker that a
record crashed. A call is repeated first. If it keeps failing, the records are halved until the
one that fails alone is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError
from headrace.pipelines.engines import PartitionedClaim, PartitionedOutcome, PipelineEngine
from headrace.pipelines.processors import Processor
from headrace.pipelines.results import RangeOutcome, format_error
from headrace.pipelines.rows import Rows
from headrace.pipelines.time_limits import CallAbandoned

T = TypeVar("T")

MAX_ENGINE_FAILURES = 3
"""How often an engine may fail with the same records before one of them is suspected."""


class EngineCalls:
    """Calls of one engine for one proc."""

    def __init__(self, engine: PipelineEngine, *, max_body: int) -> None:
        self.engine = engine
        self._max_body = max_body

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        is_separate: bool,
        timeout: float | None,
        is_suspected: bool = False,
    ) -> list[RangeOutcome]:
        """Process rows; if the engine fails, find the record that makes it fail.

        A record that crashes a worker leaves no trace of which one it was. So halves are tried,
        and halves of those. A record is to blame if it fails alone, repeatedly, while the engine
        can do other work. ``is_suspected`` says that the engine has failed with these rows before.
        """

        def attempt() -> list[RangeOutcome]:
            return self.engine.process(
                processor,
                rows,
                max_body=self._max_body,
                is_separate=is_separate,
                timeout=timeout,
            )

        try:
            return attempt() if is_suspected and rows.count > 1 else _repeat(attempt)
        except HeadraceError:
            raise
        except Exception as error:
            if rows.count == 1:
                self.engine.check_alive()
                return [RangeOutcome(rows.seqs[0], rows.seqs[0], error=format_error(error))]
        middle = rows.count // 2
        outcomes: list[RangeOutcome] = []
        for half in (rows.slice(0, middle), rows.slice(middle, rows.count)):
            outcomes += self.process(
                processor, half, is_separate=is_separate, timeout=timeout, is_suspected=True
            )
            if not outcomes or outcomes[-1].last_seq != half.seqs[-1]:
                break  # the outcomes of the second half would leave a gap
        return outcomes

    def process_partitioned(
        self, processor: Processor, claim: PartitionedClaim, url: str, timeout: float | None
    ) -> PartitionedOutcome:
        """Process a large claim; if the engine keeps failing, its last record counts as failed."""

        def attempt() -> PartitionedOutcome:
            return self.engine.process_partitioned(
                processor, claim, url, max_body=self._max_body, timeout=timeout
            )

        try:
            return _repeat(attempt)
        except HeadraceError:
            raise
        except Exception:
            self.engine.check_alive()
            # Any record may have crashed a worker: small claims will find it.
            return PartitionedOutcome((), claim.last_seq)


def _repeat(attempt: Callable[[], T]) -> T:
    for left in reversed(range(MAX_ENGINE_FAILURES)):
        try:
            return attempt()
        except (HeadraceError, CallAbandoned):
            raise
        except Exception:
            # A failure of the engine, not of a record: a lost executor comes back.
            if not left:
                raise
    raise AssertionError
