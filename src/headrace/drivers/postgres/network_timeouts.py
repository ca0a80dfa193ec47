"""How long a server may be silent before the client gives up its connection.

While a server is frozen, the kernel of its machine still acknowledges packets, so neither
keepalives nor ``tcp_user_timeout`` notice. Every wait for a connection has its own limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg
from psycopg import capabilities

T = TypeVar("T")

connect_by: ContextVar[float] = ContextVar("headrace_connect_by", default=math.inf)
"""The deadline for the connection that is being made."""

GRACE_SECONDS = 1.0
"""How far an answer may exceed the patience of a client: the last attempt of a call has at least
this long."""
LEAST_SECONDS = 0.05
CANCEL_SECONDS = 0.3
"""How long a cancel may take: a server that answers needs a few milliseconds. Without libpq 17 the
client sends none, because it could not interrupt it."""
NO_LIMIT = 86_400.0


class ServerSilent(psycopg.OperationalError):
    """The server was silent for too long: the connection is no longer usable."""


def seconds_left(give_up: float) -> float:
    """How long an attempt may wait whose caller's patience ends at ``give_up``.

    A short time if patience ended before, while waiting for others: enough for a server that
    answers immediately.
    """
    return max(give_up + GRACE_SECONDS - time.monotonic(), LEAST_SECONDS)


@contextmanager
def connecting_by(deadline: float) -> Iterator[None]:
    """Set the deadline for connections that are made in the block."""
    token = connect_by.set(deadline)
    try:
        yield
    finally:
        connect_by.reset(token)


def silent(connection: Any, seconds: float) -> ServerSilent:
    """Close the connection of a server that was silent for too long, and return the error.

    The statement is cancelled first. A server process that waits for a lock does not notice that
    its client has closed the connection, and a pooler forgets such a client.
    """
    try:
        if capabilities.has_cancel_safe():
            with suppress(psycopg.Error, OSError):
                connection.cancel_safe(timeout=CANCEL_SECONDS)
    finally:
        connection.pgconn.finish()
    return _gave_up(seconds)


async def asilent(connection: Any, seconds: float) -> ServerSilent:
    """The same on an event loop."""
    try:
        if capabilities.has_cancel_safe():
            with suppress(psycopg.Error, OSError):
                await connection.cancel_safe(timeout=CANCEL_SECONDS)
    finally:
        connection.pgconn.finish()
    return _gave_up(seconds)


def _gave_up(seconds: float) -> ServerSilent:
    return ServerSilent(f"the server did not answer for {seconds:.3g} s")


def limited(waits: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """One of psycopg's waits, which fails when the server is silent for ``seconds``.

    psycopg's loops send what is ready, and 0 every tenth of a second when nothing is.
    """
    since: float | None = None
    try:
        wanted = next(waits)
        while True:
            ready = yield wanted
            if ready:
                since = None
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since > seconds:
                waits.close()
                raise _gave_up(seconds)
            wanted = waits.send(ready)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic


def ended_by(waits: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """A wait for a new connection, to any host of a URL, that fails at ``deadline``."""
    try:
        wanted = next(waits)
        while True:
            if time.monotonic() > deadline:
                waits.close()
                raise ServerSilent("the server did not answer in time")
            wanted = waits.send((yield wanted))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
