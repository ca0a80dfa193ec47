"""Group commit for tasks. See ``group_commit``."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from typing import Generic

from headrace.client.group_commit import C, R, Send, is_of_one_call, own, share
from headrace.contract.shield import finish


class _Task(Generic[C, R]):
    """A task with its call, waiting for an answer."""

    __slots__ = ("call", "is_answered", "result", "since")

    def __init__(self, call: C, result: asyncio.Future[R]) -> None:
        self.call = call
        self.since = time.monotonic()
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

    async def end(self) -> None:
        """Wait for the answer, although the caller was cancelled, and its future with it."""
        if not self.is_answered:
            self.result = self.result.get_loop().create_future()
            with contextlib.suppress(Exception):
                await finish(self.result)


class AsyncGroupCommit(Generic[C, R]):
    """Group commit for the tasks of one event loop."""

    def __init__(self, flush: Send[C, Awaitable[list[R]]]) -> None:
        self._flush = flush
        self._waiting: list[_Task[C, R]] = []
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(self, call: C) -> R:
        """Send one call, together with those that come at the same time."""
        if self._idle.is_set():
            self._idle.clear()
            try:
                [outcome] = await self._flush([call], None)
                return outcome
            finally:
                self._go_on()
        me: _Task[C, R] = _Task(call, asyncio.get_running_loop().create_future())
        self._waiting.append(me)
        try:
            return await me.result
        except asyncio.CancelledError:
            if me in self._waiting:
                # It was not sent, and never will be.
                self._waiting.remove(me)
            else:
                await me.end()
            raise

    async def drain(self) -> None:
        """Wait until every caller has its answer."""
        await self._idle.wait()

    def _go_on(self) -> None:
        """Flush what has queued up, in a task of its own: no caller owes it to the others."""
        if self._waiting:
            # Kept, because the event loop has only weak references to its tasks.
            self._task = asyncio.ensure_future(self._flush_waiting())
        else:
            self._idle.set()

    async def _flush_waiting(self) -> None:
        while self._waiting:
            count = share([task.call for task in self._waiting])
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            await self._answer(batch)
        self._idle.set()

    async def _answer(self, batch: list[_Task[C, R]]) -> None:
        try:
            since = min(task.since for task in batch)
            outcomes = await self._flush([task.call for task in batch], since)
        except BaseException as error:
            if len(batch) > 1 and is_of_one_call(error):
                for one in batch:
                    await self._answer([one])
                return
            for task in batch:
                task.fail(own(error))
        else:
            for task, outcome in zip(batch, outcomes, strict=True):
                task.answer(outcome)
