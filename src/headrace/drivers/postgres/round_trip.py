"""Statements over psycopg connections: several in one round trip."""

from __future__ import annotations

import hashlib
import select
import sys
from collections import Counter
from functools import cached_property
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors
from psycopg._preparing import Prepare, PrepareManager
from psycopg._queries import PostgresQuery
from psycopg.abc import PQGen, PQGenConn
from psycopg.pq import ExecStatus
from psycopg.rows import dict_row
from psycopg.types.string import ByteaBinaryLoader

from headrace.drivers.postgres.commit_markers import CommitMarkers
from headrace.drivers.postgres.libpq import (
    LibpqConnection,
    Unconfirmed,
    is_fit,
    poller_on,
)
from headrace.drivers.postgres.network_timeouts import (
    NO_LIMIT,
    ServerSilent,
    asilent,
    connect_by,
    ended_by,
    limited,
    silent,
)
from headrace.drivers.postgres.pool import AnyAsyncConnection, AnyConnection
from headrace.drivers.sql_common.statements import Many, Statement
from headrace.errors import InvalidBody

T = TypeVar("T")

# The divider of a column's values, and the mark for null: JSON contains neither.
DIVIDER = "\x1e"
NULL = "\x15"
COMMIT = Statement("commit", "COMMIT", {})
BACKEND = Statement("backend", "select pg_backend_pid() as pid", {})

# For each user's connection, whether it leads to its own session and not to a pooler's.
_is_direct: WeakKeyDictionary[psycopg.BaseConnection[Any], bool] = WeakKeyDictionary()


class _NamedByContent(PrepareManager):
    """Names prepared statements by their text and the types of their parameters.

    psycopg numbers them. A pooler may assign us a session in which another client has numbered
    its own, too: then its ROLLBACK has the name of our COMMIT.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uses: Counter[bytes] = Counter()
        # Prepared in the current round trip: if it fails, the server may or may not have them.
        self._fresh: list[tuple[bytes, tuple[int, ...]]] = []

    def get(self, query: PostgresQuery, prepare: bool | None = None) -> tuple[Prepare, bytes]:
        decision, name = super().get(query, prepare)
        if decision is Prepare.SHOULD:
            self._fresh.append(self.key(query))
            content = _name_of(query)
            number = self._uses[content]
            self._uses[content] += 1
            # The server may have it from a round trip that failed.
            name = b"%b_%d" % (content, number) if number else content
        return decision, name

    def note_done(self) -> None:
        """Everything that was sent was executed."""
        if self._fresh:
            self._fresh.clear()

    def note_failed(self) -> None:
        """Something failed: later prepare again what was prepared in the same round trip."""
        for key in self._fresh:
            self._names.pop(key, None)
        self._fresh.clear()

    def _should_discard(self, *_: object) -> bool:
        """Nothing is dropped or altered on our connections, so a rollback changes nothing."""
        return False


def _name_of(query: PostgresQuery) -> bytes:
    content = b"%b %b" % (query.query, repr(query.types).encode())
    return b"headrace_" + hashlib.sha256(content).hexdigest()[:40].encode()


class _Own(psycopg.BaseConnection[Any]):
    """What our blocking and async connections have in common."""

    limit = NO_LIMIT
    """For how many seconds the server may be silent; set by each user of the connection."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.prepared = self._prepared = _NamedByContent()

    @classmethod
    def _connect_gen(cls, *arguments: Any, **options: Any) -> PQGenConn[Self]:
        return ended_by(super()._connect_gen(*arguments, **options), connect_by.get())

    @cached_property
    def libpq(self) -> LibpqConnection:
        return LibpqConnection(self)

    @cached_property
    def poller(self) -> select.poll:
        return poller_on(self)

    @cached_property
    def markers(self) -> CommitMarkers:
        return CommitMarkers()


class OwnConnection(_Own, psycopg.Connection[Any]):
    """One of our connections, with a reused cursor: making one is a good part of the cost."""

    def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        try:
            return super().wait(limited(gen, self.limit), *arguments, **options)
        except ServerSilent:
            raise silent(self, self.limit) from None

    @cached_property
    def own_cursor(self) -> psycopg.Cursor[Any]:
        return self.cursor(row_factory=dict_row)

    @cached_property
    def stored_cursor(self) -> psycopg.Cursor[Any]:
        """A cursor that leaves texts as bytes: neither decoded nor copied."""
        cursor = self.cursor(row_factory=dict_row, binary=True)
        cursor.adapters.register_loader("text", ByteaBinaryLoader)
        return cursor


class OwnAsyncConnection(_Own, psycopg.AsyncConnection[Any]):
    """The same for async code."""

    async def wait(self, gen: PQGen[T], *arguments: Any, **options: Any) -> T:
        try:
            return await super().wait(limited(gen, self.limit), *arguments, **options)
        except ServerSilent:
            raise await asilent(self, self.limit) from None

    @cached_property
    def own_cursor(self) -> psycopg.AsyncCursor[Any]:
        return self.cursor(row_factory=dict_row)


def send_autocommit(
    connection: AnyConnection,
    statements: tuple[Statement | Many, ...],
    behind: Statement | None = None,
) -> list[list[Any]]:
    """Execute statements that are a transaction of their own, and then perhaps another one."""
    [statement, *others] = statements
    if isinstance(connection, OwnConnection) and isinstance(statement, Statement) and not others:
        libpq = connection.libpq
        if is_fit(statement):
            if behind is None:
                return [libpq.execute(statement)]
            return libpq.execute_both(statement, behind)
    rows = send(connection, statements)
    if behind is None:
        return rows
    try:
        return rows + send(connection, (behind,))
    except psycopg.Error as error:
        raise Unconfirmed(str(error)) from error


async def asend_autocommit(
    connection: AnyAsyncConnection,
    statements: tuple[Statement | Many, ...],
    behind: Statement | None = None,
) -> list[list[Any]]:
    """The same for async connections."""
    [statement, *others] = statements
    if isinstance(connection, OwnAsyncConnection) and isinstance(statement, Statement):
        libpq = connection.libpq
        if not others and is_fit(statement):
            if behind is None:
                return [await libpq.aexecute(statement)]
            return await libpq.aexecute_both(statement, behind)
    rows = await asend(connection, statements)
    if behind is None:
        return rows
    try:
        return rows + await asend(connection, (behind,))
    except psycopg.Error as error:
        raise Unconfirmed(str(error)) from error


def send(connection: AnyConnection, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
    """Execute statements, in a pipeline if there are several, and fetch their rows."""
    if is_unknown(connection):
        [[backend], *rows] = send(connection, (BACKEND, *statements))
        note_backend(connection, backend["pid"])
        return rows
    handled = sys.exception()
    try:
        if len(statements) > 1:
            prepare = _prepare(connection)
            with connection.pipeline():
                cursors = [_execute(connection, statement, prepare) for statement in statements]
        elif isinstance(connection, OwnConnection):
            [statement] = statements
            is_stored = isinstance(statement, Statement) and statement.as_stored
            cursor = connection.stored_cursor if is_stored else connection.own_cursor
            cursor.execute(statement.text.encode(), _parameters(statement) or None)
            cursors = [cursor]
        else:
            cursors = [_execute(connection, statements[0], _prepare(connection))]
    except BaseException as error:
        if isinstance(connection, OwnConnection):
            connection.prepared.note_failed()
        interrupt = _interrupt_behind(error, handled)
        if interrupt is not None:
            raise interrupt from None
        raise
    if isinstance(connection, OwnConnection):
        connection.prepared.note_done()
    if statements[-1] is COMMIT:
        _check_commit(cursors[-1])
    return [_rows(cursor) for cursor in cursors]


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """What a signal handler raised, where the library only reports that it cannot end a pipeline.

    Ignores what was ``handled`` before: that is in the context of every error.
    """
    found: BaseException | None = error
    while found is not handled and isinstance(found, psycopg.Error | LookupError):
        found = found.__context__
    return None if found in (error, handled) else found


def _execute(
    connection: AnyConnection, statement: Statement | Many, prepare: bool | None
) -> psycopg.Cursor[Any]:
    # A separate cursor: a user's connection may have another row factory.
    cursor = connection.cursor(row_factory=dict_row)
    return cursor.execute(statement.text.encode(), _parameters(statement) or None, prepare=prepare)


def is_unknown(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether this is a user's connection that nothing was sent on yet; True only once."""
    if isinstance(connection, _Own) or connection in _is_direct:
        return False
    _is_direct[connection] = False
    return True


def note_backend(connection: psycopg.BaseConnection[Any], pid: int) -> None:
    """Note the server process that answered on a user's connection."""
    _is_direct[connection] = pid == connection.info.backend_pid


def may_prepare(connection: psycopg.BaseConnection[Any]) -> bool:
    """Whether to prepare: not on a user's connection to a pooler, where psycopg numbers names."""
    return isinstance(connection, _Own) or _is_direct[connection]


def _prepare(connection: psycopg.BaseConnection[Any]) -> bool | None:
    """psycopg's argument: None prepares frequent statements."""
    return None if may_prepare(connection) else False


def _check_commit(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> None:
    """Raise if the server answered ROLLBACK to COMMIT, as it does after a failed statement."""
    if cursor.statusmessage != "COMMIT":
        raise errors.TransactionRollback(
            "the transaction was rolled back, since a statement in it had failed"
        )


def executions(statement: Statement | Many) -> list[dict[str, Any]]:
    """The parameters of a statement, once for each execution."""
    return [_parameters(statement)]


def _parameters(statement: Statement | Many) -> dict[str, Any]:
    if isinstance(statement, Statement):
        return statement.parameters
    return {column: _column(statement, column) for column in statement.rows[0]}


def _column(statement: Many, column: str) -> str:
    """The values of a column in one text: psycopg is slow at making large arrays."""
    text = DIVIDER.join(
        NULL if value is None else value if type(value) is str else str(value)
        for value in [row[column] for row in statement.rows]
    )
    if text.count(DIVIDER) != len(statement.rows) - 1:
        raise InvalidBody(f"a {column} holds the control character U+001E.", path=column)
    return text


def _rows(cursor: psycopg.Cursor[Any]) -> list[Any]:
    return cursor.fetchall() if _has_rows(cursor) else []


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    # Not cursor.description, which makes an object for every column.
    result = cursor.pgresult
    return result is not None and result.status == ExecStatus.TUPLES_OK


async def asend(
    connection: AnyAsyncConnection, statements: tuple[Statement | Many, ...]
) -> list[list[Any]]:
    """The same for async connections."""
    if is_unknown(connection):
        [[backend], *rows] = await asend(connection, (BACKEND, *statements))
        note_backend(connection, backend["pid"])
        return rows
    try:
        if len(statements) > 1:
            prepare = _prepare(connection)
            async with connection.pipeline():
                cursors = [await _aexecute(connection, each, prepare) for each in statements]
        elif isinstance(connection, OwnAsyncConnection):
            [statement] = statements
            cursor = connection.own_cursor
            await cursor.execute(statement.text.encode(), _parameters(statement) or None)
            cursors = [cursor]
        else:
            cursors = [await _aexecute(connection, statements[0], _prepare(connection))]
    except BaseException:
        if isinstance(connection, OwnAsyncConnection):
            connection.prepared.note_failed()
        raise
    if isinstance(connection, OwnAsyncConnection):
        connection.prepared.note_done()
    if statements[-1] is COMMIT:
        _check_commit(cursors[-1])
    return [await _arows(cursor) for cursor in cursors]


async def _aexecute(
    connection: AnyAsyncConnection, statement: Statement | Many, prepare: bool | None
) -> psycopg.AsyncCursor[Any]:
    cursor = connection.cursor(row_factory=dict_row)
    return await cursor.execute(
        statement.text.encode(), _parameters(statement) or None, prepare=prepare
    )


async def _arows(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
    return await cursor.fetchall() if _has_rows(cursor) else []
