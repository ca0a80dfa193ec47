"""The client that users see, and how to connect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from headrace.client._async.client import AsyncClient
from headrace.contract.driver import Clock, Migrate
from headrace.contract.missing_part import noun
from headrace.contract.shield import finish
from headrace.contract.store import Store
from headrace.contract.threads import in_thread
from headrace.model.checks import positive
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.pipelines._async.collection import AsyncPipelines
from headrace.pipelines._async.pipeline import AsyncPipeline
from headrace.pipelines.runners import close_runners
from headrace.stores import Durability, open_store
from headrace.worker._async.worker import AsyncWorker
from headrace.worker.registry import aclose_workers
from headrace.worker.worker_options import WorkerOptions


class AsyncHeadrace(AsyncClient):
    """A connection to a store, for async code.

    >>> async with headrace.aconnect("sqlite:///flow.db") as hr:
    ...     await hr.commit("numbers", {"n": 1})
    """

    def __init__(self, store: Store, *, max_body: int) -> None:
        super().__init__(store, max_body=max_body)
        self.pipelines = noun(store, "pipelines", AsyncPipelines(self))

    async def start_worker(
        self, queue: str, handler: Callable[..., Any], **options: Unpack[WorkerOptions]
    ) -> AsyncWorker:
        """Start a worker for a queue: it calls ``handler`` with each item.

        See ``headrace.worker.start_worker`` for the options, and for what a handler gets and
        returns. Raises ``WorkerExists`` if this client has a worker for the queue already.
        """
        # Here, because most programs only push.
        from headrace.worker.factory import start_worker

        worker = start_worker(self, queue, handler, **options)
        self.queue(queue)._attach(worker)
        return worker

    def pipeline(self, name: str) -> AsyncPipeline:
        """Refer to a pipeline; ``pipelines.create`` defines one."""
        self._check_open()
        return AsyncPipeline(self, name)

    async def close(self) -> None:
        """Stop pipelines and workers, finish calls in progress and close connections.

        Every later call raises ``NotConnected``.
        """
        # To its end even if the caller is cancelled, so that no connection leaks.
        await finish(self._close())

    async def _close(self) -> None:
        # ASYNC
        await in_thread(close_runners, self)
        # SYNC
        # close_runners(self)
        # END
        await aclose_workers(self)
        await super().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._store.name}, {self.status.name.lower()}>"


# ASYNC
class Connecting(Coroutine[Any, Any, AsyncHeadrace]):
    """What ``aconnect`` returns: await it for a client, or enter it, which closes the client."""

    def __init__(self, opening: Coroutine[Any, Any, AsyncHeadrace]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, Any, AsyncHeadrace]:
        return self._opening.__await__()

    def send(self, value: Any) -> Any:
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        return self._opening.throw(*error)

    def close(self) -> None:
        self._opening.close()

    if not TYPE_CHECKING:  # type checkers shall find the mistake themselves

        def __getattr__(self, attribute: str) -> NoReturn:
            raise AttributeError(
                f"aconnect() has no {attribute!r}: write `hr = await headrace.aconnect(url)`, or "
                "`async with headrace.aconnect(url) as hr`."
            )

    async def __aenter__(self) -> AsyncHeadrace:
        self._client = await self._opening
        return self._client

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()


# END
def aconnect(
    url: str,
    *,
    durability: Durability | None = None,
    migrate: Migrate = "create",
    patience: float = 30.0,
    max_body: int = DEFAULT_MAX_BODY,
    clock: Clock | None = None,
    # ASYNC
) -> Connecting:
    # SYNC
    # ) -> Headrace:
    # END
    """Open the store at ``url`` and return a client, for async code.

    ``memory://``, ``sqlite:///flow.db`` or ``postgresql://user@host/database``; options may
    follow as ``?durability=relaxed&schema=mine`` (``prefix`` on SQLite).

    - ``durability``: ``safe`` by default, acknowledged writes survive a power failure;
      ``relaxed`` is faster and may lose the last writes.
    - ``patience``: how many seconds a call, including this one, retries while the database is
      unavailable, busy or silent.
    - ``migrate``: ``"auto"`` also upgrades tables of an older version on PostgreSQL (SQLite always
      does); ``"off"`` creates no tables: ``UnknownStore`` if there are none.
    - ``clock``: returns the time in milliseconds in place of the database's, for tests.
    """
    open = partial(
        open_store, url, durability=durability, migrate=migrate, patience=patience, clock=clock
    )
    # ASYNC
    return Connecting(_connected(open, max_body))
    # SYNC
    # size = positive("max_body", max_body)
    # return Headrace(open(), max_body=size)
    # END


# ASYNC
async def _connected(open: Callable[[], Store], max_body: int) -> AsyncHeadrace:
    size = positive("max_body", max_body)
    opening = asyncio.ensure_future(in_thread(open))
    try:
        store = await finish(opening)
    except asyncio.CancelledError:
        if not opening.cancelled() and opening.exception() is None:
            await finish(opening.result().aclose())
        raise
    return AsyncHeadrace(store, max_body=size)


# END
