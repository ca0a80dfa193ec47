"""References to queues: everything that can be asked of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from headrace.client.item_claims import AsyncItemClaims, ItemClaims
from headrace.core.documents import Fields, SharedFields
from headrace.core.pushes import PushResult
from headrace.core.times import Duration
from headrace.model.queues import WhileActive

if TYPE_CHECKING:
    from headrace.client.queue_operations import AsyncQueueOperations, QueueOperations


class Queue(ItemClaims):
    """A queue by name, the same object each time a client is asked for it.

    >>> mail = hr.queue("mail")
    >>> mail.push({"to": "ann"}, delay="5m")
    >>> for item in mail.claim(10, wait=None):
    ...     item.complete()
    """

    def __init__(self, client: QueueOperations, name: str, *, max_body: int) -> None:
        super().__init__(name, max_body=max_body, is_async=False)
        self._client = client

    def push(self, payload: Any, *, key: str | None = None, **fields: Unpack[Fields]) -> PushResult:
        """The client's ``push``, to this queue."""
        return self._client.push(self.name, payload, key=key, **fields)

    def push_many(
        self,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        """The client's ``push_many``, to this queue."""
        return self._client.push_many(self.name, documents, key=key, **fields)

    def upsert(
        self,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
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
            **fields,
        )


class AsyncQueue(AsyncItemClaims):
    """``Queue`` for async code."""

    def __init__(self, client: AsyncQueueOperations, name: str, *, max_body: int) -> None:
        super().__init__(name, max_body=max_body, is_async=True)
        self._client = client

    async def push(
        self, payload: Any, *, key: str | None = None, **fields: Unpack[Fields]
    ) -> PushResult:
        return await self._client.push(self.name, payload, key=key, **fields)

    async def push_many(
        self,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        return await self._client.push_many(self.name, documents, key=key, **fields)

    async def upsert(
        self,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        **fields: Unpack[Fields],
    ) -> PushResult:
        return await self._client.upsert(
            self.name,
            payload,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
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
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        return await self._client.upsert_many(
            self.name,
            documents,
            while_active=while_active,
            debounce=debounce,
            max_wait=max_wait,
            key=key,
            **fields,
        )
