"""Checkout, use and check-in of a store's connections, blocking or on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import psycopg
from psycopg.rows import dict_row

from headrace.drivers.event_loops import forget_closed
from headrace.drivers.postgres import sqlstate
from headrace.drivers.postgres.network_timeouts import connecting_by
from headrace.drivers.postgres.pool import AsyncPool, Pool
from headrace.drivers.postgres.round_trip import (
    OwnAsyncConnection,
    OwnConnection,
)
from headrace.drivers.runner import TryAgain, Work
from headrace.drivers.sql_common.statements import Many, Statement
from headrace.model.forks import renew_in_child

T = TypeVar("T")

POOL_SIZE = 10


class Checkout(msgspec.Struct, frozen=True):
    """Check a connection out of the pool, for one operation or for a transaction that may last.

    ``give_up`` is when the caller's patience ends; None if it begins now.
    """

    is_lasting: bool = False
    give_up: float | None = None


class Send(msgspec.Struct, frozen=True):
    """Send statements in one round trip; the answer is their rows, statement by statement."""

    connection: Any
    statements: tuple[Statement | Many, ...]
    # The statements are a transaction of their own.
    is_autocommit: bool = False
    # One more, sent behind them as another transaction.
    behind: Statement | None = None
    # They change nothing: a cancelled caller does not wait for their answer.
    is_read: bool = False


class Checkin(msgspec.Struct, frozen=True):
    """Check a connection in."""

    connection: Any
    is_good: bool
    is_lasting: bool = False


class Borrowed:
    """What a blocking call or transaction has checked out of the pool: the owner of its slot.

    The first call behind ``finally`` removes it from the slots, even after an interrupt.
    """

    def __init__(self, pool: Pool, perform: Callable[[Any], Any]) -> None:
        self.pool = pool
        self._perform = perform

    def perform(self, action: Any) -> Any:
        """Perform an action, blocking."""
        match action:
            case Checkout(is_lasting, give_up):
                return self.pool.acquire(self, give_up, is_lasting=is_lasting)
            case Checkin(connection, is_good, is_lasting):
                self.pool.give(self, connection, is_good=is_good, is_lasting=is_lasting)
                places = self.pool.lasting_places if is_lasting else self.pool.places
                places.left_by(places.owners.pop(self, None))
                return None
            case _:
                return self._perform(action)


# Pools that a child inherited in a fork: the child must neither use nor close them.
_left_by_fork: list[object] = []


class PostgresConnections:
    """The connections of a store: each process has its own."""

    def __init__(self, conninfo: str, *, patience: float) -> None:
        self.conninfo = conninfo
        self._patience = patience
        self.address = _describe(conninfo)
        # Off where a pooler shares sessions with other clients.
        self._prepares = True
        self._forget()
        renew_in_child(self, PostgresConnections._start_again)

    def do_without_preparing(self) -> None:
        """From now on open connections that prepare no statements: a pooler is in between."""
        self._prepares = False

    def _forget(self) -> None:
        self.pool = Pool(self.connect, POOL_SIZE, self._patience)
        self._async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = (
            WeakKeyDictionary()
        )

    def _start_again(self) -> None:
        """Start over in the child of a fork."""
        _left_by_fork.append((self.pool, self._async_pools))
        self._forget()

    def connect(self, deadline: float) -> OwnConnection:
        """Open a connection with the settings of all our connections, before ``deadline``."""
        with sqlstate.keeping_secrets(), connecting_by(deadline):
            return OwnConnection.connect(
                self.conninfo,
                # Overrides the URL, the role and the environment: bodies are UTF-8.
                client_encoding="utf8",
                autocommit=True,
                row_factory=dict_row,
                prepare_threshold=5 if self._prepares else None,
            )

    async def _aconnect(self, deadline: float) -> OwnAsyncConnection:
        with sqlstate.keeping_secrets(), connecting_by(deadline):
            return await OwnAsyncConnection.connect(
                self.conninfo,
                # Overrides the URL, the role and the environment: bodies are UTF-8.
                client_encoding="utf8",
                autocommit=True,
                row_factory=dict_row,
                prepare_threshold=5 if self._prepares else None,
            )

    def checkout(self, give_up: float | None, *, is_lasting: bool = False) -> Work[Any]:
        try:
            return (yield Checkout(is_lasting, give_up))
        except psycopg.OperationalError as error:
            raise self.not_connected(error) from error

    def not_connected(self, error: psycopg.Error) -> Exception:
        """Our error for a connection that could not be made."""
        found = sqlstate.not_connected(error, self.address)
        return TryAgain(found) if found.retryable else found

    def async_pool(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        if loop not in self._async_pools:
            for pool in forget_closed(self._async_pools):
                pool.abandon()
            self._async_pools[loop] = AsyncPool(self._aconnect, POOL_SIZE, self._patience)
        return self._async_pools[loop]

    def close(self) -> None:
        self.pool.close()

    async def aclose(self) -> None:
        self.close()
        await self.async_pool().close()


def _describe(conninfo: str) -> str:
    """Host, port and database for messages; never the password."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    host = parts.get("host") or "the local socket"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"
