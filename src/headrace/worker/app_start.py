"""Starts the workers of an app: its limits first, then its lifespan, then they claim."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from headrace.client._sync.client import Client
from headrace.contract.threads import in_thread
from headrace.errors import InvalidOption
from headrace.model.query.queries import Query
from headrace.worker._async.worker import AsyncWorker
from headrace.worker._sync.worker import Worker
from headrace.worker.factory import Surroundings, start_in
from headrace.worker.lifespan import AppLifespan

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient
    from headrace.worker.app import App

Chunk = int | Literal["concurrency"] | None


def start_workers(
    app: App,
    client: Client,
    concurrencies: Mapping[str, int | None],
    *,
    chunk: Chunk = "concurrency",
    select: Query | None = None,
) -> list[Worker]:
    """Start a worker for each of these queues, with its concurrency."""
    run = _AppRun(app, concurrencies)
    app.limits.store(client._store, app.tasks.values())  # noqa: SLF001  # as workers do
    run.lifespan.enter()
    return run.start(client, chunk, select)


async def astart_workers(
    app: App, client: AsyncClient, concurrencies: Mapping[str, int | None]
) -> list[AsyncWorker]:
    """``start_workers`` on an event loop, with an async client."""
    run = _AppRun(app, concurrencies)
    await in_thread(app.limits.store, client._store, app.tasks.values())  # noqa: SLF001  # as above
    await run.lifespan.aenter()
    return run.start(client, "concurrency", None)


class _AppRun:
    """The workers of one start, and the lifespan around them."""

    def __init__(self, app: App, concurrencies: Mapping[str, int | None]) -> None:
        self._app = app
        self._concurrencies = concurrencies
        self._handlers = {queue: app.handler(queue) for queue in concurrencies}
        self.lifespan = AppLifespan(app, app.lifespan_function)
        self._lock = threading.Lock()
        self._running = len(concurrencies)

    def start(self, client: Any, chunk: Chunk, select: Query | None) -> list[Any]:
        """Start the workers; if one cannot start, none does."""
        lifespan = self.lifespan
        around = Surroundings(
            loop=lifespan.loop,
            variables=lifespan.variables if len(lifespan.variables) else None,
            ended=self._ended,
        )
        workers: list[Any] = []
        try:
            for queue, concurrency in self._concurrencies.items():
                workers.append(
                    start_in(
                        around,
                        client,
                        queue,
                        self._handlers[queue],
                        chunk=chunk,
                        concurrency=concurrency,
                        select=select,
                    )
                )
            self._app.store_schedules(client)
        except BaseException:
            self._ended(len(self._concurrencies) - len(workers))
            for worker in workers:
                worker._engine.kill()  # noqa: SLF001  # the blocking end, for both kinds
            raise
        if not workers:
            lifespan.leave()
        return workers

    def _ended(self, count: int = 1) -> None:
        """A worker has ended; the lifespan ends with the last."""
        with self._lock:
            self._running -= count
            is_last = not self._running
        if is_last:
            self.lifespan.leave()


def start_now(
    app: App, client: Client | AsyncClient, concurrencies: Mapping[str, int | None]
) -> list[Worker | AsyncWorker]:
    """Start them where nothing can be awaited: with an async client only if nothing has to be."""
    if isinstance(client, Client):
        return [*start_workers(app, client, concurrencies)]
    if app.must_be_awaited:
        raise InvalidOption(
            "this app has limits, serial tasks or a lifespan, and they are awaited with an async "
            "client: use await app.awork(client).",
            option="client",
        )
    return _AppRun(app, concurrencies).start(client, "concurrency", None)
