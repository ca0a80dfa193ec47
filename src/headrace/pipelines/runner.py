"""The runner: many pipelines on one engine, a thread for each of their procs."""

from __future__ import annotations

import contextlib
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
)
from headrace.model.pipelines import Defined
from headrace.model.procs import DEFAULT_MAX_RECLAIMS
from headrace.pipelines.beats import Pulse
from headrace.pipelines.ends import Ends
from headrace.pipelines.engines import Engine
from headrace.pipelines.lanes import Functions, Lane, Step
from headrace.pipelines.progress import Meter, PipelineProgress

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 3.0
GLANCE = 1.0
"""Seconds until a change is noticed that nobody signals: a resumed proc, a new source."""
LONGEST_WAIT = 30.0


class PipelineRunner:
    """Runs pipelines until it is stopped, or once through what is there.

    ``names`` are the pipelines, None for all whose processors can be imported; ``inline`` has the
    functions of those that cannot. Any number of processes may run the same pipelines: a proc
    hands out one claim at a time.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        *,
        names: Sequence[str] | None,
        inline: Mapping[str, Callable[..., Any]],
        max_body: int,
    ) -> None:
        self._store = store
        self._engine = engine
        self._names = names
        self._functions = Functions(inline)
        self._max_body = max_body
        self._pulse = Pulse(store)
        self._is_stopped = threading.Event()
        self._is_ended = threading.Event()
        self._is_ended.set()
        self._is_once = False
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self._waiters: set[Waiter] = set()
        self._meters: dict[str, Meter] = {}
        self._ends = Ends()
        self._failure: BaseException | None = None

    def run(self, *, once: bool = False) -> int:
        """Process records as they come, until ``stop``; how many were acked.

        ``once`` ends when all that is there is processed, also what one of these pipelines
        commits for another, and raises the error of a pipeline that
        could not be: ``ProcDisabled`` with its last error, for example. An engine that fails for
        good ends the run with its error.
        """
        self._is_once = once
        self._is_ended.clear()
        try:
            found = self._defined()
            # Whatever cannot be run is told before anything is claimed.
            for defined in found:
                self._engine.check(self._functions.processor(defined))
            self._ends.expect(sum(len(defined.lanes) for defined in found))
            for defined in found:
                self._begin(defined)
            if not once:
                self._watch()
            self._join()
        finally:
            self.stop()
            self._join()
            self._pulse.close()
            self._is_ended.set()
        if self._failure is not None:
            raise self._failure
        return sum(meter.moved for meter in self._meters.values())

    def stop(self) -> None:
        """End ``run`` when the claims under way are acked; from any thread."""
        self._is_stopped.set()
        self._ends.give_up()
        with self._lock:
            for waiter in self._waiters:
                waiter.wake()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of ``run``, if it runs; whether it has ended. Not for its own threads."""
        if threading.current_thread() in self._threads.values():
            return False
        return self._is_ended.wait(seconds)

    def names(self) -> Sequence[str]:
        """The pipelines that it runs; where all are run, those there are now."""
        if self._names is not None:
            return self._names
        found = self._store.run(self._store.pipelines())
        return [info.name for info in found if not info.is_inline]

    def progress(self) -> list[PipelineProgress]:
        """How far each pipeline is, by name. Asks the store for the lag."""
        return [meter.look(name, self._lag(name)) for name, meter in sorted(self._meters.items())]

    def _defined(self) -> list[Defined]:
        return [self._store.run(self._store.definition(name)) for name in self.names()]

    def _begin(self, defined: Defined) -> None:
        """A thread for each proc that has none."""
        meter = self._meters.setdefault(defined.name, Meter())
        for lane in defined.lanes:
            with self._lock:
                running = self._threads.get(lane.proc)
                if (running and running.is_alive()) or self._is_stopped.is_set():
                    continue
                work = Lane(
                    self._store,
                    defined.name,
                    lane,
                    engine=self._engine,
                    functions=self._functions,
                    pulse=self._pulse,
                    max_body=self._max_body,
                )
                thread = self._threads[lane.proc] = threading.Thread(
                    target=self._work,
                    args=(work, meter),
                    name=f"headrace-{lane.proc}",
                    # A process that ends without a stop must not wait for records for ever.
                    daemon=True,
                )
            thread.start()

    def _watch(self) -> None:
        """Until the end: see new sources and, where all are run, new pipelines."""
        while not self._is_stopped.wait(GLANCE):
            # What went wrong is heard by the threads too, who say so.
            with contextlib.suppress(HeadraceError):
                for defined in self._defined():
                    self._begin(defined)
            if self._names is not None and not any(t.is_alive() for t in self._threads.values()):
                return  # all of them were destroyed

    def _join(self) -> None:
        for thread in list(self._threads.values()):
            thread.join()

    def _work(self, lane: Lane, meter: Meter) -> None:
        """The life of a thread."""
        waiter = self._store.waiter(lane.topic)
        with self._lock:
            self._waiters.add(waiter)
        try:
            self._go_on(lane, meter, waiter)
        except BaseException as error:  # the runner raises it where somebody hears
            self._fail(meter, error)
            self._is_stopped.set()
            self.stop()
        finally:
            # Out of reach first: a wake-up must not go to a descriptor that is somebody else's.
            with self._lock:
                self._waiters.discard(waiter)
            waiter.close()
            self._ends.leave()
            self._engine.rest()

    def _go_on(self, lane: Lane, meter: Meter, waiter: Waiter) -> None:
        pause = FIRST_PAUSE
        is_hinted = True
        while not self._is_stopped.is_set():
            seen = self._ends.moves
            try:
                # Without a hint, a look that writes nothing comes first.
                step = lane.step() if is_hinted or self._is_behind(lane) else Step("empty")
            except (UnknownProc, UnknownPipeline):
                meter.note("ended")
                return
            except (ProcDisabled, ProcOvertaken) as error:
                meter.note("disabled", str(error))
                if self._is_over(error):
                    return
                waiter.wait(GLANCE)
                continue
            except SparkUnavailable:
                raise
            except HeadraceError as error:
                # The database is away, or the processor is: both come back, perhaps.
                meter.note("failing", str(error))
                if not isinstance(error, StoreError) and self._is_over(error):
                    return
                self._is_stopped.wait(pause * random.uniform(1, 1.5))
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            if step.what == "moved":
                meter.count(step.moved, step.error)
                self._ends.moved()
                pause, is_hinted = FIRST_PAUSE, True
            elif step.what == "empty":
                if self._is_once:
                    if self._ends.is_end(seen):
                        return
                    is_hinted = False
                    continue
                is_hinted = waiter.wait(LONGEST_WAIT)
            elif step.what == "failed":
                meter.note("failing", step.error)
                if self._is_once and step.tries >= DEFAULT_MAX_RECLAIMS:
                    self._is_over(_stuck(lane.proc, step))
                    return
                self._is_stopped.wait(pause * random.uniform(1, 1.5))
                pause, is_hinted = min(pause * 2, LONGEST_PAUSE), True
            else:
                # Somebody else has it: a claim that ends is not signalled.
                waiter.wait(pause)
                pause, is_hinted = min(pause * 2, LONGEST_PAUSE), True

    def _is_over(self, error: HeadraceError) -> bool:
        """Whether an error ends a thread: when it is to go through once, it does."""
        if self._is_once:
            with self._lock:
                self._failure = self._failure or error
        return self._is_once

    def _fail(self, meter: Meter, error: BaseException) -> None:
        meter.note("failing", str(error))
        with self._lock:
            self._failure = self._failure or error

    def _is_behind(self, lane: Lane) -> bool:
        return bool(self._store.run(self._store.pending([lane.proc])))

    def _lag(self, pipeline: str) -> int | None:
        try:
            lanes = self._store.run(self._store.definition(pipeline)).lanes
            return sum(self._store.run(self._store.lag(lane.proc)).records for lane in lanes)
        except HeadraceError:
            return None


def _stuck(proc: str, step: Step) -> HeadraceError:
    return ProcDisabled(
        f"proc {proc!r} does not get past a record that failed {step.tries} times: {step.error}.",
        proc=proc,
    )
