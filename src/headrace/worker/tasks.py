"""Functions as tasks: called here, run by a worker."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from headrace.client.calls import Call
from headrace.client.clients import AsyncClient
from headrace.client.transactions import AsyncTransaction, Transaction
from headrace.contract.items import PushCall, Pushed
from headrace.core.documents import Push, document
from headrace.core.pushes import push_call
from headrace.errors import InvalidOption
from headrace.model.queues import Backoff
from headrace.worker.items import Item, Wait

if TYPE_CHECKING:
    from headrace.client.clients import Client
    from headrace.worker.apps import App

P = ParamSpec("P")
R = TypeVar("R")

Delays = Backoff | Callable[[Item, BaseException], float | None]


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is pushed."""

    subject: str | Callable[..., str | None] | None = None
    priority: int = 0
    at: datetime | None = None
    delay: Wait | None = None
    headers: Mapping[str, str] | None = None
    retry: int | None = None
    timeout: Wait | None = None
    using: Any = None


class Sending(Generic[P]):
    """A task with the options under which it is pushed."""

    def __init__(self, app: App, task: Task[P, Any], options: TaskOptions) -> None:
        self._app = app
        self._task = task
        self._options = options

    def push(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Push a call of the function; returns the id of its item.

        The arguments are checked against the function's signature, and must be JSON values.
        """
        client = self._client()
        if isinstance(client, AsyncClient | AsyncTransaction):
            raise InvalidOption(
                f"task {self._task.name!r} belongs to an async client: await apush(...).",
                option="client",
            )
        call = self._call(client, args, kwargs)
        return client._run(call)  # noqa: SLF001  # a task is part of its client

    async def apush(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """``push`` for async code, with either kind of client."""
        client = self._client()
        if isinstance(client, AsyncClient | AsyncTransaction):
            call = self._call(client, args, kwargs)
            return await client._run(call)  # noqa: SLF001  # as above
        return await asyncio.to_thread(self.push, *args, **kwargs)

    def as_push(self, *args: P.args, **kwargs: P.kwargs) -> Push:
        """The push itself, for ``then`` of an outcome: it happens with that, or not at all."""
        return self._push(args, kwargs)

    def _client(self) -> Client | AsyncClient | Transaction | AsyncTransaction:
        if self._options.using is not None:
            client: Client | AsyncClient | Transaction | AsyncTransaction = self._options.using
            return client
        return self._app.client

    def _call(self, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[int]:
        max_body = client._calls.max_body  # noqa: SLF001  # as above
        push = self._push(args, kwargs)
        call: PushCall = push_call(push.queue, (document(push, max_body=max_body),))
        return Call(client._store.push([call]), _id)  # noqa: SLF001  # as above

    def _push(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Push:
        task, options = self._task, self._options
        # A wrong call is a mistake of whoever makes it: it is raised there.
        task.signature.bind(*args, **kwargs)
        subject = options.subject
        return Push(
            task.queue,
            {"task": task.name, "args": list(args), "kwargs": kwargs},
            subject=subject(*args, **kwargs) if callable(subject) else subject,
            priority=options.priority,
            at=options.at,
            delay=options.delay,
            headers=options.headers,
            max_attempts=options.retry,
            timeout=options.timeout,
        )


class Task(Sending[P], Generic[P, R]):
    """A function that can be pushed. Calling it runs it here and now.

    >>> @app.task(queue="mail")
    ... def send(to: str) -> None: ...
    >>> send.push("ann")
    """

    def __init__(
        self,
        app: App,
        function: Callable[P, R],
        *,
        name: str,
        queue: str,
        options: TaskOptions,
        backoff: Delays | None,
    ) -> None:
        super().__init__(app, self, options)
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self.queue = queue
        self.signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self._backoff = backoff

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        delay: Wait | None = None,
        at: datetime | None = None,
        subject: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        retry: int | None = None,
        timeout: Wait | None = None,
        using: Client | AsyncClient | Transaction | AsyncTransaction | None = None,
    ) -> Sending[P]:
        """The task with other options for one push: ``send.options(delay=60).push("ann")``.

        What is not given stays as the task was declared. With ``using`` it is pushed by another
        client, or in a transaction.
        """
        given = {
            "subject": subject,
            "priority": priority,
            "headers": headers,
            "retry": retry,
            "timeout": timeout,
            "using": using,
        }
        changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        if delay is not None or at is not None:
            changes |= {"delay": delay, "at": at}
        return Sending(self._app, self, replace(self._options, **changes))

    def delay_after(self, item: Item, error: BaseException) -> float | None:
        """In how many seconds it is tried again; None: as the queue says."""
        if isinstance(self._backoff, Backoff):
            return self._backoff.delay_ms(item.attempts, item.id % 1000 / 1000) / 1000
        return None if self._backoff is None else self._backoff(item, error)

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of queue {self.queue!r}>"


def _id(outcomes: Sequence[Pushed]) -> int:
    return outcomes[0].ids[0]
