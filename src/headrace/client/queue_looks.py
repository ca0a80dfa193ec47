"""Looking at all queues of a store, and their defaults: one part of a client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from headrace.client import looks
from headrace.client.item_claims import QueueReference
from headrace.client.pushing import AsyncPushing, Pushing
from headrace.client.queue_calls import names_of
from headrace.client.running import documented
from headrace.contract.items import ClientRow
from headrace.core.looking import QueueReport, QueueStats, WorkerInfo
from headrace.core.queue_settings import Settings
from headrace.model.queues import QueueInfo, QueueSettings

Queues = str | QueueReference | Iterable[str | QueueReference] | None


class QueueLooks(Pushing):
    """Looks for blocking code."""

    def stats(self, queues: Queues = None) -> list[QueueStats]:
        """The numbers of some queues, or of all, by name.

        From running counts where the queue keeps ``metrics``, which costs little however long
        it is; else they are counted.
        """
        return self._run(self._queue_calls.stats(queues, is_computed=False))

    def compute_stats(self, queues: Queues = None) -> list[QueueStats]:
        """``stats``, counted now for all of them."""
        return self._run(self._queue_calls.stats(queues, is_computed=True))

    def consolidate_stats(self, queues: Queues = None) -> list[QueueStats]:
        """``compute_stats``, and set the running counts right by them."""
        return self._run(self._queue_calls.consolidate(queues))

    def info(self, queues: Queues = None) -> list[QueueReport]:
        """Some queues as a whole, or all: settings, numbers, workers, throughput, waits."""
        return self._follow(looks.reporting(self._queue_calls.store, names_of(queues)))

    def queues(
        self, *, prefix: str = "", after: str = "", limit: int = looks.MOST_QUEUES
    ) -> list[QueueInfo]:
        """Queues by name, with their settings; go on with ``after`` the last one."""
        return self._run(self._queue_calls.queues(prefix, after, limit))

    def queue_defaults(self) -> QueueSettings:
        """The settings that new queues get."""
        return self._run(self._queue_calls.defaults())

    def set_queue_defaults(self, **settings: Unpack[Settings]) -> QueueSettings:
        """Change the settings that new queues get; queues that exist stay as they are."""
        return self._run(self._queue_calls.set_defaults(settings))

    def clients(self) -> list[ClientRow]:
        """The clients that have workers, by start, those that were not heard of lately too."""
        return self._run(self._queue_calls.clients())

    def workers(self, queue: str | None = None) -> list[WorkerInfo]:
        """The workers of a queue, or all, by start, those that were not heard of lately too."""
        return self._follow(looks.working(self._queue_calls.store, queue))


class AsyncQueueLooks(AsyncPushing):
    """Looks for async code."""

    async def stats(self, queues: Queues = None) -> list[QueueStats]:
        return await self._run(self._queue_calls.stats(queues, is_computed=False))

    async def compute_stats(self, queues: Queues = None) -> list[QueueStats]:
        return await self._run(self._queue_calls.stats(queues, is_computed=True))

    async def consolidate_stats(self, queues: Queues = None) -> list[QueueStats]:
        return await self._run(self._queue_calls.consolidate(queues))

    async def info(self, queues: Queues = None) -> list[QueueReport]:
        return await self._follow(looks.reporting(self._queue_calls.store, names_of(queues)))

    async def queues(
        self, *, prefix: str = "", after: str = "", limit: int = looks.MOST_QUEUES
    ) -> list[QueueInfo]:
        return await self._run(self._queue_calls.queues(prefix, after, limit))

    async def queue_defaults(self) -> QueueSettings:
        return await self._run(self._queue_calls.defaults())

    async def set_queue_defaults(self, **settings: Unpack[Settings]) -> QueueSettings:
        return await self._run(self._queue_calls.set_defaults(settings))

    async def clients(self) -> list[ClientRow]:
        return await self._run(self._queue_calls.clients())

    async def workers(self, queue: str | None = None) -> list[WorkerInfo]:
        return await self._follow(looks.working(self._queue_calls.store, queue))


documented(AsyncQueueLooks, QueueLooks)
