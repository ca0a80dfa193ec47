"""References to queues: everything that can be asked of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from headrace.client.channels import AsyncChannelLooks, ChannelLooks
from headrace.client.dead_letters import AsyncDeadLetters, DeadLetters
from headrace.client.updating import UpdateReport
from headrace.core.documents import Fields, SharedFields
from headrace.core.looking import QueueReport, QueueStats
from headrace.core.pushes import PushResult
from headrace.core.queue_settings import Settings
from headrace.core.times import Duration
from headrace.model.queues import QueueInfo, WhileActive

if TYPE_CHECKING:
    from headrace.client.queue_operations import AsyncQueueOperations, QueueOperations


class Queue(ChannelLooks):
    """A queue by name, the same object each time a client is asked for it.

    >>> mail = hr.queue("mail")
    >>> mail.push({"to": "ann"}, delay="5m")
    >>> for item in mail.claim(10, wait=None):
    ...     item.complete()
    """

    def __init__(self, client: QueueOperations, name: str, *, max_body: int) -> None:
        super().__init__(name, max_body=max_body, is_async=False)
        self._client = client

    @property
    def dead(self) -> DeadLetters:
        """The dead letters of this queue."""
        return DeadLetters(self)

    def push(
        self,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        """The client's ``push``, to this queue."""
        return self._client.push(self.name, payload, key=key, wait=wait, **fields)

    def push_many(
        self,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        """The client's ``push_many``, to this queue."""
        return self._client.push_many(self.name, documents, key=key, wait=wait, **fields)

    def upsert(
        self,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        """The client's ``upsert``, to this queue."""
        return self._client.upsert(
            self.name,
            payload,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    def upsert_many(
        self,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        """The client's ``upsert_many``, to this queue."""
        return self._client.upsert_many(
            self.name,
            documents,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    def register_worker(self, handler: Callable[..., Any], **options: Any) -> Any:
        """The client's ``register_worker``, on this queue."""
        # Workers stand above clients: it is the façade that has them.
        client: Any = self._client
        return client.register_worker(self.name, handler, **options)

    def stats(self) -> QueueStats:
        """The client's ``stats`` of this queue."""
        [stats] = self._client.stats(self.name)
        return stats

    def info(self) -> QueueReport:
        """The client's ``info`` of this queue."""
        [report] = self._client.info(self.name)
        return report

    def pause(self, *, by: str | None = None) -> QueueInfo:
        """The client's ``pause`` of this queue."""
        return self._client.pause(self.name, by=by)

    def resume(self) -> QueueInfo:
        """The client's ``resume`` of this queue."""
        return self._client.resume(self.name)

    def update(
        self, *, time_limit: float = 10.0, strict: bool = False, **settings: Unpack[Settings]
    ) -> UpdateReport:
        """The client's ``update`` of this queue."""
        return self._client.update(self.name, time_limit=time_limit, strict=strict, **settings)

    def drop(self, *, keep_data: bool = False) -> int:
        """The client's ``drop`` of this queue."""
        return self._client.drop(self.name, keep_data=keep_data)


class AsyncQueue(AsyncChannelLooks):
    """``Queue`` for async code."""

    def __init__(self, client: AsyncQueueOperations, name: str, *, max_body: int) -> None:
        super().__init__(name, max_body=max_body, is_async=True)
        self._client = client

    @property
    def dead(self) -> AsyncDeadLetters:
        """The dead letters of this queue."""
        return AsyncDeadLetters(self)

    async def push(
        self,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        return await self._client.push(self.name, payload, key=key, wait=wait, **fields)

    async def push_many(
        self,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        return await self._client.push_many(self.name, documents, key=key, wait=wait, **fields)

    async def upsert(
        self,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        return await self._client.upsert(
            self.name,
            payload,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    async def upsert_many(
        self,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        return await self._client.upsert_many(
            self.name,
            documents,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            wait=wait,
            **fields,
        )

    def register_worker(self, handler: Callable[..., Any], **options: Any) -> Any:
        # Workers stand above clients: it is the façade that has them.
        client: Any = self._client
        return client.register_worker(self.name, handler, **options)

    async def stats(self) -> QueueStats:
        [stats] = await self._client.stats(self.name)
        return stats

    async def info(self) -> QueueReport:
        [report] = await self._client.info(self.name)
        return report

    async def pause(self, *, by: str | None = None) -> QueueInfo:
        return await self._client.pause(self.name, by=by)

    async def resume(self) -> QueueInfo:
        return await self._client.resume(self.name)

    async def update(
        self, *, time_limit: float = 10.0, strict: bool = False, **settings: Unpack[Settings]
    ) -> UpdateReport:
        return await self._client.update(
            self.name, time_limit=time_limit, strict=strict, **settings
        )

    async def drop(self, *, keep_data: bool = False) -> int:
        return await self._client.drop(self.name, keep_data=keep_data)
