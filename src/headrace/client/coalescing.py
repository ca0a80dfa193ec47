"""Group commit: concurrent callers share one flush.

A caller that finds nobody flushing goes ahead at once. Those who come while a flush is
under way queue up, and the first of them leads the next flush with all the others behind
it. So a lone caller waits for nothing, a crowd pays for the disk once, and there is no
thread behind the scenes.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from headrace.contract.finishing import finish
from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall
from headrace.errors import StoreError

MOST_CALLS = 1000
MOST_BYTES = 4 * 1024 * 1024

C = TypeVar("C", bound=CommitCall | PushCall)
R = TypeVar("R")


def share(waiting: Sequence[CommitCall | PushCall]) -> int:
    """How many of the waiting calls one flush takes: at least one."""
    size = 0
    for count, call in enumerate(waiting[:MOST_CALLS]):
        size += _size(call)
        if count and size > MOST_BYTES:
            return count
    return min(len(waiting), MOST_CALLS)


def _size(call: CommitCall | PushCall) -> int:
    if isinstance(call, CommitCall):
        return sum(len(part.body) for part in call.parts)
    return sum(len(document.payload) for document in call.documents)


def own(error: BaseException) -> BaseException:
    """The error for one caller of several, with a traceback of its own."""
    mine = copy.copy(error)
    mine.__cause__ = error
    return mine


class _Caller(Generic[C, R]):
    """A thread with its call, waiting for an answer or for its turn to lead."""

    def __init__(self, call: C) -> None:
        self.call = call
        self.outcome: R | None = None
        self.error: BaseException | None = None
        self.leads = False
        # A bare lock is the cheapest thing a thread can wait on.
        self._woken = threading.Lock()
        self._woken.acquire()

    def wait(self) -> None:
        self._woken.acquire()

    def wake(self) -> None:
        self._woken.release()

    def answer(self) -> R:
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome


class Coalescer(Generic[C, R]):
    """Group commit for threads."""

    def __init__(self, flush: Callable[[list[C]], list[R]]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._is_flushing = False
        self._waiting: list[_Caller[C, R]] = []
        self._idle = threading.Condition(self._lock)

    def send(self, call: C) -> R:
        """Send one call, together with whoever comes at the same time."""
        with self._lock:
            is_alone = not self._is_flushing
            self._is_flushing = True
            if not is_alone:
                me: _Caller[C, R] = _Caller(call)
                self._waiting.append(me)
        if is_alone:
            try:
                [outcome] = self._flush([call])
                return outcome
            finally:
                self._hand_over()
        me.wait()
        if me.leads:
            self._lead(me)
        return me.answer()

    def drain(self) -> None:
        """Wait until every caller has its answer."""
        with self._idle:
            self._idle.wait_for(lambda: not self._is_flushing)

    def _lead(self, me: _Caller[C, R]) -> None:
        with self._lock:
            count = share([me.call, *(caller.call for caller in self._waiting)])
            crowd = [me, *self._waiting[: count - 1]]
            del self._waiting[: count - 1]
        try:
            self._answer(crowd)
        finally:
            self._hand_over()
            for caller in crowd[1:]:
                caller.wake()

    def _answer(self, crowd: list[_Caller[C, R]]) -> None:
        try:
            outcomes = self._flush([caller.call for caller in crowd])
        except StoreError as error:
            # The store is at fault, not one of the calls: the same answer for all.
            for caller in crowd:
                caller.error = own(error)
        except BaseException as error:
            if len(crowd) == 1:
                crowd[0].error = error
                return
            # One of the calls is at fault; alone, each gets what it deserves.
            for caller in crowd:
                self._answer([caller])
        else:
            for caller, outcome in zip(crowd, outcomes, strict=True):
                caller.outcome = outcome

    def _hand_over(self) -> None:
        with self._lock:
            if self._waiting:
                heir = self._waiting.pop(0)
                heir.leads = True
                heir.wake()
            else:
                self._is_flushing = False
                self._idle.notify_all()


class _Task(Generic[C, R]):
    """A task with its call, waiting for an answer."""

    __slots__ = ("call", "is_answered", "result")

    def __init__(self, call: C, result: asyncio.Future[R]) -> None:
        self.call = call
        self.result = result
        self.is_answered = False

    def answer(self, outcome: R) -> None:
        self.is_answered = True
        if not self.result.done():
            self.result.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        self.is_answered = True
        if not self.result.done():
            self.result.set_exception(error)

    async def wait(self) -> R:
        try:
            return await self.result
        except asyncio.CancelledError:
            # The task was cancelled, and its future with it. What was sent is waited for all
            # the same, as ``finish`` does it at a higher price.
            if not self.is_answered:
                self.result = self.result.get_loop().create_future()
                with contextlib.suppress(Exception):
                    await finish(self.result)
            raise


class AsyncCoalescer(Generic[C, R]):
    """Group commit for the tasks of one event loop."""

    def __init__(self, flush: Callable[[list[C]], Awaitable[list[R]]]) -> None:
        self._flush = flush
        self._waiting: list[_Task[C, R]] = []
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(self, call: C) -> R:
        """Send one call, together with whoever comes at the same time."""
        if self._idle.is_set():
            self._idle.clear()
            try:
                [outcome] = await self._flush([call])
                return outcome
            finally:
                self._go_on()
        me: _Task[C, R] = _Task(call, asyncio.get_running_loop().create_future())
        self._waiting.append(me)
        return await me.wait()

    async def drain(self) -> None:
        """Wait until every caller has its answer."""
        await self._idle.wait()

    def _go_on(self) -> None:
        """Flush what has queued up, in a task of its own: no caller owes it to the others."""
        if self._waiting:
            # Kept, because the loop itself holds its tasks by weak references only.
            self._task = asyncio.ensure_future(self._flush_waiting())
        else:
            self._idle.set()

    async def _flush_waiting(self) -> None:
        while self._waiting:
            count = share([task.call for task in self._waiting])
            crowd, self._waiting = self._waiting[:count], self._waiting[count:]
            await self._answer(crowd)
        self._idle.set()

    async def _answer(self, crowd: list[_Task[C, R]]) -> None:
        try:
            outcomes = await self._flush([task.call for task in crowd])
        except BaseException as error:
            if len(crowd) > 1 and not isinstance(error, StoreError):
                # One of the calls is at fault; alone, each gets what it deserves.
                for one in crowd:
                    await self._answer([one])
                return
            for task in crowd:
                task.fail(own(error))
        else:
            for task, outcome in zip(crowd, outcomes, strict=True):
                task.answer(outcome)
