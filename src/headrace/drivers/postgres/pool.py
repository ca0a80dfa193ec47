"""A few connections, reused last in, first out.

psycopg's own pool opens connections in threads behind the scenes, so that an unreachable
server is a timeout without a cause, and a fork breaks it. All that is needed here is a
list and two limits.

Two, because a transaction of several operations lasts as long as its owner likes, and may wait
for an operation beside it: a push, or a worker's settle and heartbeat. If both came from the same
places, enough transactions would keep all others waiting, and perhaps themselves, for ever. An
operation needs one connection and soon gives it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any

from psycopg import AsyncConnection, Connection

AnyConnection = Connection[Any]
AnyAsyncConnection = AsyncConnection[Any]


class Pool:
    """Connections for blocking callers: ``size`` for operations, as many for transactions."""

    def __init__(self, connect: Callable[[], AnyConnection], size: int) -> None:
        self._connect = connect
        self._places = _places(size)
        self._lasting_places = _places(size)
        self._idle: list[AnyConnection] = []
        self._is_closed = False

    def take(self, *, is_lasting: bool = False) -> AnyConnection:
        """Wait for a place, and get an idle connection or a new one."""
        places = self._lasting_places if is_lasting else self._places
        places.get()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self._connect()
        except BaseException:
            places.put(None)
            raise

    def give(self, connection: AnyConnection, *, is_good: bool, is_lasting: bool = False) -> None:
        """Hand a connection back. A bad one is closed, and the idle ones with it: after a
        server went away they are all dead."""
        if is_good and not connection.closed:
            self._idle.append(connection)
        else:
            connection.close()
            self._close_idle()
        if self._is_closed:
            # Looked at last: whoever closes the pool at this moment sees our connection, or we do.
            self._close_idle()
        (self._lasting_places if is_lasting else self._places).put(None)

    def close(self) -> None:
        """Close what is idle, and from now on what comes back."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.close()


def _places(size: int) -> SimpleQueue[None]:
    """So many places: a semaphore of the standard library does in Python what this does in C, and
    every operation takes one and gives it back."""
    places: SimpleQueue[None] = SimpleQueue()
    for _ in range(size):
        places.put(None)
    return places


class AsyncPool:
    """The same for the tasks of one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[AnyAsyncConnection]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.BoundedSemaphore(size)
        self._lasting_places = asyncio.BoundedSemaphore(size)
        self._idle: list[AnyAsyncConnection] = []
        self._is_closed = False

    async def take(self, *, is_lasting: bool = False) -> AnyAsyncConnection:
        places = self._lasting_places if is_lasting else self._places
        await places.acquire()
        if self._idle:
            return self._idle.pop()
        try:
            return await self._connect()
        except BaseException:
            places.release()
            raise

    async def give(
        self, connection: AnyAsyncConnection, *, is_good: bool, is_lasting: bool = False
    ) -> None:
        try:
            if is_good and not connection.closed:
                self._idle.append(connection)
            else:
                await connection.close()
                await self._close_idle()
            if self._is_closed:
                await self._close_idle()
        finally:
            (self._lasting_places if is_lasting else self._places).release()

    async def close(self) -> None:
        self._is_closed = True
        await self._close_idle()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()
