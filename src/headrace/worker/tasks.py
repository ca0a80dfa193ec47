"""Functions as tasks: pushed by a call, run by a worker."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from headrace.client._sync.client import Client
from headrace.client._sync.transactions import Transaction
from headrace.contract.items import PushCall
from headrace.core.documents import Channel, Push, document
from headrace.core.pushes import push_call
from headrace.errors import InvalidBody, InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.fields import shown
from headrace.model.queues.settings import Backoff
from headrace.model.times import Duration
from headrace.worker.arguments import Arguments
from headrace.worker.items import Item
from headrace.worker.retry import Delays, Retry

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient
    from headrace.client._async.transactions import AsyncTransaction
    from headrace.worker.app import App

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is pushed."""

    subject: str | Callable[..., str | None] | None = None
    priority: int = 0
    at: datetime | None = None
    delay: Duration | None = None
    headers: Mapping[str, str] | None = None
    max_attempts: int | None = None
    lease: Duration | None = None
    channel: Channel | Callable[..., Channel | None] | None = None
    using: Any = None


class Sending(Generic[P]):
    """A task with the options under which it is pushed."""

    def __init__(self, app: App, task: Task[P, Any], options: TaskOptions) -> None:
        self._app = app
        self._task = task
        self._options = options

    def push(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Push a call of the function; returns the id of its item.

        The arguments are checked against the function's signature and types. They are JSON values,
        or of types that msgspec or Pydantic can store: dataclasses, Structs, models, datetimes.
        """
        client = self._client()
        if not isinstance(client, Client | Transaction):
            raise InvalidOption(
                f"task {shown(self._task.name)} belongs to an async client: await apush(...).",
                option="client",
            )
        call = self._call(client, args, kwargs)
        return client._push(call).id or 0  # noqa: SLF001  # a task is part of its client

    async def apush(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """``push`` for async code, with either kind of client."""
        from headrace.contract.threads import in_thread

        client = self._client()
        if isinstance(client, Client | Transaction):
            return await in_thread(functools.partial(self.push, *args, **kwargs))
        call = self._call(client, args, kwargs)
        return (await client._push(call)).id or 0  # noqa: SLF001  # as above

    def as_push(self, *args: P.args, **kwargs: P.kwargs) -> Push:
        """The push itself, for ``then`` of an outcome: it happens with that, or not at all."""
        return self._push(args, kwargs)

    def _client(self) -> Client | AsyncClient | Transaction | AsyncTransaction:
        if self._options.using is not None:
            if not hasattr(self._options.using, "_requests"):
                raise InvalidOption(
                    f"{shown(self._options.using)} is not a client or a transaction: for a "
                    "connection or session of your own pass hr.using(it).",
                    option="using",
                )
            client: Client | AsyncClient | Transaction | AsyncTransaction = self._options.using
            return client
        return self._app.client

    def _call(self, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PushCall:
        max_body = client._requests.max_body  # noqa: SLF001  # as above
        push = self._push(args, kwargs)
        return push_call(push.queue, (document(push, max_body=max_body),))

    def _push(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Push:
        task, options = self._task, self._options
        # A wrong call is raised where it is made, not in the worker.
        try:
            task.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"task {shown(task.name)} cannot be called so: {error}. "
                f"Its signature is {task.name}{task.signature}."
            ) from None
        try:
            stored_args, stored_kwargs = task.arguments.encoded(args, kwargs)
        except InvalidBody as error:
            raise InvalidBody(
                f"task {shown(task.name)} cannot be called so: {error.message}. "
                f"Its signature is {task.name}{task.signature}.",
                path=error.path,
            ) from error
        subject, channel = options.subject, options.channel
        return Push(
            task.queue,
            {"task": task.name, "args": stored_args, "kwargs": stored_kwargs},
            subject=self._made("subject", subject, args, kwargs) if callable(subject) else subject,
            priority=options.priority,
            at=options.at,
            delay=options.delay,
            headers=options.headers,
            max_attempts=options.max_attempts,
            lease=options.lease,
            channel=self._made("channel", channel, args, kwargs) if callable(channel) else channel,
        )

    def _made(
        self,
        option: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The value that a function of the user makes of a call."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            error.add_note(f"raised by {option}= of task {shown(self._task.name)}")
            raise


class Task(Sending[P], Generic[P, R]):
    """A function that can be pushed. Calling it runs it immediately.

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
        self.signature = _signature(function)
        self.arguments = Arguments(function, self.signature)
        self.is_async = inspect.iscoroutinefunction(function)
        self._backoff = backoff
        self.is_serial = False
        self.retry: Retry | None = None
        self.timeout: float | None = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        delay: Duration | None = None,
        at: datetime | None = None,
        subject: str | None = None,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        lease: Duration | None = None,
        channel: Channel | None = None,
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
            "max_attempts": max_attempts,
            "lease": lease,
            "channel": channel,
            "using": using,
        }
        changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
        if delay is not None or at is not None:
            changes |= {"delay": delay, "at": at}
        return Sending(self._app, self, check_options(replace(self._options, **changes)))

    def delay_after(self, item: Item, error: BaseException) -> float | None:
        """Seconds until the next attempt; None follows the queue's settings."""
        if self.retry is not None and (wanted := self.retry.delay_of(error)) is not None:
            return wanted
        if isinstance(self._backoff, Backoff):
            return self._backoff.delay_ms(item.attempts, item.id % 1000 / 1000) / 1000
        return None if self._backoff is None else self._backoff(item, error)

    def __repr__(self) -> str:
        return f"<Task {shown(self.name)} of queue {shown(self.queue)}>"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidOption(
            f"{shown(function)} cannot be a task: its arguments are not known; use a function.",
            option="function",
        ) from error


def check_options(options: TaskOptions) -> TaskOptions:
    """Check options where they are given, so that no later push fails because of them."""
    document(
        Push(
            "task",
            None,
            subject=None if callable(options.subject) else options.subject,
            priority=options.priority,
            at=options.at,
            delay=options.delay,
            headers=options.headers,
            max_attempts=options.max_attempts,
            lease=options.lease,
            channel=None if callable(options.channel) else options.channel,
        ),
        max_body=DEFAULT_MAX_BODY,
    )
    return options


def check_backoff(backoff: object) -> None:
    """A task's own delays between attempts: a ``Backoff`` or a function."""
    if backoff is not None and not isinstance(backoff, Backoff) and not callable(backoff):
        raise InvalidOption(
            f"backoff is {shown(backoff)}: use Backoff(first=...), or a function of an item and its "
            "error that returns seconds.",
            option="backoff",
        )
