"""Connections of a PostgreSQL store: taken, used and handed back, blocking or on an event loop."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg.rows import dict_row

from headrace.contract.finishing import finish
from headrace.drivers.postgres import failures
from headrace.drivers.postgres.pool import AnyAsyncConnection, AnyConnection, AsyncPool, Pool
from headrace.drivers.postgres.sending import (
    OwnAsyncConnection,
    OwnConnection,
    asend,
    asend_whole,
    send,
    send_whole,
)
from headrace.drivers.relational.sql import Many, Statement
from headrace.drivers.running import Runner, TryAgain, Work

POOL_SIZE = 10


class Checkout(msgspec.Struct, frozen=True):
    """Take a connection from the pool, for one operation or for a transaction that may last."""

    is_lasting: bool = False


class Send(msgspec.Struct, frozen=True):
    """Send statements in one round trip; the answer is their rows, statement by statement."""

    connection: Any
    statements: tuple[Statement | Many, ...]
    # An outcome under way is waited for even if the caller is cancelled.
    to_the_end: bool = False
    # They are a transaction by themselves.
    is_whole: bool = False
    # Then another one by itself.
    behind: Statement | None = None


class Checkin(msgspec.Struct, frozen=True):
    """Hand a connection back."""

    connection: Any
    is_good: bool
    is_lasting: bool = False


# Pools that a fork left in the child: they must be neither used nor closed there.
_left_by_fork: list[object] = []


class Connecting(Runner):
    """A store's connections, of each process its own."""

    def __init__(self, conninfo: str, *, patience: float) -> None:
        super().__init__(patience=patience)
        self.conninfo = conninfo
        self.address = _describe(conninfo)
        # Until somebody in between turns out to mix up whose prepared statements are whose.
        self._prepares = True
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._pool = Pool(self.connect, POOL_SIZE)
        self._async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = (
            WeakKeyDictionary()
        )

    def _begin_anew(self) -> None:
        """This is the child of a fork."""
        _left_by_fork.append((self._pool, self._async_pools))
        self._forget()

    def connect(self) -> AnyConnection:
        """Open a connection with the settings all of ours have."""
        return OwnConnection.connect(
            self.conninfo,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=5 if self._prepares else None,
        )

    async def _aconnect(self) -> AnyAsyncConnection:
        return await OwnAsyncConnection.connect(
            self.conninfo,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=5 if self._prepares else None,
        )

    def _checkout(self, *, is_lasting: bool = False) -> Work[Any]:
        if self._pid != os.getpid():
            self._begin_anew()
        try:
            return (yield Checkout(is_lasting))
        except psycopg.OperationalError as error:
            raise TryAgain(failures.unavailable(error, self.address)) from error

    def perform(self, action: Any) -> Any:
        match action:
            case Send(connection, statements, _, True, behind):
                return send_whole(connection, statements, behind)
            case Send(connection, statements):
                return send(connection, statements)
            case Checkout(is_lasting):
                return self._pool.take(is_lasting=is_lasting)
            case Checkin(connection, is_good, is_lasting):
                return self._pool.give(connection, is_good=is_good, is_lasting=is_lasting)
            case _:
                return super().perform(action)

    async def aperform(self, action: Any) -> Any:
        match action:
            case Checkout(is_lasting):
                return await self._async_pool().take(is_lasting=is_lasting)
            case Send(connection, statements, True, True, behind):
                return await finish(asend_whole(connection, statements, behind))
            case Send(connection, statements, True):
                return await finish(asend(connection, statements))
            case Send(connection, statements):
                return await asend(connection, statements)
            case Checkin(connection, is_good, is_lasting):
                pool = self._async_pool()
                return await pool.give(connection, is_good=is_good, is_lasting=is_lasting)
            case _:
                return await super().aperform(action)

    def _async_pool(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        if loop not in self._async_pools:
            self._async_pools[loop] = AsyncPool(self._aconnect, POOL_SIZE)
        return self._async_pools[loop]

    def close(self) -> None:
        if self._pid == os.getpid():
            self._pool.close()

    async def aclose(self) -> None:
        self.close()
        await self._async_pool().close()


def _describe(conninfo: str) -> str:
    """Host, port and database for people; never the password."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    host = parts.get("host") or "the local socket"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"
