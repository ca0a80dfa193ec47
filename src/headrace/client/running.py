"""Running operations for a client or a transaction, and knowing whether it works."""

from __future__ import annotations

import asyncio
import time
from enum import IntEnum
from typing import Any, TypeVar

from headrace.client.calls import Call, Calls
from headrace.client.plans import Plan
from headrace.client.queue_calls import QueueCalls, same
from headrace.contract.op import Op
from headrace.contract.store import Session, Store
from headrace.errors import NotConnected, StoreError

T = TypeVar("T")


class Status(IntEnum):
    """What a client is fit for."""

    FAILING = -1
    UNINITIALISED = 0
    READY = 1


class Base:
    """A store or a transaction of it, and whether it works."""

    def __init__(self, store: Store | Session, *, max_body: int) -> None:
        self._store = store
        self._built = Calls(store, max_body=max_body)
        self._built_for_queues = QueueCalls(store, max_body=max_body)
        self._status = Status.READY

    @property
    def _calls(self) -> Calls:
        if self._status is Status.UNINITIALISED:
            raise NotConnected(self._gone())
        return self._built

    @property
    def _queue_calls(self) -> QueueCalls:
        if self._status is Status.UNINITIALISED:
            raise NotConnected(self._gone())
        return self._built_for_queues

    def _gone(self) -> str:
        return "this client is closed: connect again."

    def _note(self, error: Exception | None) -> None:
        if self._status is not Status.UNINITIALISED:
            is_failing = isinstance(error, StoreError)
            self._status = Status.FAILING if is_failing else Status.READY


class Running(Base):
    """Operations for blocking code."""

    def _run(self, call: Call[T]) -> T:
        try:
            answer = self._store.run(call.op)
        except Exception as error:
            self._note(error)
            raise
        if self._status is not Status.READY:
            self._note(None)
        return call.finish(answer)

    def _follow(self, plan: Plan[T]) -> T:
        """Do what a plan says; ``headrace.client.plans``."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = plan.send(answer) if error is None else plan.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = error = None
            try:
                if isinstance(step, Op):
                    answer = self._run(Call(step, same))
                else:
                    time.sleep(step)
            except BaseException as problem:
                # The plan decides what is to be tidied up, and raises it again.
                error = problem


class AsyncRunning(Base):
    """Operations for async code."""

    async def _run(self, call: Call[T]) -> T:
        try:
            answer = await self._store.arun(call.op)
        except Exception as error:
            self._note(error)
            raise
        if self._status is not Status.READY:
            self._note(None)
        return call.finish(answer)

    async def _follow(self, plan: Plan[T]) -> T:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = plan.send(answer) if error is None else plan.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = error = None
            try:
                if isinstance(step, Op):
                    answer = await self._run(Call(step, same))
                else:
                    await asyncio.sleep(step)
            except BaseException as problem:
                # The plan decides what is to be tidied up, and raises it again.
                error = problem


def documented(ours: type, like: type) -> None:
    """Give the methods of one class the docstrings of the same methods of another."""
    for name, method in vars(ours).items():
        if callable(method) and not name.startswith("_") and not method.__doc__:
            method.__doc__ = getattr(like, name).__doc__
