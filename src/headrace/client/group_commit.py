"""Group commit: concurrent callers share one flush.

A caller that finds no flush under way flushes immediately. Callers that arrive during a flush
queue up, and the first of them leads the next flush for all of them. So a single caller waits
for nothing, concurrent callers share the cost of one flush, and no background thread is needed.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall
from headrace.errors import HeadraceError, OutcomeUnknown, StoreError
from headrace.model import forks

MAX_CALLS = 1000
MAX_BYTES = 4 * 1024 * 1024
WAKE_SECONDS = 0.1
"""How long a caller waits at most before it checks whether a flush is still under way."""

Calls = CommitCall | PushCall | Sequence[CommitCall] | Sequence[PushCall]
"""What one caller sends: a call, or several that belong together."""
C = TypeVar("C", bound=Calls)
R = TypeVar("R")

Send = Callable[[list[C], float | None], R]
"""Sends calls. The second argument is when the first of them began to wait, if it had to."""


def share(waiting: Sequence[Calls]) -> int:
    """How many of the waiting calls one flush includes: at least one."""
    size = 0
    for count, call in enumerate(waiting[:MAX_CALLS]):
        size += _size(call)
        if count and size > MAX_BYTES:
            return count
    return min(len(waiting), MAX_CALLS)


def _size(calls: Calls) -> int:
    if isinstance(calls, CommitCall):
        return sum(len(part.body) for part in calls.parts)
    if isinstance(calls, PushCall):
        return sum(len(document.payload) for document in calls.documents)
    return sum(map(_size, calls))


def is_of_one_call(error: BaseException) -> bool:
    """Whether a flush failed because of one of its calls. Then each is sent again, alone.

    Such an error rolls the transaction back, so nothing is stored twice. A failure of the store
    concerns all calls, and after any other error, such as a cancellation, they may be stored.
    """
    return isinstance(error, HeadraceError) and not isinstance(error, StoreError)


def own(error: BaseException) -> BaseException:
    """The error for one caller of several, with a traceback of its own."""
    mine = copy.copy(error)
    mine.__cause__ = error
    return mine


class _Batch(Generic[R]):
    """Calls that are flushed together: all of them are answered by one assignment."""

    __slots__ = ("error", "is_sent", "outcomes")

    def __init__(self) -> None:
        self.is_sent = False
        self.outcomes: list[R] | None = None
        self.error: BaseException | None = None

    @property
    def is_answered(self) -> bool:
        return self.outcomes is not None or self.error is not None


class _Caller(Generic[C, R]):
    """A thread with its call, waiting for an answer or for its turn to lead."""

    __slots__ = ("batch", "call", "index", "since", "woken")

    def __init__(self, call: C) -> None:
        self.call = call
        self.since = time.monotonic()
        self.batch: _Batch[R] | None = None
        self.index = 0
        # A bare lock is the cheapest thing a thread can wait on.
        self.woken = threading.Lock()
        self.woken.acquire()

    @property
    def is_sent(self) -> bool:
        return self.batch is not None and self.batch.is_sent

    @property
    def is_answered(self) -> bool:
        return self.batch is not None and self.batch.is_answered

    def wake(self) -> None:
        try:  # noqa: SIM105  # on the way of every flush of a batch
            self.woken.release()
        except RuntimeError:
            pass  # it was woken before

    def answer(self) -> R:
        assert self.batch is not None
        if self.batch.error is not None:
            raise own(self.batch.error)
        if self.batch.outcomes is None:
            raise OutcomeUnknown(
                "the thread that committed this together with calls of its own was interrupted: "
                "check whether it is stored, or repeat it with an idempotency key."
            )
        return self.batch.outcomes[self.index]


class GroupCommit(Generic[C, R]):
    """Group commit for threads.

    A signal handler may raise in the main thread after any call or jump in this code, and nothing may
    depend on code behind that point. So the thread that flushes is the one that holds ``_turn``,
    by a ``with`` on a bare lock, which is entered and left without a point where an exception
    could come. Wake-ups may get lost: each wait ends after ``WAKE_SECONDS`` and checks again.
    The main thread flushes nothing but its own call, so that no signal decides over the calls of
    other threads.
    """

    def __init__(self, flush: Send[C, list[R]]) -> None:
        self._flush = flush
        self._forget()
        forks.renew_in_child(self, GroupCommit._forget)

    def _forget(self) -> None:
        self._turn = threading.Lock()
        # In the order in which they came.
        self._waiting: dict[_Caller[C, R], None] = {}

    def send(self, call: C) -> R:
        """Send one call, together with those that come at the same time."""
        if self._waiting or self._turn.locked():
            return self._send_in_turn(call)
        # Another may be faster after all.
        since = time.monotonic()
        try:
            with self._turn:
                [outcome] = self._flush([call], since)
                return outcome
        finally:
            if self._waiting:
                self._wake_next()

    def _send_in_turn(self, call: C) -> R:
        me: _Caller[C, R] = _Caller(call)
        batch: Sequence[_Caller[C, R]] = ()
        is_over = False
        try:
            self._waiting[me] = None
            while me.batch is None or not me.batch.is_answered:
                if self._turn.locked():
                    # That flush wakes us when it is over. No caller waits for the lock itself:
                    # answered callers would wait for the next flush.
                    me.woken.acquire(timeout=WAKE_SECONDS)
                    continue
                with self._turn:
                    if me.is_sent:
                        break
                    batch = self._batch_of(me)
                    self._answer(batch)
                    break
            is_over = True
        finally:
            self._waiting.pop(me, None)
            for caller in batch[1:]:
                caller.wake()
            # A caller that was only answered has no other to wake.
            if self._waiting and (batch or not is_over):
                self._wake_next()
        return me.answer()

    def drain(self) -> None:
        """Wait until every caller has its answer."""
        while True:
            with self._turn:
                if not self._waiting:
                    return
            time.sleep(0.001)

    def _batch_of(self, me: _Caller[C, R]) -> list[_Caller[C, R]]:
        """Those to be flushed now, with the caller that leads as the first."""
        batch = [me]
        self._waiting.pop(me, None)
        if self._waiting and threading.get_ident() != threading.main_thread().ident:
            waiting = list(self._waiting)
            count = share([me.call, *(caller.call for caller in waiting)])
            # Callers that are no longer there were interrupted.
            gone = object()
            batch += [
                caller
                for caller in waiting[: count - 1]
                if self._waiting.pop(caller, gone) is not gone
            ]
        return batch

    def _answer(self, callers: Sequence[_Caller[C, R]]) -> None:
        batch = _Batch[R]()
        for index, caller in enumerate(callers):
            caller.index = index
            caller.batch = batch
        try:
            calls = [caller.call for caller in callers]
            batch.is_sent = True
            # Patience counts from where the first of them began to wait.
            batch.outcomes = self._flush(calls, min(caller.since for caller in callers))
        except HeadraceError as error:
            if len(callers) == 1 or not is_of_one_call(error):
                batch.error = error
                return
            for caller in callers:
                self._answer([caller])

    def _wake_next(self) -> None:
        for caller in list(self._waiting)[:1]:
            caller.wake()
