"""The queues of a store: created, listed and measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from headrace.client._async.queue import AsyncQueue
from headrace.client.queue_reference import QueueReference
from headrace.client.workflows import inspection
from headrace.core.queue_settings import QueueOptions
from headrace.core.requests.queues import names_of
from headrace.core.views import QueueReport, QueueStats
from headrace.model.queues.settings import QueueInfo, QueueSettings

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Names = str | QueueReference | Iterable[str | QueueReference] | None
Infos = list[QueueInfo]
Stats = list[QueueStats]
Reports = list[QueueReport]


class AsyncQueues:
    """The queues of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self, name: str, *, exist_ok: bool = False, **settings: Unpack[QueueOptions]
    ) -> AsyncQueue:
        """Make a queue with the stored defaults and some settings.

        ``QueueExists`` if there is one of that name. With ``exist_ok`` an existing queue gets the
        settings that are given, immediately: ``queue.update`` stops its workers first.
        """
        requests = self._client._requests.queues
        await self._client._run(requests.create(name, settings, is_new=not exist_ok))
        return self._client.queue(name)

    async def stats(
        self, queues: Names = None, *, exact: bool = False, store: bool = False
    ) -> Stats:
        """The numbers of some queues, or of all, by name.

        From running counts where the queue keeps ``metrics``, which costs little however long
        it is; else they are counted. ``exact`` counts now for all of them. ``store`` does so, too,
        and corrects the running counts.
        """
        requests = self._client._requests.queues
        if store:
            return await self._client._run(requests.consolidate(queues))
        return await self._client._run(requests.stats(queues, is_computed=exact))

    async def info(self, queues: Names = None) -> Reports:
        """Some queues as a whole, or all: settings, numbers, workers, throughput, waits."""
        return await self._client._follow(
            inspection.report_queues(self._client._requests.store, names_of(queues))
        )

    async def list(
        self, *, prefix: str = "", after: str = "", limit: int = inspection.MAX_QUEUES
    ) -> Infos:
        """Queues by name, with their settings; go on with ``after`` the last one."""
        return await self._client._run(self._client._requests.queues.listing(prefix, after, limit))

    async def defaults(self) -> QueueSettings:
        """The settings that new queues get."""
        return await self._client._run(self._client._requests.queues.defaults())

    async def set_defaults(self, **settings: Unpack[QueueOptions]) -> QueueSettings:
        """Change the settings that new queues get; queues that exist stay as they are."""
        return await self._client._run(self._client._requests.queues.set_defaults(settings))
