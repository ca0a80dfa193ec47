"""Single statements through libpq without a cursor: a cursor doubles the client's CPU time.

For statements that are a transaction of their own, with plain parameters that carry no type. The
server infers the types from the signature of a function, a column or a cast, as it does for all
statements when the tests prepare them. All other statements go through ``round_trip``.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import select
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from headrace.drivers.postgres.network_timeouts import NO_LIMIT, asilent, silent
from headrace.drivers.sql_common.statements import Statement

# A statement is sent unprepared this many times, and prepared from then on.
PREPARE_AFTER = 2

_PLAIN = frozenset((str, int, bool, type(None)))
_PARAMETER = re.compile(r"%\(([a-z_]+)\)s|%%")


class Numbered(NamedTuple):
    """A statement for libpq: numbered parameters, and a name that no other statement has."""

    text: bytes
    parameters: tuple[str, ...]
    name: bytes


@lru_cache(maxsize=4096)
def numbered(text: str) -> Numbered:
    """Number the named parameters of a statement."""
    found: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "%"
        if name not in found:
            found.append(name)
        return f"${found.index(name) + 1}"

    query = _PARAMETER.sub(number, text).encode()
    # Behind a pooler a session may have another client's names: they must mean the same.
    return Numbered(
        query, tuple(found), b"headrace_" + hashlib.sha256(query).hexdigest()[:40].encode()
    )


class Unconfirmed(psycopg.OperationalError):
    """The statements were committed, but the flush sent behind them failed."""


def poller_on(connection: psycopg.BaseConnection[Any]) -> select.poll:
    """A poller that waits for input, or for the end of the connection."""
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return poller


class LibpqConnection:
    """Sends statements on one connection, which has no other user meanwhile."""

    def __init__(self, connection: psycopg.BaseConnection[Any]) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._prepares = connection.prepare_threshold is not None
        self._transformer = Transformer(connection)
        self._poller = poller_on(connection)
        self._writing = select.poll()
        self._writing.register(self._pgconn.socket, select.POLLIN | select.POLLOUT)
        self._uses: dict[str, int] = {}
        self._columns: dict[str, list[str]] = {}

    def execute(self, statement: Statement) -> list[dict[str, Any]]:
        """Send a statement, wait for its answer, and return its rows."""
        if self._must_prepare(statement.text):
            self._send_prepare(statement.text)
            self._check_prepared(statement.text, self._wait())
        self._send(statement)
        return self._rows(statement.text, self._wait())

    async def aexecute(self, statement: Statement) -> list[dict[str, Any]]:
        """The same on an event loop."""
        if self._must_prepare(statement.text):
            self._send_prepare(statement.text)
            self._check_prepared(statement.text, await self._await())
        self._send(statement)
        return self._rows(statement.text, await self._await())

    def execute_both(self, statement: Statement, behind: Statement) -> list[list[dict[str, Any]]]:
        """Send a statement, and right behind it another that is a transaction of its own.

        The client reads the rows of the first while the server runs the second.
        """
        for text in (statement.text, behind.text):
            if self._must_prepare(text):
                self._send_prepare(text)
                self._check_prepared(text, self._wait())
        self._send_both(statement, behind)
        first = self._wait()
        _check_sync(self._wait_for_result())
        rows = self._read(statement.text, first)
        second = self._wait()
        _check_sync(self._wait_for_result())
        return self._both(rows, behind.text, second)

    async def aexecute_both(
        self, statement: Statement, behind: Statement
    ) -> list[list[dict[str, Any]]]:
        """The same on an event loop."""
        for text in (statement.text, behind.text):
            if self._must_prepare(text):
                self._send_prepare(text)
                self._check_prepared(text, await self._await())
        self._send_both(statement, behind)
        first = await self._await()
        _check_sync(await self._await_result())
        rows = self._read(statement.text, first)
        second = await self._await()
        _check_sync(await self._await_result())
        return self._both(rows, behind.text, second)

    def _send_both(self, statement: Statement, behind: Statement) -> None:
        self._pgconn.enter_pipeline_mode()
        for each in (statement, behind):
            self._send(each)
            self._pgconn.pipeline_sync()

    def _read(self, text: str, result: PGresult) -> list[dict[str, Any]] | psycopg.Error:
        """The rows, or the error to raise after everything has been read."""
        try:
            return self._rows(text, result)
        except psycopg.Error as error:
            return error

    def _both(
        self, rows: list[dict[str, Any]] | psycopg.Error, text: str, second: PGresult
    ) -> list[list[dict[str, Any]]]:
        self._pgconn.exit_pipeline_mode()
        if isinstance(rows, psycopg.Error):
            raise rows
        try:
            return [rows, self._rows(text, second)]
        except psycopg.Error as error:
            raise Unconfirmed(str(error)) from error

    @property
    def _limit(self) -> float:
        """For how many seconds the server may be silent."""
        limit: float = getattr(self._connection, "limit", NO_LIMIT)
        return limit

    def _must_prepare(self, text: str) -> bool:
        uses = self._uses[text] = self._uses.get(text, 0) + 1
        return self._prepares and uses == PREPARE_AFTER + 1

    def _send_prepare(self, text: str) -> None:
        query = numbered(text)
        self._pgconn.send_prepare(query.name, query.text)

    def _check_prepared(self, text: str, result: PGresult) -> None:
        try:
            self._check(result)
        except psycopg.Error:
            # Cancelled, for example: the server has not prepared it.
            self._uses[text] = 0
            raise

    def _send(self, statement: Statement) -> None:
        query = numbered(statement.text)
        values = _values(query.parameters, statement.parameters)
        if self._prepares and self._uses[statement.text] > PREPARE_AFTER:
            self._pgconn.send_query_prepared(query.name, values)
        else:
            self._pgconn.send_query_params(query.text, values)

    def _wait(self) -> PGresult:
        pgconn = self._pgconn
        while pgconn.flush():
            events = self._writing.poll(self._limit * 1000)
            if not events:
                raise silent(self._connection, self._limit)
            for _, event in events:
                if event & select.POLLIN:
                    pgconn.consume_input()
        result: PGresult | None = None
        while (more := self._wait_for_result()) is not None:
            result = more
        return _known(result)

    def _wait_for_result(self) -> PGresult | None:
        while self._pgconn.is_busy():
            if not self._poller.poll(self._limit * 1000):
                raise silent(self._connection, self._limit)
            self._pgconn.consume_input()
        return self._pgconn.get_result()

    async def _await(self) -> PGresult:
        pgconn = self._pgconn
        loop = asyncio.get_running_loop()
        while pgconn.flush():
            if not await _ready(loop.add_writer, loop.remove_writer, pgconn.socket, self._limit):
                raise await asilent(self._connection, self._limit)
        result: PGresult | None = None
        while (more := await self._await_result()) is not None:
            result = more
        return _known(result)

    async def _await_result(self) -> PGresult | None:
        loop = asyncio.get_running_loop()
        while self._pgconn.is_busy():
            socket = self._pgconn.socket
            if not await _ready(loop.add_reader, loop.remove_reader, socket, self._limit):
                raise await asilent(self._connection, self._limit)
            self._pgconn.consume_input()
        return self._pgconn.get_result()

    def _rows(self, text: str, result: PGresult) -> list[dict[str, Any]]:
        if self._check(result) != ExecStatus.TUPLES_OK:
            return []
        columns = self._columns.get(text)
        if columns is None:
            columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
            self._columns[text] = columns
        self._transformer.set_pgresult(result)

        def row(values: Sequence[Any]) -> dict[str, Any]:
            return dict(zip(columns, values, strict=True))

        return self._transformer.load_rows(0, result.ntuples, row)

    def _check(self, result: PGresult) -> int:
        status = result.status
        if status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
            raise errors.error_from_result(result)
        return status


def _known(result: PGresult | None) -> PGresult:
    if result is None:
        raise psycopg.OperationalError("the connection ended without an answer")
    return result


def _check_sync(result: PGresult | None) -> None:
    """Check the end of one of several transactions that were sent together."""
    if result is None or result.status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection ended in the middle of its answers")


async def _ready(
    add: Callable[..., None], remove: Callable[[int], bool], descriptor: int, seconds: float
) -> bool:
    """Wait until a descriptor can be read or written; returns whether it could in time."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def resolve(is_ready: bool) -> None:
        if not future.done():
            future.set_result(is_ready)

    add(descriptor, resolve, True)
    timer = loop.call_later(seconds, resolve, False)
    try:
        return bool(await future)
    finally:
        timer.cancel()
        remove(descriptor)


def is_fit(statement: Statement) -> bool:
    """Whether all its parameters are plain: others need a cursor's adapters."""
    return _PLAIN.issuperset(map(type, statement.parameters.values()))


def _values(names: Sequence[str], parameters: Mapping[str, Any]) -> list[bytes | None]:
    """Parameter values as texts, which the server casts to the types it infers.

    One loop: a call for each value would be half of the client's cost of a small statement.
    """
    found: list[bytes | None] = []
    for name in names:
        value = parameters[name]
        kind = type(value)
        if value is None:
            found.append(None)
        elif kind is str:
            text: bytes = value.encode()
            if b"\0" in text:
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            found.append(text)
        elif kind is bool:
            found.append(b"t" if value else b"f")
        else:
            found.append(b"%d" % value)
    return found
