"""How a worker is made."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict, overload

from headrace.client.clients import AsyncClient, Client
from headrace.core.channels import Order, choice_of
from headrace.errors import InvalidOption
from headrace.model.channels import QUANTUM
from headrace.model.checks import milliseconds, positive
from headrace.model.names import check_queue
from headrace.model.queries import Query
from headrace.worker import crews
from headrace.worker.claiming import Wishes
from headrace.worker.engine import Engine
from headrace.worker.handlers import Backoff
from headrace.worker.holding import monotonic
from headrace.worker.lanes import ThreadLanes
from headrace.worker.loops import LoopLanes
from headrace.worker.workers import DEFAULT_GRACE, AsyncWorker, Worker

MOST = 10_000


class WorkerOptions(TypedDict, total=False):
    """What can be said of a worker beside its queue and its handler."""

    chunk: int | None
    concurrency: int | None
    lease: timedelta | float | None
    batch: bool
    backoff: Backoff | None
    name: str | None
    select: Query | None
    order: Order
    quantum: int


@overload
def register_worker(
    client: Client,
    queue: str,
    handler: Callable[..., Any],
    *,
    chunk: int | None = None,
    concurrency: int | None = None,
    lease: timedelta | float | None = None,
    batch: bool = False,
    backoff: Backoff | None = None,
    name: str | None = None,
    select: Query | None = None,
    order: Order = "fair",
    quantum: int = QUANTUM,
) -> Worker: ...
@overload
def register_worker(
    client: AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    chunk: int | None = None,
    concurrency: int | None = None,
    lease: timedelta | float | None = None,
    batch: bool = False,
    backoff: Backoff | None = None,
    name: str | None = None,
    select: Query | None = None,
    order: Order = "fair",
    quantum: int = QUANTUM,
) -> AsyncWorker: ...
def register_worker(
    client: Client | AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    chunk: int | None = None,
    concurrency: int | None = None,
    lease: timedelta | float | None = None,
    batch: bool = False,
    backoff: Backoff | None = None,
    name: str | None = None,
    select: Query | None = None,
    order: Order = "fair",
    quantum: int = QUANTUM,
) -> Worker | AsyncWorker:
    """Work on a queue from now on: call ``handler`` with each of its items.

    The queue is made if there is none. Functions run in threads, ``concurrency`` of them;
    coroutine functions run on the event loop (with a blocking client, on one of the worker's
    own). What a handler returns is the outcome: nothing completes the item, ``Complete``,
    ``Reschedule``, ``Reject``, ``Kill``, ``Drop``, ``Release`` and ``RetryAfter`` say otherwise,
    and what it raises rejects it. A handler with a second parameter gets a ``Context``. With ``batch`` it
    gets a list of up to ``chunk`` items, and may return a list of outcomes, or a dict by id.

    ``chunk`` is how many items are claimed at a time, ``lease`` for how long (it is extended
    while the handler runs). What is not given follows the queue's settings, also when they
    change. ``select``, ``order`` and ``quantum`` choose among channels, as in ``Queue.claim``.
    ``backoff`` says for an item and its error in how many seconds it is tried again.

    ``RegisterWorkerError`` if this client has a worker for the queue already.
    """
    loop = None if isinstance(client, Client) else _running_loop()
    engine = _engine(
        client,
        check_queue(queue),
        handler,
        wishes=Wishes(
            _count("chunk", chunk),
            _count("concurrency", concurrency),
            milliseconds("lease", lease),
            choice_of(select, order, quantum),
        ),
        is_batch=batch,
        backoff=backoff,
        name=name,
    )
    worker = Worker(engine) if loop is None else AsyncWorker(engine, loop)
    _start(engine, client, loop)
    return worker


def close_workers(client: Client | AsyncClient, grace: float = DEFAULT_GRACE) -> None:
    """Stop all workers of a client, which is about to be closed; the grace is one for all."""
    crew = crews.known_crew(client)
    if crew is None:
        return
    over = monotonic() + grace
    engines = crew.engines
    for engine in engines:
        engine.switch.begin_end()
    for engine in engines:
        engine.stop(max(over - monotonic(), 0.0))
    crew.close()


async def aclose_workers(client: AsyncClient, grace: float = DEFAULT_GRACE) -> None:
    """``close_workers`` for an async client."""
    if crews.known_crew(client) is not None:
        await asyncio.to_thread(close_workers, client, grace)


def _engine(
    client: Client | AsyncClient,
    queue: str,
    handler: Callable[..., Any],
    *,
    wishes: Wishes,
    is_batch: bool,
    backoff: Backoff | None,
    name: str | None,
) -> Engine:
    if backoff is not None and not callable(backoff):
        raise InvalidOption(
            f"backoff is {backoff!r}: use a function of an item and an error.", option="backoff"
        )
    calls = client._calls  # noqa: SLF001  # raises when the client is closed
    store = client._store  # noqa: SLF001  # a worker is part of its client
    crew = crews.crew(client, store)
    engine = Engine(
        store,
        queue,
        handler,
        client=client,
        name=name or f"{socket.gethostname()}/{os.getpid()}",
        wishes=wishes,
        max_body=calls.max_body,
        is_batch=is_batch,
        backoff=backoff,
        heart=crew.pulse,
        ended=crew.let_go,
    )
    crew.take(engine)
    return engine


def _start(
    engine: Engine, client: Client | AsyncClient, loop: asyncio.AbstractEventLoop | None
) -> None:
    name = f"headrace-{engine.queue}"
    if engine.handler.is_async:
        engine.start(
            LoopLanes(
                name,
                loop=loop,
                intake=engine.intake,
                outbox=engine.outbox,
                switch=engine.switch,
                handler=engine.handler,
                orphaned=engine.abandon,
            )
        )
    else:
        engine.start(
            ThreadLanes(
                name,
                intake=engine.intake,
                outbox=engine.outbox,
                switch=engine.switch,
                handler=engine.handler,
            )
        )
    crews.crew(client, engine.store).pulse.add(engine)


def _count(option: str, value: int | None) -> int | None:
    if value is None:
        return None
    if positive(option, value) > MOST:
        raise InvalidOption(f"{option} is {value}: use 1 to {MOST}.", option=option)
    return value


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise InvalidOption(
            "a worker of an async client needs its event loop: register it in a coroutine.",
            option="client",
        ) from error
