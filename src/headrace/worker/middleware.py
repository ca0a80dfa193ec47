"""Middleware: generators of the user that run around tasks."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.worker.items import Item
from headrace.worker.tasks import Task

Middleware = Callable[["TaskCall"], Iterator[None]] | Callable[["TaskCall"], AsyncIterator[None]]
Run = Callable[["TaskCall"], Any]


class TaskCall:
    """One attempt to run a task: what middleware gets.

    ``result`` is what the task returned, after the ``yield``.
    """

    __slots__ = ("args", "item", "kwargs", "result", "task")

    def __init__(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], item: Item
    ) -> None:
        self.task = task
        self.args = tuple(args)
        self.kwargs = dict(kwargs)
        self.item = item
        self.result: Any = None

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self.item.attempts

    def __repr__(self) -> str:
        return f"<TaskCall {shown(self.name)}, item {self.item.id}, attempt {self.attempt}>"


def check_middleware(function: object) -> None:
    """Refuse what is no generator function."""
    if not inspect.isgeneratorfunction(function) and not inspect.isasyncgenfunction(function):
        raise InvalidOption(
            f"{shown(function)} cannot be middleware: use a function of a TaskCall with one yield.",
            option="middleware",
        )


def chain(middleware: Sequence[Middleware], task: Task[..., Any]) -> Run:
    """The task's function with its middleware around it, the first of them outermost."""
    run: Run = partial(_acall, task.function) if task.is_async else partial(_call, task.function)
    for function in reversed(middleware):
        if inspect.isasyncgenfunction(function):
            if not task.is_async:
                raise InvalidOption(
                    f"middleware {shown(function.__name__)} is async, and task {shown(task.name)} is a plain "
                    "function: use a generator with 'def', which both kinds of tasks can have.",
                    option="middleware",
                )
            run = partial(_await_in_async, asynccontextmanager(function), run)
        elif task.is_async:
            run = partial(_await_in, contextmanager(function), run)  # type: ignore[arg-type]  # no async generator
        else:
            run = partial(_run_in, contextmanager(function), run)  # type: ignore[arg-type]  # as above
    return run


def _call(function: Callable[..., Any], call: TaskCall) -> Any:
    call.result = function(*call.args, **call.kwargs)
    return call.result


async def _acall(function: Callable[..., Awaitable[Any]], call: TaskCall) -> Any:
    call.result = await function(*call.args, **call.kwargs)
    return call.result


def _run_in(around: Callable[[TaskCall], Any], run: Run, call: TaskCall) -> Any:
    with around(call):
        run(call)
    return call.result


async def _await_in(around: Callable[[TaskCall], Any], run: Run, call: TaskCall) -> Any:
    with around(call):
        await run(call)
    return call.result


async def _await_in_async(
    around: Callable[[TaskCall], AbstractAsyncContextManager[None]], run: Run, call: TaskCall
) -> Any:
    async with around(call):
        await run(call)
    return call.result
