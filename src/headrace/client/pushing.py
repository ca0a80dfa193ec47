"""Pushing to queues and settling items: what a client and a transaction have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from headrace.client.operations import AsyncOperations, Operations
from headrace.client.running import documented
from headrace.contract.items import Outcome, PushCall, Settled
from headrace.core.documents import Fields, SharedFields
from headrace.core.pushes import PushResult
from headrace.core.times import Duration
from headrace.errors import InvalidOption
from headrace.model.queues import WhileActive


class Pushing(Operations):
    """Pushes for blocking code."""

    def push(
        self,
        queue: str,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        """Put an item into a queue, unless a live one has its subject: then it is skipped.

        A queue that does not exist is made with the stored defaults. The payload is any JSON
        value, or bytes. Of the item can be said, by name::

            subject         its identity in the queue; none: it is like no other
            priority        higher goes first, where the queue's discipline is ``priority``
            at, delay       when it is due: a moment, or a wait; neither: now
            headers         text beside the payload
            max_attempts    how often it is handed out before it is dead; -1: no limit
            retry_position  ``back`` or ``front``: where it stands when it comes back
            updateable      False: no upsert changes it; True: what is pushed behind it in its
                            channel takes its place
            channel         key-values: the line inside the queue that it stands in
            timeout         how long a claim on it lasts

        With a ``key`` the push counts once: the same key and content within 24 hours returns
        the first result again and writes nothing, other content raises ``KeyReused``.

        A queue or channel that holds all it may raises ``QueueFull``. With ``wait`` the push waits
        so many seconds for room, None for ever: ``PushTimeout`` when the time is over, or
        ``stop_waiting`` was called.
        """
        return self._push(self._queue_calls.one(queue, payload, fields, key), wait)

    def push_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        """Put many items into a queue, all or none, in this order.

        A document is a payload, with the ``fields`` given here, or a ``headrace.Doc`` with its
        own. ``wait`` is how long to wait for room for all of them, as in ``push``.
        """
        return self._push(self._queue_calls.many(queue, documents, fields, key), wait)

    def upsert(
        self,
        queue: str,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        """Put an item into a queue, or replace what the live item of its subject carries.

        Payload, headers, priority, due time and the item's own settings are replaced; its id
        and attempts stay. An item in flight is left alone, or with ``while_active="next"`` this
        becomes what comes after it. With ``debounce`` it waits until nobody has upserted it for
        so long, but no longer than ``max_wait`` in all. What updates an item needs no room;
        ``wait`` is how long a new one waits for it, as in ``push``.
        """
        calls = self._queue_calls
        return self._push(
            calls.one(
                queue,
                payload,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    def upsert_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        """``upsert`` many documents, all or none; see ``push_many``."""
        calls = self._queue_calls
        return self._push(
            calls.many(
                queue,
                documents,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    def settle(self, queue: str, outcomes: Iterable[Outcome]) -> list[Settled]:
        """Say what became of claimed items, all in one transaction; one answer each, in order.

        Make outcomes with ``item.outcome(...)``. An item whose claim does not stand any more is
        answered ``lost`` and nothing of its outcome is written; the others are not affected.
        """
        return self._run(self._queue_calls.settle(queue, list(outcomes)))

    def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        refuse_to_wait(wait)
        return self._run(self._queue_calls.push(call))


class AsyncPushing(AsyncOperations):
    """Pushes for async code."""

    async def push(
        self,
        queue: str,
        payload: Any,
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        return await self._push(self._queue_calls.one(queue, payload, fields, key), wait)

    async def push_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        return await self._push(self._queue_calls.many(queue, documents, fields, key), wait)

    async def upsert(
        self,
        queue: str,
        payload: Any,
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[Fields],
    ) -> PushResult:
        calls = self._queue_calls
        return await self._push(
            calls.one(
                queue,
                payload,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    async def upsert_many(
        self,
        queue: str,
        documents: Iterable[Any],
        *,
        while_active: WhileActive | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        key: str | None = None,
        wait: float | None = 0.0,
        **fields: Unpack[SharedFields],
    ) -> PushResult:
        calls = self._queue_calls
        return await self._push(
            calls.many(
                queue,
                documents,
                fields,
                key,
                mode="upsert",
                while_active=while_active,
                pause=debounce,
                max_wait=max_wait,
            ),
            wait,
        )

    async def settle(self, queue: str, outcomes: Iterable[Outcome]) -> list[Settled]:
        return await self._run(self._queue_calls.settle(queue, list(outcomes)))

    async def _push(self, call: PushCall, wait: float | None = 0.0) -> PushResult:
        refuse_to_wait(wait)
        return await self._run(self._queue_calls.push(call))


def refuse_to_wait(wait: float | None) -> None:
    """In a transaction nothing that others do is seen, and they wait for its end."""
    if wait != 0:
        raise InvalidOption(
            "a transaction cannot wait for room: push to the queue outside of it.", option="wait"
        )


documented(AsyncPushing, Pushing)
