"""A background loop: one thread that calls one function whenever it is due.

Heartbeats and maintenance run on it. Each has a loop, and so a thread, of its own:
nothing slow may delay the extension of a lease.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from time import monotonic

from headrace.model.forks import renew_in_child

NOW = -math.inf
NEVER = math.inf
MAX_WAIT_SECONDS = 3600.0

Step = Callable[[], float | None]
OnError = Callable[[Exception], float | None]


class Loop:
    """Calls ``step`` when it is due, in one thread at a time.

    ``step`` returns the time at which it is due again, by ``time.monotonic``. ``start``, ``poke``
    and ``wake_by`` make it due earlier. If it returns None and nothing has made it due meanwhile,
    the thread ends, until the next ``start``.

    ``on_error`` handles an ``Exception`` of ``step`` and returns what ``step`` would have. Without
    it, and with any other ``BaseException``, the error ends the thread as it would any thread.

    ``on_end`` is called in the thread when it ends, for whichever reason.

    In the child of a fork no thread runs, and nothing is due.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        on_error: OnError | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._step = step
        self._on_error = on_error
        self._on_end = on_end
        self._renew()
        renew_in_child(self, Loop._renew)

    def _renew(self) -> None:
        # Locked by ``with`` on the bare lock: no signal can come between the block and its end.
        # Reentrant: a signal handler may end the loop that its thread runs.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._due = NEVER
        # The thread that runs the loop, and the last one that was started for it.
        self._thread: threading.Thread | None = None
        self._started: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether a thread runs the loop."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def is_ended(self) -> bool:
        """Whether the loop was ended under the step that asks."""
        return self._thread is not threading.current_thread()

    def start(self, due: float = NOW) -> None:
        """Call ``step`` at that time at the latest, in a new thread unless one runs already."""
        with self._lock:
            self._set_due(due)
            # A thread that is not alive was interrupted before it began, or ended by an error.
            if not self.is_running:
                self._thread = self._started = threading.Thread(
                    target=self._run_after, args=(self._started,), name=self._name, daemon=True
                )
                self._thread.start()

    def poke(self) -> None:
        """Call ``step`` now, if a thread runs; after the call under way, if there is one."""
        self.wake_by(NOW)

    def wake_by(self, due: float) -> None:
        """Call ``step`` at that time at the latest, if a thread runs. Cheap if it would anyway."""
        if due < self._due:
            with self._lock:
                if self._thread is not None:
                    self._set_due(due)

    def pause(self, seconds: float) -> None:
        """Wait within a step, until the loop is ended at most."""
        with self._lock:
            self._changed.wait_for(lambda: self.is_ended, seconds)

    def end(self) -> None:
        """Call ``step`` no more. A call under way goes on; ``join`` waits for it."""
        with self._lock:
            self._thread = None
            self._due = NEVER
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread, unless this is the thread."""
        thread = self._started
        is_here = thread is threading.current_thread()
        if thread is not None and thread.is_alive() and not is_here:
            thread.join(timeout)

    def run(self) -> None:
        """Run the loop in the calling thread until it ends; errors of ``step`` are raised here.

        If a thread runs it already, that thread ends first.
        """
        with self._lock:
            before, self._thread = self._started, threading.current_thread()
            self._due = NOW
            self._changed.notify_all()
        self._run_after(before)

    def _set_due(self, due: float) -> None:
        if due < self._due:
            self._due = due
            self._changed.notify_all()

    def _run_after(self, before: threading.Thread | None) -> None:
        # The last call of the thread before it may still be under way.
        if before is not None and before.is_alive():
            before.join()
        self._run()

    def _run(self) -> None:
        try:
            while self._wait():
                self._schedule(self._call())
        finally:
            with self._lock:
                if not self.is_ended:
                    self._thread = None
            if self._on_end is not None:
                self._on_end()

    def _wait(self) -> bool:
        """Wait until ``step`` is due; False when the loop has ended."""
        with self._lock:
            while not self.is_ended:
                seconds = self._due - monotonic()
                if seconds <= 0:
                    # What makes it due from here on asks for another call.
                    self._due = NEVER
                    return True
                self._changed.wait(min(seconds, MAX_WAIT_SECONDS))
            return False

    def _call(self) -> float | None:
        try:
            return self._step()
        except Exception as error:
            if self._on_error is None:
                raise
            return self._on_error(error)

    def _schedule(self, due: float | None) -> None:
        with self._lock:
            if self.is_ended:
                return
            if due is not None:
                self._set_due(due)
            elif self._due == NEVER:
                self._thread = None
