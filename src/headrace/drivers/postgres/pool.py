"""A few connections, reused last in, first out.

psycopg's own pool opens connections in threads behind the scenes, so that an unreachable
server is a timeout without a cause, and a fork breaks it. All that is needed here is a
list and a limit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection, Connection

AnyConnection = Connection[Any]
AnyAsyncConnection = AsyncConnection[Any]


class Pool:
    """At most ``size`` connections for blocking callers."""

    def __init__(self, connect: Callable[[], AnyConnection], size: int) -> None:
        self._connect = connect
        self._places = threading.BoundedSemaphore(size)
        self._idle: list[AnyConnection] = []

    def take(self) -> AnyConnection:
        """Wait for a place, and get an idle connection or a new one."""
        self._places.acquire()
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self._connect()
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: AnyConnection, *, is_good: bool) -> None:
        """Hand a connection back. A bad one is closed, and the idle ones with it: after a
        server went away they are all dead."""
        if is_good and not connection.closed:
            self._idle.append(connection)
        else:
            connection.close()
            self.close()
        self._places.release()

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().close()


class AsyncPool:
    """The same for the tasks of one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[AnyAsyncConnection]], size: int) -> None:
        self._connect = connect
        self._places = asyncio.BoundedSemaphore(size)
        self._idle: list[AnyAsyncConnection] = []

    async def take(self) -> AnyAsyncConnection:
        await self._places.acquire()
        if self._idle:
            return self._idle.pop()
        try:
            return await self._connect()
        except BaseException:
            self._places.release()
            raise

    async def give(self, connection: AnyAsyncConnection, *, is_good: bool) -> None:
        try:
            if is_good and not connection.closed:
                self._idle.append(connection)
            else:
                await connection.close()
                await self.close()
        finally:
            self._places.release()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()
