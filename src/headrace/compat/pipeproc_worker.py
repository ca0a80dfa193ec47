"""A worker process of a PipeProc client: ``python -m headrace.compat.pipeproc_worker``.

It runs the system procs that its client names on standard input, and no others: a processor that
only the database names is never loaded. It ends with its client, whose end closes standard input.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import IO, Any

import msgspec

from headrace._sync.headrace import Headrace, connect
from headrace.compat.pipeproc_processors import pipeline_processor
from headrace.compat.pipeproc_worker_messages import (
    RunRequest,
    StopRequest,
    WorkerAnswer,
    WorkerRequest,
    WorkerSetup,
)
from headrace.errors import HeadraceError, InvalidProcessor, SparkUnavailable, UnknownPipeline
from headrace.model.failures import words_of
from headrace.pipelines.engines import (
    PartitionedClaim,
    PartitionedOutcome,
    PipelineEngine,
    open_engine,
)
from headrace.pipelines.processors import Processor, processor_of
from headrace.pipelines.results import RangeOutcome
from headrace.pipelines.rows import Rows
from headrace.pipelines.runner import PipelineRunner
from headrace.pipelines.runners import open_runner

GRACE_SECONDS = 25.0
"""How long the end of the process waits for processors that run."""
EVENT_SECONDS = 0.2
"""A signal that arrives just before a wait does not end it, so each wait is short."""
FAILED = 3
_log = logging.getLogger("headrace")


class LimitedEngine:
    """An engine that processes ``concurrency`` claims at a time, and counts the records.

    ``on_limit`` is called once ``most`` records were processed; 0 is no limit.
    """

    def __init__(
        self, engine: PipelineEngine, concurrency: int, most: int, on_limit: Callable[[], None]
    ) -> None:
        self.name = engine.name
        self.can_partition = engine.can_partition
        self.check = engine.check
        self.check_alive = engine.check_alive
        self.end_thread = engine.end_thread
        self._engine = engine
        self._slots = threading.Semaphore(concurrency)
        self._lock = threading.Lock()
        self._most = most
        self._on_limit = on_limit
        self._processed = 0

    def process(
        self,
        processor: Processor,
        rows: Rows,
        *,
        max_body: int,
        is_separate: bool,
        timeout: float | None,
    ) -> list[RangeOutcome]:
        with self._slots:
            try:
                return self._engine.process(
                    processor, rows, max_body=max_body, is_separate=is_separate, timeout=timeout
                )
            finally:
                self._count(rows.count)

    def process_partitioned(
        self,
        processor: Processor,
        claim: PartitionedClaim,
        url: str,
        *,
        max_body: int,
        timeout: float | None,
    ) -> PartitionedOutcome:
        with self._slots:
            try:
                return self._engine.process_partitioned(
                    processor, claim, url, max_body=max_body, timeout=timeout
                )
            finally:
                self._count(claim.records)

    def _count(self, records: int) -> None:
        with self._lock:
            self._processed += records
            is_limit = 0 < self._most <= self._processed
        if is_limit:
            self._on_limit()


class SystemProcs:
    """The system procs of this process, each with a runner in a thread."""

    def __init__(
        self, client: Headrace, engine: PipelineEngine, on_end: Callable[[], None]
    ) -> None:
        self._client = client
        self._engine = engine
        self._on_end = on_end
        self._running: dict[str, tuple[PipelineRunner, threading.Thread]] = {}

    def handle(self, request: WorkerRequest) -> None:
        """Do what a request says, or raise why not."""
        if isinstance(request, StopRequest):
            self._stop([request.name])
            return
        options = request.options
        has_targets = options.get("to") is not None
        processor = pipeline_processor(request.processor, has_targets=has_targets)
        self._engine.check(processor_of(processor, kind=None))
        if request.is_new:
            self._client.pipelines.create(request.name, processor=processor, **options)
        self._stop([request.name])
        runner = open_runner(
            self._client,
            [request.name],
            {request.name: processor},
            self._engine,
        )
        thread = threading.Thread(target=self._run, args=(request.name, runner), daemon=True)
        self._running[request.name] = (runner, thread)
        thread.start()

    def stop_soon(self) -> None:
        """Claim nothing more."""
        for runner, _ in list(self._running.values()):
            runner.stop()

    def stop(self) -> None:
        """Stop all when their current logs are acked, or after a while."""
        self._stop(list(self._running))

    def _stop(self, names: list[str]) -> None:
        running = [self._running.pop(name) for name in names if name in self._running]
        for runner, _ in running:
            runner.stop()
        deadline = monotonic() + GRACE_SECONDS
        for _, thread in running:
            thread.join(max(deadline - monotonic(), 0.0))

    def _run(self, name: str, runner: PipelineRunner) -> None:
        try:
            runner.run()
        except UnknownPipeline:
            pass  # it was destroyed
        except SparkUnavailable as error:
            _log.error("system proc %s: %s", name, error, extra={"action": "system_proc"})
            self._on_end()  # the next process starts a new session
        except HeadraceError as error:
            _log.error("system proc %s ended: %s", name, error, extra={"action": "system_proc"})


def main() -> int:
    """Run system procs until standard input ends, a signal arrives or a limit is reached."""
    requests, answers = _own_pipes()
    events: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: events.put(0))
    try:
        setup = msgspec.json.decode(requests.readline(), type=WorkerSetup)
    except msgspec.DecodeError:
        return FAILED  # the client ended
    procs: SystemProcs | None = None

    def on_limit() -> None:
        # In a thread of a runner, which must not claim once more.
        if procs is not None:
            procs.stop_soon()
        events.put(0)

    try:
        client = connect(setup.url)
        engine = LimitedEngine(
            open_engine(setup.engine), setup.concurrency, setup.restart_after, on_limit
        )
    except HeadraceError as error:
        _answer(answers, error)
        return FAILED
    procs = SystemProcs(client, engine, lambda: events.put(FAILED))
    _answer(answers, None)
    threading.Thread(
        target=_serve, args=(requests, answers, procs, lambda: events.put(0)), daemon=True
    ).start()
    code = _next(events)
    procs.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without waiting for threads of processors that never return.
    os._exit(code)


def _serve(
    requests: IO[bytes], answers: int, procs: SystemProcs, on_end: Callable[[], None]
) -> None:
    kinds: Any = RunRequest | StopRequest
    for line in requests:
        error: HeadraceError | None = None
        try:
            procs.handle(msgspec.json.decode(line, type=kinds))
        except HeadraceError as raised:
            error = raised
        except Exception as raised:  # the client waits for an answer
            error = InvalidProcessor(words_of(raised), option="processor")
        _answer(answers, error)
    on_end()


def _answer(fd: int, error: HeadraceError | None) -> None:
    with contextlib.suppress(OSError):  # the client has ended
        os.write(fd, msgspec.json.encode(WorkerAnswer.of(error)) + b"\n")


def _next(events: queue.SimpleQueue[int]) -> int:
    while True:
        with contextlib.suppress(queue.Empty):
            return events.get(timeout=EVENT_SECONDS)


def _own_pipes() -> tuple[IO[bytes], int]:
    """Standard input and output, for messages only: processors may read and print."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), answers


if __name__ == "__main__":
    sys.exit(main())
