"""A few connections, reused last in, first out.

psycopg's own pool opens connections in background threads, so that an unreachable server is a
timeout without a cause, and a fork breaks it. A list and two limits are enough here.

There are two limits because a transaction of several operations lasts as long as its owner likes,
and may wait for an operation beside it: a push, or a worker's settle and heartbeat. If both shared
the same slots, enough transactions would keep all operations waiting, and perhaps each other, for
ever. An operation needs one connection and soon returns it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError

from headrace.drivers.postgres.network_timeouts import GRACE_SECONDS, seconds_left

AnyConnection = Connection[Any]
AnyAsyncConnection = AsyncConnection[Any]

WAKE_SECONDS = 0.1


class Pool:
    """Connections for blocking callers: ``size`` for operations, as many for transactions."""

    def __init__(
        self, connect: Callable[[float], AnyConnection], size: int, patience: float
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._limit = patience + GRACE_SECONDS
        self.places = ConnectionSlots(size)
        self.lasting_places = ConnectionSlots(size)
        self._idle: list[AnyConnection] = []
        self._is_closed = False

    def acquire(
        self, owner: object, give_up: float | None = None, *, is_lasting: bool = False
    ) -> AnyConnection:
        """Wait for a slot, and get an idle connection or a new one.

        ``give_up`` is when the caller's patience ends; None if it begins now.

        The slot belongs to the owner until it leaves, even if this raises.
        """
        places = self.lasting_places if is_lasting else self.places
        if not places.acquire(owner):
            give_up = self._wait_for(places, owner, give_up)
        try:
            connection = self._idle.pop()
        except IndexError:
            if give_up is None:
                give_up = time.monotonic() + self._patience
            connection = self._connect(time.monotonic() + seconds_left(give_up))
        places.owners[owner] = connection
        # Usually it is the first attempt, and no time has passed.
        connection.limit = self._limit if give_up is None else seconds_left(give_up)  # type: ignore[attr-defined]  # one of ours
        return connection

    def _wait_for(self, places: ConnectionSlots, owner: object, give_up: float | None) -> float:
        """Wait for a slot; returns when patience ends."""
        if give_up is None:
            give_up = time.monotonic() + self._patience
        if not places.wait(owner, seconds_left(give_up)):
            raise no_place(self._patience)
        return give_up

    def give(
        self, owner: object, connection: AnyConnection, *, is_good: bool, is_lasting: bool = False
    ) -> None:
        """Return a connection. A bad one is closed, and the idle ones with it: after the server
        went away, all are dead."""
        if is_good and not connection.closed:
            (self.lasting_places if is_lasting else self.places).owners[owner] = None
            self._idle.append(connection)
        else:
            connection.close()
            self._close_idle()
        if self._is_closed:
            # Checked last: a thread that closes the pool now sees this connection, or we close it.
            self._close_idle()

    def close(self) -> None:
        """Close idle connections now, and others when they are returned."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.close()


class ConnectionSlots:
    """A number of slots, each with its owner, given to waiters in the order in which they came.

    A slot is an entry of a dict and not a number, so that leaving is one call in C,
    ``owners.pop(owner, None)``, right behind a ``finally``. An exception from a signal handler can
    come at any point: no slot is lost by it, nor given back twice. For the same reason an owner
    that leaves only notifies the first waiter, which acquires the slot itself.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self.owners: dict[object, AnyConnection | None] = {}
        # In order, each with the event that notifies it.
        self.waiting: dict[object, SimpleQueue[None]] = {}

    def acquire(self, owner: object) -> bool:
        """Take a slot that is free and has no earlier waiter, or that the owner has already."""
        with self._lock:
            if (self.waiting or len(self.owners) >= self._size) and owner not in self.owners:
                return False
            self.owners[owner] = None
            return True

    def wait(self, owner: object, seconds: float) -> bool:
        """Wait for a slot; returns whether there was one in time."""
        give_up = time.monotonic() + seconds
        notified: SimpleQueue[None] = SimpleQueue()
        try:
            self.waiting[owner] = notified
            while not self._acquire_in_turn(owner):
                left = give_up - time.monotonic()
                if left <= 0:
                    return False
                try:
                    # If an owner was interrupted when it left, no waiter was notified.
                    notified.get(timeout=min(left, WAKE_SECONDS))
                except Empty:
                    continue
        finally:
            self.waiting.pop(owner, None)
            # Another slot may be free, or this one was not used in the end.
            self._notify_first()
        return True

    def _acquire_in_turn(self, owner: object) -> bool:
        with self._lock:
            # A copy: other waiters come and go meanwhile.
            first, *_ = list(self.waiting)
            if len(self.owners) >= self._size or first is not owner:
                return False
            self.owners[owner] = None
            # In the same step, so that no waiter queues behind an owner that has its slot.
            del self.waiting[owner]
            return True

    def _notify_first(self) -> None:
        with self._lock:
            waiting = list(self.waiting.values())
            if waiting and len(self.owners) < self._size:
                waiting[0].put(None)

    def left_by(self, lost: AnyConnection | None) -> None:
        """Note that an owner has left, perhaps without returning its connection."""
        if self.waiting:
            self._notify_first()
        if lost is not None:
            lost.close()


def no_place(patience: float) -> OperationalError:
    """The error for a caller that has waited for a connection in vain."""
    return OperationalError(
        f"all connections of this client were in use for {patience:g} s by others that got no "
        "answer or did not end"
    )


class AsyncPool:
    """The pool for the tasks of one event loop."""

    def __init__(
        self,
        connect: Callable[[float], Awaitable[AnyAsyncConnection]],
        size: int,
        patience: float,
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._limit = patience + GRACE_SECONDS
        self._places = asyncio.BoundedSemaphore(size)
        self._lasting_places = asyncio.BoundedSemaphore(size)
        self._idle: list[AnyAsyncConnection] = []
        self._is_closed = False

    async def acquire(
        self, give_up: float | None = None, *, is_lasting: bool = False
    ) -> AnyAsyncConnection:
        places = self._lasting_places if is_lasting else self._places
        if places.locked():
            give_up = await self._wait_for(places, give_up)
        else:
            await places.acquire()
        if self._idle:
            connection = self._idle.pop()
        else:
            if give_up is None:
                give_up = time.monotonic() + self._patience
            try:
                connection = await self._connect(time.monotonic() + seconds_left(give_up))
            except BaseException:
                places.release()
                raise
        connection.limit = self._limit if give_up is None else seconds_left(give_up)  # type: ignore[attr-defined]  # one of ours
        return connection

    async def _wait_for(self, places: asyncio.BoundedSemaphore, give_up: float | None) -> float:
        if give_up is None:
            give_up = time.monotonic() + self._patience
        try:
            async with asyncio.timeout(seconds_left(give_up)):
                await places.acquire()
        except TimeoutError:
            raise no_place(self._patience) from None
        return give_up

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

    def abandon(self) -> None:
        """Close idle connections of a closed loop, in which nothing can be awaited."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().pgconn.finish()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()
