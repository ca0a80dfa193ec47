"""Events of a queue that other clients cause: found in the store, when notified or by polling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.client._runtime.aio import AsyncBackground, AsyncSignal, current
from headrace.client.events import Emitter
from headrace.client.waiters import MAX_POLL_SECONDS
from headrace.core.queue_changes import QueueState, changes_between
from headrace.errors import HeadraceError, NotConnected, UnknownQueue

if TYPE_CHECKING:
    from headrace.client._async.queue import AsyncQueue

_log = logging.getLogger("headrace")


class AsyncQueueWatch:
    """Compares a queue with what it was, again and again, beside its caller.

    It runs while there are callbacks.
    """

    def __init__(self, queue: AsyncQueue, emitter: Emitter) -> None:
        self._queue = queue
        self._emitter = emitter
        self._background: AsyncBackground | None = None
        self._is_stopped = AsyncSignal()
        self._state = QueueState(None)

    async def start(self) -> None:
        """What happens from now on is noticed."""
        if self._background is None:
            self._state = await self._read()
            self._is_stopped = AsyncSignal()
            self._background = AsyncBackground(
                f"headrace-{self._queue.name}-watch", self._run, self._is_stopped
            )
            self._queue._client._watches.add(self)

    def end(self) -> None:
        """Stop soon: the next poll is not made."""
        self._is_stopped.set()
        self._background = None
        self._queue._client._watches.discard(self)

    async def close(self) -> None:
        """Stop, and wait for the end; unless that is what a callback asks for."""
        background = self._background
        self.end()
        self._queue._client._waits.wake(self._queue.name)
        if background is not None and not background.is_same(current()):
            # ASYNC
            background.cancel()
            # END
            await background.join()

    async def _read(self) -> QueueState:
        client, name = self._queue._client, self._queue.name
        try:
            info = await client._run(client._requests.queues.info(name))
            [stats] = await client._run(client._requests.queues.stats([name], is_computed=False))
        except UnknownQueue:
            return QueueState(None)
        return QueueState(info, stats.entered)

    async def _run(self, is_stopped: AsyncSignal) -> None:
        with self._queue._client._waits.listening(f"queue/{self._queue.name}") as waiter:
            while not is_stopped.is_set():
                try:
                    before, self._state = self._state, await self._read()
                except NotConnected:
                    return
                except HeadraceError as error:  # the next poll finds what happened meanwhile
                    _log.warning(
                        "queue %r cannot be watched: %s",
                        self._queue.name,
                        error,
                        extra={"action": "queue_watch"},
                    )
                else:
                    for change in changes_between(before, self._state):
                        await self._emitter.aemit(change.event, change)
                await waiter.await_hint(MAX_POLL_SECONDS)
