"""Administration of a store: maintenance, diagnosis, its clients and workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.client.waiters import MAX_POLL_SECONDS, Deadline
from headrace.client.workflows import inspection
from headrace.client.workflows.maintenance import maintenance
from headrace.contract.items import ClientInfo
from headrace.contract.values import Finding
from headrace.core.presence import ClientsChange, ClientWatch, WorkersChange, WorkerWatch
from headrace.core.requests.request import Request
from headrace.core.views import WorkerInfo
from headrace.model.maintenance import MaintenanceReport
from headrace.model.names import check_queue
from headrace.model.queues.settings import PRESENCE_WORD

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


T = TypeVar("T")


class AsyncAdmin:
    """Administration of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def maintain(self, *, force: bool = False) -> MaintenanceReport:
        """Collect old records, tend queues, and remove procs, keys and clients that ran out.

        Done by one client at a time and at most every 30 s (``hr.topics.set_retention`` changes
        that), by the first that asks; ``force`` does it now. Workers, live procs and pipelines ask
        automatically.
        """
        return await self._client._follow(maintenance(self._client._open_store, force=force))

    async def diagnose(self, *, deep: bool = False) -> list[Finding]:
        """Check the database: its version, durability, clock, open transactions, size.

        One finding per check, ``ok``, ``warn`` or ``fail``, with the next step. Changes
        nothing. ``deep`` also reads the whole of a SQLite file, which is slow.
        """
        return await self._client._run(Request(self._client._open_store.admin.diagnose(deep)))

    async def clients(self) -> list[ClientInfo]:
        """The clients that have workers, by start, those without a recent heartbeat too."""
        return await self._client._run(self._client._requests.queues.clients())

    async def workers(self, queue: str | None = None) -> list[WorkerInfo]:
        """The workers of a queue, or all, by start, those without a recent heartbeat too."""
        return await self._client._follow(
            inspection.list_workers(self._client._requests.store, queue)
        )

    def watch_workers(
        self, queue: str | None = None, *, wait: float | None = None
    ) -> AsyncIterator[WorkersChange]:
        """Iterate over changes of the workers of a queue, or of all, in whichever process.

        The first is how it is now. Then one follows each time that workers join, leave or get
        another status: within a second, and sooner where the store can notify. It ends when
        nothing has changed for ``wait`` seconds; None waits for ever.

        >>> async for change in hr.admin.watch_workers("mail"):
        ...     if change.all_stopped:
        ...         break
        """
        name, watch = None if queue is None else check_queue(queue), WorkerWatch()

        async def poll() -> WorkersChange | None:
            return watch.compare(await self.workers(name))

        return self._changes(poll, wait, Deadline(wait))

    def watch_clients(self, *, wait: float | None = None) -> AsyncIterator[ClientsChange]:
        """``watch_workers`` for the clients that have workers."""
        watch = ClientWatch()

        async def poll() -> ClientsChange | None:
            return watch.compare(await self.clients())

        return self._changes(poll, wait, Deadline(wait))

    async def _changes(
        self, poll: Callable[[], Awaitable[T | None]], wait: float | None, deadline: Deadline
    ) -> AsyncIterator[T]:
        while (change := await self._next_change(poll, deadline)) is not None:
            yield change
            deadline = Deadline(wait)

    async def _next_change(
        self, poll: Callable[[], Awaitable[T | None]], deadline: Deadline
    ) -> T | None:
        change = await poll()
        if change is None:
            with self._client._waits.listening(PRESENCE_WORD) as waiter:
                while (change := await poll()) is None and not deadline.is_over:
                    await waiter.await_hint(deadline.at_most(MAX_POLL_SECONDS))
        return change
