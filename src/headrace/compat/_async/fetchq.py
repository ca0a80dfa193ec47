"""FetchQ's client: one connection, its calls, and references to queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace._async.headrace import AsyncHeadrace, aconnect
from headrace.client._async import queue as references
from headrace.client.events import Callback
from headrace.client.queue_reference import Scope
from headrace.client.workflows.settings_update import UpdateReport
from headrace.compat.fetchq_values import (
    FetchQCreateError,
    FetchQError,
    FetchQPushError,
    FetchQRefError,
    FetchQRegisterWorkerError,
    FetchQUpsertError,
    Options,
    Result,
    UpsertResult,
    connection_of,
    documents_of,
    drop_options,
    failing_as,
    queue_options,
    worker_options,
)
from headrace.core.documents import Doc
from headrace.core.views import QueueReport, QueueStats
from headrace.errors import InvalidOption, NotConnected
from headrace.model.fields import shown
from headrace.worker._async.worker import AsyncWorker

Document = Mapping[str, Any] | Doc
"""``{"subject", "payload", "priority", "nextExecution"}``, all of them optional."""

Names = str | Iterable[str] | None


class AsyncFetchQ:
    """A client with FetchQ's calls. The functions of the module belong to a global one.

    Every call but ``status`` raises before ``connect`` and after ``close``.
    """

    def __init__(self) -> None:
        self._client: AsyncHeadrace | None = None
        self._references: dict[str, AsyncQueueRef] = {}
        self._has_failed = False

    async def connect(self, options: Options = None, **more: Any) -> None:
        """Open the store of a driver: ``{"driver": {"type": "postgres", "host": …}}``.

        - ``memory``: ``name``, to share the store with other clients of this process.
        - ``sqlite``: ``path``, and ``prefix``.
        - ``postgres``: ``host``, ``port``, ``user``, ``password``, ``database``, ``schema``, and
          the parameters of libpq.

        Each driver understands ``url`` in place of these. Beside ``driver``, the options of
        ``headrace.connect`` are allowed.
        """
        with failing_as(FetchQError):
            if self._client is not None:
                raise InvalidOption("fetchq is connected already: close it first.")
            self._has_failed = True
            url, known = connection_of(options, more)
            self._client = await aconnect(url, **known)
            self._has_failed = False

    def status(self) -> int:
        """0 before ``connect``, 1 if the last call worked, -1 after an error of the store."""
        if self._client is not None:
            return int(self._client.status)
        return -1 if self._has_failed else 0

    async def close(self) -> None:
        """Stop the workers and close the connection."""
        client, self._client = self._client, None
        self._references = {}
        self._has_failed = False
        if client is not None:
            await client.close()

    async def push(self, queue_name: str, documents: Iterable[Document]) -> Result:
        """Add documents to a queue, all in one transaction; skip those that exist in it.

        The queue is created with the default settings if it does not exist.
        """
        with failing_as(FetchQPushError):
            return await _push(self._connected, queue_name, documents)

    async def upsert(self, queue_name: str, documents: Iterable[Document]) -> UpsertResult:
        """Add documents to a queue, or update the payload, the time and the priority of those
        that exist in it. Active documents are skipped.
        """
        with failing_as(FetchQUpsertError):
            return await _upsert(self._connected, queue_name, documents)

    async def register_worker(self, options: Options = None, **more: Any) -> AsyncWorker:
        """Call the ``handler`` with each item of the ``queue`` from now on.

        The worker has ``on("data", …)``, ``on("error", …)``, ``pause``, ``resume`` and ``kill``.
        Other options are those of ``hr.start_worker``, also under FetchQ's names.
        """
        with failing_as(FetchQRegisterWorkerError):
            client, known = self._connected, worker_options(options, more)
            return await client.start_worker(known.pop("queue", None), **known)

    async def create(self, queue_name: str, options: Options = None, **more: Any) -> AsyncQueueRef:
        """Create a queue, and return a reference to it."""
        with failing_as(FetchQCreateError):
            known = queue_options(options, more)
            await self._connected.queues.create(queue_name, **known)
            return self._reference(queue_name)

    async def ref(self, queue_name: str, options: Options = None, **more: Any) -> AsyncQueueRef:
        """Return the reference to a queue, the same object each time; create the queue if needed.

        An existing queue gets the options that are given.
        """
        with failing_as(FetchQRefError):
            known = queue_options(options, more)
            await self._connected.queues.create(queue_name, **{"exist_ok": True, **known})
            return self._reference(queue_name)

    async def drop(self, queue_name: str, options: Options = None, **more: Any) -> None:
        """Remove a queue. With ``keepData`` its items stay for a queue of the same name."""
        with failing_as(FetchQError):
            queue = self._connected.queue(queue_name)
            await queue.drop(keep_data=drop_options(options, more))

    async def update(self, queue_name: str, options: Options = None, **more: Any) -> UpdateReport:
        """Change settings of a queue while none of its workers runs, on all connected clients."""
        with failing_as(FetchQError):
            known = queue_options(options, more)
            return await self._connected.queue(queue_name).update(**known)

    async def stats(self, queue_names: Names = None) -> list[QueueStats]:
        """The numbers of some queues, or of all: from running counts if the queue keeps them."""
        with failing_as(FetchQError):
            return await self._connected.queues.stats(queue_names)

    async def compute_stats(self, queue_names: Names = None) -> list[QueueStats]:
        """``stats`` that are counted now."""
        with failing_as(FetchQError):
            return await self._connected.queues.stats(queue_names, exact=True)

    async def consolidate_stats(self, queue_names: Names = None) -> list[QueueStats]:
        """``compute_stats`` that also correct the running counts."""
        with failing_as(FetchQError):
            return await self._connected.queues.stats(queue_names, store=True)

    async def info(self, queue_names: Names = None) -> list[QueueReport]:
        """Settings, workers and throughput of some queues, or of all."""
        with failing_as(FetchQError):
            return await self._connected.queues.info(queue_names)

    @property
    def _connected(self) -> AsyncHeadrace:
        if self._client is None:
            raise NotConnected("fetchq is not connected: call connect first.")
        return self._client

    def _reference(self, name: str) -> AsyncQueueRef:
        return self._references.setdefault(
            name, AsyncQueueRef(self._connected, self._connected.queue(name))
        )


class AsyncQueueRef:
    """A queue: one object per queue and connection, with the calls that concern it."""

    def __init__(self, client: AsyncHeadrace, queue: references.AsyncQueue) -> None:
        self.queue = queue
        self._client = client

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self.queue.name

    async def push(self, documents: Iterable[Document]) -> Result:
        """``push`` to this queue."""
        with failing_as(FetchQPushError):
            return await _push(self._client, self.name, documents)

    async def upsert(self, documents: Iterable[Document]) -> UpsertResult:
        """``upsert`` to this queue."""
        with failing_as(FetchQUpsertError):
            return await _upsert(self._client, self.name, documents)

    async def register_worker(self, options: Options = None, **more: Any) -> AsyncWorker:
        """``register_worker`` for this queue."""
        with failing_as(FetchQRegisterWorkerError):
            known = worker_options(options, {**more, "queue": self.name})
            return await self._client.start_worker(known.pop("queue"), **known)

    async def on(
        self, event: str, callback: Callback, *, scope: Scope = "client"
    ) -> Callable[[], None]:
        """Call back when something happens; returns the function that ends it.

        ``pushed``, ``updated``, ``paused``, ``resumed`` and ``dropped`` by this client, or with
        ``scope="all"`` by any client, and the events of this client's worker: ``data``,
        ``error``, ``state`` and ``lost``.
        """
        return await self.queue.on(event, callback, scope=scope)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"


async def _push(client: AsyncHeadrace, queue: str, documents: Iterable[Document]) -> Result:
    result = await client.push_many(queue, documents_of(documents))
    return Result(result.pushed, result.skipped)


async def _upsert(client: AsyncHeadrace, queue: str, documents: Iterable[Document]) -> UpsertResult:
    result = await client.upsert_many(queue, documents_of(documents), while_active="skip")
    return UpsertResult(result.pushed, result.updated, result.skipped)
