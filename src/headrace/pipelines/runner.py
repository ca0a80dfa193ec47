"""The runner: many pipelines on one engine, a thread for each of their procs."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.contract.store import Store, Waiter
from headrace.errors import (
    HeadraceError,
    ProcDisabled,
    ProcOvertaken,
    SparkUnavailable,
    StoreError,
    UnknownPipeline,
    UnknownProc,
    UnknownTopic,
)
from headrace.model.failures import words_of
from headrace.model.pipelines import Defined, PipelineInfo, looped_topics
from headrace.model.topics.procs import DEFAULT_MAX_ATTEMPTS
from headrace.pipelines.drain_barrier import DrainBarrier
from headrace.pipelines.engines import PipelineEngine
from headrace.pipelines.heartbeat import PipelineHeartbeat
from headrace.pipelines.proc_runner import ProcRunner
from headrace.pipelines.processor_registry import ProcessorRegistry
from headrace.pipelines.progress import PipelineProgress, ProgressMeter
from headrace.pipelines.results import format_error
from headrace.pipelines.step import Step
from headrace.pipelines.trust import Trust
from headrace.worker.maintenance import MaintenanceService

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.01, 3.0
POLL_SECONDS = 1.0
"""The interval for changes that have no notification: a resumed proc, a new source."""
MAX_WAIT_SECONDS = 30.0
MAINTENANCE_JOIN_SECONDS = 5.0
"""How long the end of a runner waits for maintenance in progress."""

_log = logging.getLogger("headrace")


class PipelineRunner:
    """Runs pipelines until it is stopped, or once until all records are processed.

    ``names`` are the pipelines, None for all that are stored by name and that ``trust`` allows;
    ``inline`` has the functions that no other process can import. Any number of processes may run
    the same pipelines, since a proc has one claim at a time. While it runs, it also maintains the
    store, unless another client has just done so.
    """

    def __init__(
        self,
        store: Store,
        engine: PipelineEngine,
        *,
        names: Sequence[str] | None,
        inline: Mapping[str, Callable[..., Any]],
        trust: Trust,
        max_body: int,
        timeout: float | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._names = names
        self._trust = trust
        self._processors = ProcessorRegistry(inline, trust)
        self._max_body = max_body
        self._timeout = timeout
        self._heartbeat = PipelineHeartbeat(store)
        self._is_stopped = threading.Event()
        self._has_ended = threading.Event()
        self._has_ended.set()
        self._is_once = False
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._waiters: set[Waiter] = set()
        self._meters: dict[str, ProgressMeter] = {}
        self._barrier = DrainBarrier()
        self._end_seqs: dict[str, int] = {}
        self._failure: BaseException | None = None

    def run(self, *, once: bool = False) -> int:
        """Process records as they arrive, until ``stop``; returns how many were acked.

        ``once`` ends when all records are processed, including those that one of these pipelines
        commits for another. A pipeline whose results come back to its source, directly or through
        others, ends with the last record that was there when the run began. It raises the error of a pipeline that could not finish:
        ``ProcDisabled`` with its last error, for example. If the Spark session ends, the run ends
        with its error. Any other error concerns only its pipeline, which is retried while the
        others continue.
        """
        self._is_once = once
        self._has_ended.clear()
        # As for workers: something must end the expired leases of other runners.
        maintenance = MaintenanceService(self._store, _log_maintenance_error)
        maintenance.start()
        try:
            definitions = self._read_definitions()
            if self._names is not None:
                # A processor that cannot run is refused before anything is claimed. If all stored
                # pipelines run, it must not stop the others: its own thread reports it.
                for defined in definitions:
                    self._engine.check(self._processors.processor(defined))
            self._barrier.add_threads(sum(len(defined.procs) for defined in definitions))
            if once:
                self._end_seqs = self._read_end_seqs(definitions)
            for defined in definitions:
                self._start_threads(defined)
            if not once:
                self._poll_definitions()
            self._join()
        finally:
            self.stop()
            maintenance.end()
            self._join()
            maintenance.join(MAINTENANCE_JOIN_SECONDS)
            self._heartbeat.close()
            self._has_ended.set()
        if self._failure is not None:
            raise self._failure
        return sum(meter.moved for meter in self._meters.values())

    def stop(self) -> None:
        """End ``run`` when the current claims are acked; may be called in any thread."""
        self._is_stopped.set()
        self._barrier.abort()
        with self._lock:
            for waiter in self._waiters:
                waiter.wake()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of ``run``; whether it has ended. Its own threads do not wait."""
        if threading.current_thread() in self._threads.values():
            return False
        return self._has_ended.wait(seconds)

    def names(self) -> Sequence[str]:
        """The pipelines that it runs; without ``names``, those that are stored now."""
        if self._names is not None:
            return self._names
        return [info.name for info in self._stored() if self._trust.allows(info.processor)]

    def refused(self) -> list[PipelineInfo]:
        """Without ``names``: the stored pipelines whose functions this runner does not trust."""
        if self._names is not None:
            return []
        return [info for info in self._stored() if not self._trust.allows(info.processor)]

    def _stored(self) -> list[PipelineInfo]:
        pipelines = self._store.run(self._store.pipelines.list())
        return [info for info in pipelines if not info.is_inline]

    def progress(self) -> list[PipelineProgress]:
        """The progress of each pipeline, by name; reads the lag from the store."""
        return [
            meter.snapshot(name, self._lag(name)) for name, meter in sorted(self._meters.items())
        ]

    def _read_definitions(self) -> list[Defined]:
        return [self._store.run(self._store.pipelines.definition(name)) for name in self.names()]

    def _read_end_seqs(self, definitions: Sequence[Defined]) -> dict[str, int]:
        """The end, at this moment, of each topic that gets results made of its own records."""
        ends = dict.fromkeys(sorted(looped_topics(definitions)), 0)
        for topic in ends:
            with contextlib.suppress(UnknownTopic):
                ends[topic] = self._store.run(self._store.topics.info(topic)).next_seq
        return ends

    def _start_threads(self, defined: Defined) -> None:
        """Start a thread for each proc that has none."""
        meter = self._meters.setdefault(defined.name, ProgressMeter())
        for proc in defined.procs:
            with self._lock:
                running = self._threads.get(proc.name)
                if (running and running.is_alive()) or self._is_stopped.is_set():
                    continue
                proc_runner = ProcRunner(
                    self._store,
                    defined.name,
                    proc,
                    engine=self._engine,
                    processors=self._processors,
                    heartbeat=self._heartbeat,
                    max_body=self._max_body,
                    timeout=self._timeout,
                    end_seq=self._end_seqs.get(proc.topic),
                )
                thread = self._threads[proc.name] = threading.Thread(
                    target=self._run_thread,
                    args=(proc_runner, meter),
                    name=f"headrace-{proc.name}",
                    # A process that ends without a stop must not wait for this thread forever.
                    daemon=True,
                )
            thread.start()

    def _poll_definitions(self) -> None:
        """Until the end, start threads for new sources and, without ``names``, new pipelines."""
        while not self._is_stopped.wait(POLL_SECONDS):
            # The threads meet the same errors and report them.
            with contextlib.suppress(HeadraceError):
                for defined in self._read_definitions():
                    self._start_threads(defined)
            if self._names is not None and not any(t.is_alive() for t in self._threads.values()):
                return  # all pipelines were deleted

    def _join(self) -> None:
        for thread in list(self._threads.values()):
            thread.join()

    def _run_thread(self, proc_runner: ProcRunner, meter: ProgressMeter) -> None:
        """What a thread does from its start to its end."""
        waiter = self._store.waiter(proc_runner.topic)
        with self._lock:
            self._waiters.add(waiter)
        try:
            self._run_steps(proc_runner, meter, waiter)
        except SparkUnavailable as error:  # no pipeline can continue: run() raises it
            self._fail(meter, error)
            self.stop()
        except BaseException as error:  # a bug: it ends this pipeline only
            if self._is_once:
                self._fail(meter, error)
            else:
                meter.set_state("failing", format_error(error))
        finally:
            # Removed before it is closed: its descriptor may be reused, and must not be woken then.
            with self._lock:
                self._waiters.discard(waiter)
            waiter.close()
            self._barrier.remove_thread()
            self._engine.end_thread()

    def _run_steps(self, proc_runner: ProcRunner, meter: ProgressMeter, waiter: Waiter) -> None:
        """Step until the runner is stopped, the proc is gone or, with ``once``, all is done."""
        pause = MIN_PAUSE_SECONDS
        is_notified = True
        while not self._is_stopped.is_set():
            progress_count = self._barrier.progress_count
            try:
                # Without a notification, a read-only check comes before the claim.
                is_due = is_notified or self._is_behind(proc_runner)
                step = proc_runner.step() if is_due else Step("empty")
            except (UnknownProc, UnknownPipeline):
                meter.set_state("ended")
                return
            except (ProcDisabled, ProcOvertaken) as error:
                meter.set_state("disabled", str(error))
                if self._ends_run(error):
                    return
                waiter.wait(POLL_SECONDS)
                continue
            except Exception as error:
                if isinstance(error, SparkUnavailable) and error.missing != "processor":
                    raise
                # The database, the processor or the engine is unavailable: all may come back.
                is_ours = isinstance(error, HeadraceError)
                meter.set_state("failing", str(error) if is_ours else format_error(error))
                if not isinstance(error, StoreError) and self._ends_run(error):
                    return
                pause = self._back_off(pause)
                continue
            if step.kind == "moved":
                meter.add(step.moved, step.error, step.dead)
                self._barrier.notify_progress()
                pause, is_notified = MIN_PAUSE_SECONDS, True
            elif step.kind == "empty":
                if self._is_once:
                    if self._barrier.is_drained(progress_count):
                        return
                    is_notified = False
                    continue
                is_notified = waiter.wait(MAX_WAIT_SECONDS)
            elif step.kind == "failed":
                meter.set_state("failing", step.error)
                if self._is_once and step.tries >= DEFAULT_MAX_ATTEMPTS:
                    self._ends_run(_stuck_error(proc_runner.proc, step))
                    return
                pause, is_notified = self._back_off(pause), True
            else:
                # Another runner has the claim: its end is not notified.
                waiter.wait(pause)
                pause, is_notified = min(pause * 2, MAX_PAUSE_SECONDS), True

    def _back_off(self, pause: float) -> float:
        """Wait for about ``pause`` seconds, or until the runner is stopped; the next pause."""
        self._is_stopped.wait(pause * random.uniform(1, 1.5))
        return min(pause * 2, MAX_PAUSE_SECONDS)

    def _ends_run(self, error: Exception) -> bool:
        """Whether an error ends the thread: with ``once`` it does, and ``run`` raises it."""
        if self._is_once:
            with self._lock:
                self._failure = self._failure or error
        return self._is_once

    def _fail(self, meter: ProgressMeter, error: BaseException) -> None:
        meter.set_state("failing", str(error))
        with self._lock:
            self._failure = self._failure or error

    def _is_behind(self, proc_runner: ProcRunner) -> bool:
        return bool(self._store.run(self._store.procs.pending([proc_runner.proc])))

    def _lag(self, pipeline: str) -> int | None:
        try:
            procs = self._store.run(self._store.pipelines.definition(pipeline)).procs
            return sum(self._store.run(self._store.procs.lag(proc.name)).records for proc in procs)
        except HeadraceError:
            return None


def _log_maintenance_error(error: Exception) -> None:
    _log.warning("maintenance failed: %s", words_of(error), extra={"action": "maintain"})


def _stuck_error(proc: str, step: Step) -> HeadraceError:
    return ProcDisabled(
        f"proc {proc!r} does not get past a record that failed {step.tries} times: {step.error}.",
        proc=proc,
    )
