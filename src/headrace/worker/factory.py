"""Starts workers, and registers them with their client."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, overload

from headrace.client._sync.client import Client
from headrace.core.channels import Order, choice_of
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.names import writable_queue
from headrace.model.query.queries import Query
from headrace.model.queues.channels import QUANTUM
from headrace.model.times import Duration, optional_ms
from headrace.worker import registry
from headrace.worker._async.worker import AsyncWorker
from headrace.worker._sync.worker import Worker
from headrace.worker.async_executor import AsyncExecutor
from headrace.worker.engine import WorkerEngine
from headrace.worker.loop_listeners import LoopListeners
from headrace.worker.queue_settings import PrefetchOptions
from headrace.worker.tasks import Task
from headrace.worker.thread_executor import ThreadExecutor
from headrace.worker.worker_options import Backoff, WorkerOptions

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient

MAX_CONCURRENCY = 10_000


class Surroundings(NamedTuple):
    """What an app's workers run in: an event loop, context variables; and who hears of their end."""

    loop: asyncio.AbstractEventLoop | None = None
    variables: contextvars.Context | None = None
    ended: Callable[[], None] | None = None


ALONE = Surroundings()


@overload
def start_worker(
    client: Client, queue: str, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
) -> Worker: ...
@overload
def start_worker(
    client: AsyncClient, queue: str, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
) -> AsyncWorker: ...
def start_worker(
    client: Client | AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    chunk: int | Literal["concurrency"] | None = None,
    concurrency: int | None = None,
    lease: Duration | None = None,
    batch: bool = False,
    backoff: Backoff | None = None,
    name: str | None = None,
    select: Query | None = None,
    order: Order = "fair",
    quantum: int = QUANTUM,
) -> Worker | AsyncWorker:
    """Work on a queue from now on: call ``handler`` with each of its items.

    The queue is created if there is none. Functions run in threads, ``concurrency`` of them;
    coroutine functions run on the event loop (with a blocking client, on one of the worker's
    own). What a handler returns is the outcome: None completes the item, ``Complete``,
    ``Reschedule``, ``Reject``, ``Kill``, ``Drop``, ``Release`` and ``RetryAfter`` are explicit,
    and an error rejects it. A handler with a second parameter gets a ``Context``. With ``batch``
    it gets a list of up to ``chunk`` items, and may return a list of outcomes, or a dict by id.

    ``chunk`` is how many items are claimed at a time (``"concurrency"``: as many as handlers may
    run, unless the queue's ``chunk`` is set), ``lease`` for how long (it is extended while the handler runs). An option that is not given follows the queue's settings, also when
    they change. ``select``, ``order`` and ``quantum`` choose among channels, as in ``Queue.claim``.
    ``backoff`` returns, for an item and its error, the seconds until the next attempt.

    ``WorkerExists`` if this client has a worker for the queue already.
    """
    return start_in(
        ALONE,
        client,
        queue,
        handler,
        chunk=chunk,
        concurrency=concurrency,
        lease=lease,
        batch=batch,
        backoff=backoff,
        name=name,
        select=select,
        order=order,
        quantum=quantum,
    )


def start_in(
    around: Surroundings,
    client: Client | AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    chunk: int | Literal["concurrency"] | None = None,
    concurrency: int | None = None,
    lease: Duration | None = None,
    batch: bool = False,
    backoff: Backoff | None = None,
    name: str | None = None,
    select: Query | None = None,
    order: Order = "fair",
    quantum: int = QUANTUM,
) -> Worker | AsyncWorker:
    """``start_worker`` within what an app has around it."""
    loop = None if isinstance(client, Client) else _running_loop()
    engine = _engine(
        client,
        writable_queue(queue),
        handler,
        options=PrefetchOptions(
            "concurrency" if chunk == "concurrency" else _count("chunk", chunk),
            _count("concurrency", concurrency),
            optional_ms("lease", lease),
            choice_of(select, order, quantum),
        ),
        is_batch=batch,
        backoff=backoff,
        name=name,
        around=around,
    )
    if loop is not None:
        engine.listeners.call = LoopListeners(loop).call
    _start(engine, client, loop or around.loop, around.variables)
    return Worker(engine) if loop is None else AsyncWorker(engine)


def _engine(
    client: Client | AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    options: PrefetchOptions,
    is_batch: bool,
    backoff: Backoff | None,
    name: str | None,
    around: Surroundings,
) -> WorkerEngine:
    if backoff is not None and not callable(backoff):
        raise InvalidOption(
            f"backoff is {shown(backoff)}: use a function of an item and an error.",
            option="backoff",
        )
    if isinstance(handler, Task):
        raise InvalidOption(
            f"handler is {shown(handler)}: a handler gets items; start its app with app.work().",
            option="handler",
        )
    requests = client._requests  # noqa: SLF001  # raises when the client is closed
    store = client._store  # noqa: SLF001  # a worker is part of its client
    workers = registry.of(client, store)
    if around.variables is not None and not inspect.iscoroutinefunction(handler):
        handler = _in_variables(around.variables, handler)

    # Once, although a stop and a kill may both end it.
    listeners = [around.ended] if around.ended is not None else []

    def ended(engine: WorkerEngine) -> None:
        workers.remove(engine)
        with contextlib.suppress(IndexError):
            listeners.pop()()

    engine = WorkerEngine(
        store,
        queue,
        handler,
        client=client,
        name=name or f"{socket.gethostname()}/{os.getpid()}",
        options=options,
        max_body=requests.max_body,
        is_batch=is_batch,
        backoff=backoff,
        heartbeat=workers.heartbeat,
        ended=ended,
    )
    workers.add(engine)
    return engine


def _in_variables(
    variables: contextvars.Context, function: Callable[..., Any]
) -> Callable[..., Any]:
    """The function of a thread with the context variables; each call has a copy of its own."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        return variables.copy().run(function, *args)

    return run


def _start(
    engine: WorkerEngine,
    client: Client | AsyncClient,
    loop: asyncio.AbstractEventLoop | None,
    variables: contextvars.Context | None,
) -> None:
    name = f"headrace-{engine.queue}"
    if engine.handler.is_async:
        engine.start(
            AsyncExecutor(
                name,
                loop=loop,
                variables=variables,
                prefetcher=engine.prefetcher,
                completer=engine.completer,
                switch=engine.switch,
                handler=engine.handler,
                orphaned=engine.abandon,
            )
        )
    else:
        engine.start(
            ThreadExecutor(
                name,
                prefetcher=engine.prefetcher,
                completer=engine.completer,
                switch=engine.switch,
                handler=engine.handler,
            )
        )
    registry.of(client, engine.store).heartbeat.add(engine)


def _count(option: str, value: int | None) -> int | None:
    if value is None:
        return None
    if positive(option, value) > MAX_CONCURRENCY:
        raise InvalidOption(f"{option} is {value}: use 1 to {MAX_CONCURRENCY}.", option=option)
    return value


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise InvalidOption(
            "a worker of an async client needs its event loop: register it in a coroutine.",
            option="client",
        ) from error
