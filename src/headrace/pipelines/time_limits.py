"""Time limits for calls of a processor.

In a Spark worker, whose process may be ended, ``WorkerLimit`` interrupts the call by a signal, and
ends the process if that does not help. In the user's process, ``LimitedThread`` runs the call in a
separate thread and raises an exception there. Code inside a C function, such as a wait for a
socket, does not see that exception until the function returns: then the thread is abandoned, and
its caller continues without it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T")
Cancel = Callable[[], object]

REPEAT_SECONDS = 0.5
"""The time between interrupts, for a processor that catches them."""
GRACE_SECONDS = 2.0
"""How long a call may take to end after its limit before it is abandoned."""
CANCEL_SECONDS = 15.0
"""The same for a call that waits for cancelled work, such as a Spark job."""
REARM_SECONDS = 1.0
MAX_STUCK_THREADS = 20
"""How many abandoned threads a process may have before further calls are refused."""
_STDERR = 2


class TimeLimitExceeded(BaseException):
    """A call took too long. Not an ``Exception``: a processor that catches those must end too."""


class CallAbandoned(Exception):
    """A call took too long and could not be ended: its thread was abandoned."""


class Limit(Protocol):
    """Entered around each call. ``slack`` is added for calls that check their time themselves."""

    seconds: float
    slack: float

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def touch(self) -> None:
        """Restart the limit, in a call that processes several records: one of them has ended."""
        ...


def exceeded(seconds: float) -> TimeLimitExceeded:
    """The error of a call that exceeded its limit."""
    return TimeLimitExceeded(f"it took longer than timeout={seconds:g} s")


class WorkerLimit:
    """A limit for the main thread of a process that may be ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.slack = 0.0
        self._is_on = False
        self._armed = -REARM_SECONDS
        self._can_interrupt = (
            hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        )
        if self._can_interrupt:
            signal.signal(signal.SIGALRM, self._interrupt)

    def __enter__(self) -> Self:
        self.touch()
        self._is_on = True
        return self

    def __exit__(self, *error: object) -> None:
        self._is_on = False
        if self._can_interrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def touch(self) -> None:
        if self._can_interrupt:
            signal.setitimer(signal.ITIMER_REAL, self.seconds + self.slack, REPEAT_SECONDS)
        now = monotonic()
        if now - self._armed >= REARM_SECONDS:
            # This also ends a process whose only thread is inside C code and holds the GIL. It
            # starts a thread each time, which is too expensive for every record.
            self._armed = now
            faulthandler.dump_traceback_later(
                self.seconds + self.slack + GRACE_SECONDS + REARM_SECONDS,
                exit=True,
                file=_STDERR,
            )

    def close(self) -> None:
        """Remove the signal handler and the timer; no call follows."""
        faulthandler.cancel_dump_traceback_later()
        if self._can_interrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _interrupt(self, *_: object) -> None:
        if self._is_on:
            raise exceeded(self.seconds)


@contextmanager
def worker_limit(seconds: float | None) -> Iterator[WorkerLimit | None]:
    """A limit for the calls in a block, which should contain nothing else; None if unlimited."""
    if seconds is None:
        yield None
        return
    limit = WorkerLimit(seconds)
    try:
        yield limit
    finally:
        limit.close()


class ThreadLimit:
    """A limit for calls in a thread that another thread watches."""

    def __init__(self, seconds: float, thread: int) -> None:
        self.seconds = seconds
        self.slack = 0.0
        self._thread = thread
        self._lock = threading.Lock()
        self._until: float | None = None
        self._calls = 0
        self._is_interrupted = False

    def __enter__(self) -> Self:
        with self._lock:
            self._calls += 1
            self._is_interrupted = False
            self._until = monotonic() + self.seconds + self.slack
        return self

    def __exit__(self, *error: object) -> None:
        kind = error[0]
        has_arrived = kind is TimeLimitExceeded
        while self._until is not None:
            try:
                with self._lock:
                    self._until = None
                # An exception that was sent must arrive here, not in code after this call.
                for _ in range(1000 if self._is_interrupted and not has_arrived else 0):
                    sleep(0.001)
            except TimeLimitExceeded:
                has_arrived = True
        if has_arrived:
            raise exceeded(self.seconds)  # the exception from outside has no message

    def touch(self) -> None:
        with self._lock:
            if self._until is not None:
                self._calls += 1
                self._until = monotonic() + self.seconds + self.slack

    def remaining(self) -> tuple[int, float]:
        """The number of the call in progress, 0 if there is none, and its remaining seconds."""
        with self._lock:
            return (0, 0.0) if self._until is None else (self._calls, self._until - monotonic())

    def interrupt(self, call: int) -> None:
        """Raise in the thread, if it is still in that call."""
        with self._lock:
            if self._until is not None and self._calls == call:
                self._is_interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(TimeLimitExceeded)
                )


class LimitedThread:
    """A thread for calls with a time limit, used by one other thread."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self.is_abandoned = False
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.thread.start()

    def call(self, work: Callable[[Limit], T], seconds: float, cancel: Cancel | None = None) -> T:
        """Run ``work`` in the thread; after ``CallAbandoned`` the thread cannot be used again.

        ``cancel`` ends what the call waits for, if an exception in the thread would not.
        """
        assert self.thread.ident is not None
        limit = ThreadLimit(seconds, self.thread.ident)
        result: Future[T] = Future()
        self._jobs.put((lambda: work(limit), result))
        late_call, late_since = 0, 0.0
        while True:
            number, left = limit.remaining()
            pause = min(seconds, 0.05) if not number else max(left, 0.0)
            try:
                return result.result(pause if not number or left > 0 else REPEAT_SECONDS)
            except TimeoutError:
                if result.done():
                    raise  # raised by the work itself
            number, left = limit.remaining()
            if not number or left > 0:
                continue
            if number != late_call:
                late_call, late_since = number, monotonic()
                if cancel is not None:
                    cancel()
            elif monotonic() - late_since > (GRACE_SECONDS if cancel is None else CANCEL_SECONDS):
                self.is_abandoned = True
                raise CallAbandoned(
                    f"it took longer than timeout={seconds:g} s and could not be ended: its "
                    "thread was abandoned"
                )
            limit.interrupt(number)

    def end(self, last: Callable[[], None]) -> None:
        """Run ``last`` in the thread and end it; an abandoned thread is not waited for."""
        self._jobs.put((last, Future()))
        self._jobs.put(None)
        if not self.is_abandoned:
            self.thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, result = job
            try:
                result.set_result(work())
            except BaseException as error:  # raised again by result() in the caller
                result.set_exception(error)


class LimitedThreads:
    """One ``LimitedThread`` for each calling thread, and the list of abandoned ones."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._abandoned: list[threading.Thread] = []

    def call(self, work: Callable[[Limit], T], seconds: float, cancel: Cancel | None = None) -> T:
        """Run ``work`` in the caller's ``LimitedThread``; see ``LimitedThread.call``."""
        self.check()
        limited: LimitedThread | None = getattr(self._own, "thread", None)
        if limited is None:
            limited = LimitedThread(f"{threading.current_thread().name}-calls")
            self._own.thread = limited
        try:
            return limited.call(work, seconds, cancel)
        except CallAbandoned:
            self._own.thread = None
            self._abandoned = [*self._stuck(), limited.thread]
            raise

    def check(self) -> None:
        """Raise if too many abandoned threads are still running."""
        stuck = len(self._stuck())
        if stuck >= MAX_STUCK_THREADS:
            raise RuntimeError(
                f"{stuck} calls of processors took too long and could not be ended: restart this "
                "process"
            )

    def _stuck(self) -> list[threading.Thread]:
        return [thread for thread in self._abandoned if thread.is_alive()]

    def end(self, last: Callable[[], None]) -> None:
        """Run ``last`` in the caller's ``LimitedThread``, and end it."""
        limited: LimitedThread | None = getattr(self._own, "thread", None)
        if limited is not None:
            self._own.thread = None
            limited.end(last)
