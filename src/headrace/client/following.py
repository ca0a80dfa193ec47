"""Topics that are followed into queues, and ranges of them that are replayed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from headrace.client import moving
from headrace.client.moving import Pace
from headrace.client.procs import AsyncProc, Proc
from headrace.core.following import Follow
from headrace.errors import HeadraceError, StoreError
from headrace.model.procs import Lag

if TYPE_CHECKING:
    from headrace.client.clients import AsyncClient, Client

LONGEST_WAIT = 30.0
Progress = Callable[[int, int], object]
"""Told how many of how many records of a replay are in the queue."""


class Follower:
    """Moves the records of a topic into a queue as they are committed, each of them once.

    >>> with hr.topic("orders").to_queue("mail", subject="order"):
    ...     ...

    Any number of processes may run one of the same name: they take turns. ``run_once`` moves
    what is there, ``run`` goes on until it is stopped, ``start`` does so in a thread. A record
    that cannot be pushed goes to the topic ``<name>-dead``, with the error.
    """

    def __init__(self, client: Client, follow: Follow, offset: str) -> None:
        self._client = client
        self._follow = follow
        self._offset = offset
        self._is_stopped = threading.Event()
        self._thread: threading.Thread | None = None
        client._follow(moving.begin(client._store, follow, offset))

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._follow.name

    @property
    def proc(self) -> Proc:
        """Its proc: to look at, to disable and to resume."""
        return Proc(self._client, self.name, self._follow.topic)

    def lag(self) -> Lag:
        """How much of the topic is not in the queue yet."""
        return self.proc.lag()

    def run_once(self) -> int:
        """Move all records that are there; how many."""
        return self._client._follow(moving.move_all(self._client._store, self._follow))

    def run(self) -> None:
        """Move records as they come, until ``stop``. Trouble with the store is waited out."""
        waiter = self._client._store.waiter(self._follow.topic)
        pause = 0.1
        try:
            while not self._is_stopped.is_set():
                try:
                    self.run_once()
                    pause = 0.1
                except StoreError:
                    self._is_stopped.wait(pause)
                    pause = min(pause * 2, LONGEST_WAIT)
                    continue
                waiter.wait(LONGEST_WAIT)
        finally:
            waiter.close()

    def start(self) -> Self:
        """``run`` in a thread."""
        self._thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End ``run``; what was not moved yet is moved by the next who runs it."""
        self._is_stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()


class AsyncFollower:
    """``Follower`` for async code: ``run`` is a coroutine, ``start`` makes a task of it."""

    def __init__(self, client: AsyncClient, follow: Follow, offset: str) -> None:
        self._client = client
        self._follow = follow
        self._offset = offset
        self._is_begun = False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._follow.name

    @property
    def proc(self) -> AsyncProc:
        return AsyncProc(self._client, self.name, self._follow.topic)

    async def lag(self) -> Lag:
        return await self.proc.lag()

    async def run_once(self) -> int:
        store = self._client._store
        if not self._is_begun:
            await self._client._follow(moving.begin(store, self._follow, self._offset))
            self._is_begun = True
        return await self._client._follow(moving.move_all(store, self._follow))

    async def run(self) -> None:
        waiter = self._client._store.waiter(self._follow.topic)
        pause = 0.1
        try:
            while True:
                try:
                    await self.run_once()
                    pause = 0.1
                except StoreError:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_WAIT)
                    continue
                await waiter.await_hint(LONGEST_WAIT)
        finally:
            waiter.close()

    async def start(self) -> Self:
        if not self._is_begun:
            await self.run_once()
        self._task = asyncio.create_task(self.run(), name=self.name)
        return self

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, HeadraceError):
                await self._task

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


class Replay:
    """Pushes a range of a topic's records to a queue, each of them once per replay.

    A replay is known by its name: ``run`` goes on where it was stopped or killed, also in
    another process, and does nothing when it is done. It is forgotten a week after its last
    step.
    """

    def __init__(
        self, client: Client, follow: Follow, first: int, last: int, rate: float | None
    ) -> None:
        self._client = client
        self._follow = follow
        self.first = first
        self.last = last
        self._rate = rate

    @property
    def name(self) -> str:
        """The name of its proc."""
        return self._follow.name

    @property
    def total(self) -> int:
        """How many records it covers."""
        return max(self.last - self.first + 1, 0)

    def done(self) -> int:
        """How many of them are in the queue (or dead letters of its proc)."""
        if not self.total:
            return 0
        position = Proc(self._client, self.name, self._follow.topic).inspect().position
        return min(max((position or self.first) - self.first, 0), self.total)

    def run(self, progress: Progress | None = None) -> int:
        """Push what is left; how many records were moved. ``ProcDisabled`` while it is paused."""
        if not self.total:
            return 0
        before = self.done()
        pace = Pace(self._rate)
        while True:
            plan = moving.replay_some(self._client._store, self._follow, self.last, pace)
            seq = self._client._follow(plan)
            if seq is None:
                return self.total - before
            if progress is not None:
                progress(seq - self.first + 1, self.total)

    def pause(self) -> None:
        """Let nobody go on with it until ``resume``."""
        Proc(self._client, self.name, self._follow.topic).disable()

    def resume(self) -> None:
        """Let it go on."""
        Proc(self._client, self.name, self._follow.topic).resume()


class AsyncReplay:
    """``Replay`` for async code."""

    def __init__(
        self, client: AsyncClient, follow: Follow, first: int, last: int, rate: float | None
    ) -> None:
        self._client = client
        self._follow = follow
        self.first = first
        self.last = last
        self._rate = rate

    @property
    def name(self) -> str:
        return self._follow.name

    @property
    def total(self) -> int:
        return max(self.last - self.first + 1, 0)

    async def done(self) -> int:
        if not self.total:
            return 0
        info = await AsyncProc(self._client, self.name, self._follow.topic).inspect()
        return min(max((info.position or self.first) - self.first, 0), self.total)

    async def run(self, progress: Progress | None = None) -> int:
        if not self.total:
            return 0
        before = await self.done()
        pace = Pace(self._rate)
        while True:
            plan = moving.replay_some(self._client._store, self._follow, self.last, pace)
            seq = await self._client._follow(plan)
            if seq is None:
                return self.total - before
            if progress is not None:
                progress(seq - self.first + 1, self.total)

    async def pause(self) -> None:
        await AsyncProc(self._client, self.name, self._follow.topic).disable()

    async def resume(self) -> None:
        await AsyncProc(self._client, self.name, self._follow.topic).resume()
