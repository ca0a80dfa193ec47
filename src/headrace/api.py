"""Headrace and AsyncHeadrace: the façade on top of everything, and how to get one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, Unpack

from headrace.client.calls import Call
from headrace.client.clients import AsyncClient, Client
from headrace.client.running import Status, documented
from headrace.errors import NotConnected
from headrace.model.checks import positive
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.pipelines import PipelineInfo
from headrace.pipelines.defining import ProcessorLike, plan
from headrace.pipelines.handles import AsyncSystemProc, SystemProc, close_runners
from headrace.stores import Clock, Durability, Migrate, open_store
from headrace.worker.pipelines import PipelineOptions, Topics
from headrace.worker.registering import (
    WorkerOptions,
    aclose_workers,
    close_workers,
    register_worker,
)
from headrace.worker.workers import AsyncWorker, Worker


class Headrace(Client):
    """A connection to a store, for blocking code.

    >>> with headrace.connect("sqlite:///flow.db") as hr:
    ...     hr.commit("numbers", {"n": 1})
    """

    def register_worker(
        self, queue: str, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
    ) -> Worker:
        """Work on a queue from now on: call ``handler`` with each of its items.

        See ``headrace.worker.register_worker`` for the options, and for what a handler gets and
        returns. ``RegisterWorkerError`` if this client has a worker for the queue already.
        """
        worker = register_worker(self, queue, handler, **options)
        self._refer(queue).attach(worker)
        return worker

    def system_proc(
        self,
        name: str,
        *,
        source: Topics | None = None,
        processor: ProcessorLike | None = None,
        **options: Unpack[PipelineOptions],
    ) -> SystemProc:
        """A pipeline: claim records, let ``processor`` handle them, ack and commit the results.

        ``source`` is a topic, read by a proc of the pipeline's name, or several, read by procs
        ``<name>__<topic>``; all are made, or none. ``to`` is a topic, several (every result goes
        to each) or none. ``processor`` is a function, which lives in this process, or
        ``"module:function"``, which any process can run: code is never stored. It takes a record's
        body, a batch or a DataFrame; see ``headrace.pipelines.processors`` for the kinds. ``count``
        is how many records are claimed at once, at the most; ``offset`` and the other options are
        those of ``proc``.

        A pipeline that exists keeps its place, and gets what is said here from its next claim on.
        With a name only it must exist. Nothing runs yet: see the methods of the result, and
        ``headrace pipeline run``.
        """
        wanted = plan(
            self._calls.store,  # type: ignore[arg-type]  # a client has a store, not a session
            name,
            source,
            processor,
            options,
        )
        return SystemProc(self, self._run(wanted.call).name, wanted.function)

    def system_procs(self) -> list[PipelineInfo]:
        """All pipelines by name."""
        return self._run(Call(self._calls.store.pipelines(), _same))  # type: ignore[union-attr]  # as above

    def close(self) -> None:
        """Stop pipelines and workers, finish what is under way and release connections.

        Every later call raises ``NotConnected``.
        """
        close_runners(self)
        close_workers(self)
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Headrace on {self._store.name}, {self.status().name.lower()}>"


class AsyncHeadrace(AsyncClient):
    """A connection to a store, for async code.

    >>> async with await headrace.aconnect("sqlite:///flow.db") as hr:
    ...     await hr.commit("numbers", {"n": 1})
    """

    def register_worker(
        self, queue: str, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
    ) -> AsyncWorker:
        worker = register_worker(self, queue, handler, **options)
        self._refer(queue).attach(worker)
        return worker

    async def system_proc(
        self,
        name: str,
        *,
        source: Topics | None = None,
        processor: ProcessorLike | None = None,
        **options: Unpack[PipelineOptions],
    ) -> AsyncSystemProc:
        wanted = plan(
            self._calls.store,  # type: ignore[arg-type]  # a client has a store, not a session
            name,
            source,
            processor,
            options,
        )
        return AsyncSystemProc(self, (await self._run(wanted.call)).name, wanted.function)

    async def system_procs(self) -> list[PipelineInfo]:
        return await self._run(Call(self._calls.store.pipelines(), _same))  # type: ignore[union-attr]  # as above

    async def close(self) -> None:
        await asyncio.to_thread(close_runners, self)
        await aclose_workers(self)
        await super().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncHeadrace on {self._store.name}, {self.status().name.lower()}>"


documented(AsyncHeadrace, Headrace)

_default: Headrace | None = None


def _same(value: Any) -> Any:
    return value


def connect(
    url: str,
    *,
    durability: Durability | None = None,
    migrate: Migrate = "create",
    patience: float = 30.0,
    max_body: int = DEFAULT_MAX_BODY,
    clock: Clock | None = None,
) -> Headrace:
    """Open the store at ``url`` and return a client.

    ``memory://``, ``sqlite:///flow.db`` or ``postgresql://user@host/database``; options may
    follow as ``?durability=relaxed&schema=mine`` (``prefix`` on SQLite). ``durability`` is
    ``safe`` unless said otherwise: what is acknowledged survives a power cut; ``relaxed``
    is faster and may lose the last moments. ``patience`` is how many seconds an operation
    rides out a database that is away or busy. ``migrate="auto"`` upgrades tables of an
    older version on PostgreSQL (SQLite always does); ``"off"`` makes no tables either:
    ``UnknownStore`` if there are none. ``clock`` gives the time in milliseconds in place
    of the database's, for tests.

    The first open client is the process default that module-level functions use.
    """
    global _default
    store = open_store(url, durability=durability, migrate=migrate, patience=patience, clock=clock)
    client = Headrace(store, max_body=positive("max_body", max_body))
    if _default is None or _default.status() == 0:
        _default = client
    return client


async def aconnect(
    url: str,
    *,
    durability: Durability | None = None,
    migrate: Migrate = "create",
    patience: float = 30.0,
    max_body: int = DEFAULT_MAX_BODY,
    clock: Clock | None = None,
) -> AsyncHeadrace:
    """``connect`` for async code. It never becomes the process default."""
    store = await asyncio.to_thread(
        open_store,
        url,
        durability=durability,
        migrate=migrate,
        patience=patience,
        clock=clock,
    )
    return AsyncHeadrace(store, max_body=positive("max_body", max_body))


def default() -> Headrace:
    """The process default, or ``NotConnected``."""
    if _default is None or _default.status() == 0:
        raise NotConnected("no client is open in this process: call headrace.connect(url) first.")
    return _default


def default_status() -> Status:
    """``status()`` of the process default; 0 if there is none."""
    return Status.UNINITIALISED if _default is None else _default.status()
