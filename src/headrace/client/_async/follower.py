"""Followers: the records of a topic, pushed to a queue as they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from headrace.client._async.procs import AsyncProc
from headrace.client._runtime.aio import AsyncBackground, AsyncSignal, current
from headrace.client.follower_retries import Retries
from headrace.client.workflows import topic_to_queue
from headrace.contract.store import Waiter
from headrace.core.topic_to_queue import Follow
from headrace.errors import HeadraceError
from headrace.model.topics.procs import Lag

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient

MAX_WAIT_SECONDS = 30.0


class AsyncFollower:
    """Moves the records of a topic into a queue as they are committed, each of them once.

    >>> async with hr.topic("orders").to_queue("mail", subject="order"):
    ...     ...

    Any number of processes may run followers of the same name: they alternate. ``run_once`` moves
    the present records, ``run`` continues until it is stopped, ``start`` does so in the
    background. The first of them creates the proc. A record that cannot be pushed goes to the
    topic ``<name>-dead``, with the error.
    """

    def __init__(self, client: AsyncClient, follow: Follow, offset: str) -> None:
        self._client = client
        self._follow = follow
        self._offset = offset
        self._is_begun = False
        self._is_stopped = AsyncSignal()
        self._waiters: set[Waiter] = set()
        self._background: AsyncBackground | None = None

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._follow.name

    @property
    def proc(self) -> AsyncProc:
        """Its proc. ``UnknownProc`` before the first run."""
        return AsyncProc(self._client, self.name)

    async def lag(self) -> Lag:
        """How much of the topic is not in the queue yet. ``UnknownProc`` before the first run."""
        return await self.proc.lag()

    async def run_once(self) -> int:
        """Move all present records; returns how many."""
        await self._begin()
        return await self._client._follow(
            topic_to_queue.move_all(self._client._store, self._follow)
        )

    async def run(self) -> None:
        """Move records as they are committed, until ``stop``.

        It logs failures of the store, a full queue and a disabled proc, and retries.
        """
        await self._run(self._is_stopped)

    async def start(self) -> Self:
        """``run`` in the background, also after ``stop``. Raises what creating its proc raises."""
        await self._begin()
        if self._is_stopped.is_set():
            # A new one: a run that has not noticed its end yet still ends.
            self._is_stopped = AsyncSignal()
        if self._background is None or not self._background.is_alive:
            self._background = AsyncBackground(self.name, self._run, self._is_stopped)
        return self

    async def stop(self) -> None:
        """End ``run``; the next follower of this name moves what is left."""
        self._is_stopped.set()
        for waiter in list(self._waiters):
            waiter.wake()
        background = self._background
        if background is not None and not background.is_same(current()):
            # ASYNC
            background.cancel()
            # END
            await background.join()

    async def _begin(self) -> None:
        """Find its proc, or create it."""
        if not self._is_begun:
            await self._client._follow(
                topic_to_queue.begin(self._client._store, self._follow, self._offset)
            )
            self._is_begun = True

    async def _run(self, is_stopped: AsyncSignal) -> None:
        # Made before the records are read, so that no commit behind them is missed.
        waiter = self._client._store.waiter(self._follow.topic)
        retries = Retries(self.name)
        try:
            self._waiters.add(waiter)
            # Checked behind it, because ``stop`` wakes only the waiters that it sees.
            while not is_stopped.is_set():
                try:
                    await self.run_once()
                except HeadraceError as error:
                    await is_stopped.wait_for(retries.pause_after(error))
                else:
                    retries.reset()
                    await waiter.await_hint(MAX_WAIT_SECONDS)
        finally:
            self._waiters.discard(waiter)
            waiter.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
