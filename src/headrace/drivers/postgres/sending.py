"""Statements over psycopg connections, one round trip for several."""

from __future__ import annotations

import select
from functools import cached_property
from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.rows import dict_row
from psycopg.types.string import ByteaBinaryLoader

from headrace.drivers.postgres.pool import AnyAsyncConnection, AnyConnection
from headrace.drivers.postgres.signing import Signatures
from headrace.drivers.postgres.straight import Straight, is_fit, poller_on, straight_on
from headrace.drivers.relational.sql import Many, Statement
from headrace.errors import InvalidBody

# What divides the values of a column, and what stands for null: JSON holds neither.
DIVIDER = "\x1e"
NULL = "\x15"


class _Own(psycopg.BaseConnection[Any]):
    """What blocking and async connections of ours have alike."""

    @cached_property
    def straight(self) -> Straight | None:
        return straight_on(self)

    @cached_property
    def poller(self) -> select.poll:
        return poller_on(self)

    @cached_property
    def signatures(self) -> Signatures:
        return Signatures()


class OwnConnection(_Own, psycopg.Connection[Any]):
    """One of ours, with a cursor that is used again: to make one is a good part of the work."""

    @cached_property
    def own_cursor(self) -> psycopg.Cursor[Any]:
        return self.cursor(row_factory=dict_row)

    @cached_property
    def stored_cursor(self) -> psycopg.Cursor[Any]:
        """One that leaves texts as they come: not decoded, nor even copied for it."""
        cursor = self.cursor(row_factory=dict_row, binary=True)
        cursor.adapters.register_loader("text", ByteaBinaryLoader)
        return cursor


class OwnAsyncConnection(_Own, psycopg.AsyncConnection[Any]):
    """The same for async code."""

    @cached_property
    def own_cursor(self) -> psycopg.AsyncCursor[Any]:
        return self.cursor(row_factory=dict_row)


def send_whole(
    connection: AnyConnection,
    statements: tuple[Statement | Many, ...],
    behind: Statement | None = None,
) -> list[list[Any]]:
    """Execute statements that are a transaction by themselves, and then perhaps another one."""
    [statement, *others] = statements
    if isinstance(connection, OwnConnection) and isinstance(statement, Statement) and not others:
        straight = connection.straight
        if straight is not None and is_fit(statement):
            if behind is None:
                return [straight.execute(statement)]
            return straight.execute_both(statement, behind)
    rows = send(connection, statements)
    return rows if behind is None else rows + send(connection, (behind,))


async def asend_whole(
    connection: AnyAsyncConnection,
    statements: tuple[Statement | Many, ...],
    behind: Statement | None = None,
) -> list[list[Any]]:
    """The same for async connections."""
    [statement, *others] = statements
    if isinstance(connection, OwnAsyncConnection) and isinstance(statement, Statement):
        straight = connection.straight
        if not others and straight is not None and is_fit(statement):
            if behind is None:
                return [await straight.aexecute(statement)]
            return await straight.aexecute_both(statement, behind)
    rows = await asend(connection, statements)
    return rows if behind is None else rows + await asend(connection, (behind,))


def send(connection: AnyConnection, statements: tuple[Statement | Many, ...]) -> list[list[Any]]:
    """Execute statements, in a pipeline if there are several, and fetch their rows."""
    if len(statements) == 1:
        if isinstance(connection, OwnConnection):
            [statement] = statements
            is_stored = isinstance(statement, Statement) and statement.as_stored
            cursor = connection.stored_cursor if is_stored else connection.own_cursor
            cursor.execute(statement.text.encode(), _parameters(statement) or None)
            return [_rows(cursor)]
        return [_rows(_execute(connection, statements[0]))]
    with connection.pipeline():
        cursors = [_execute(connection, statement) for statement in statements]
    return [_rows(cursor) for cursor in cursors]


def _execute(connection: AnyConnection, statement: Statement | Many) -> psycopg.Cursor[Any]:
    # A cursor of our own: a user's connection may have another row factory.
    cursor = connection.cursor(row_factory=dict_row)
    return cursor.execute(statement.text.encode(), _parameters(statement) or None)


def executions(statement: Statement | Many) -> list[dict[str, Any]]:
    """The parameters of a statement, once for each time that it has to be executed."""
    return [_parameters(statement)]


def _parameters(statement: Statement | Many) -> dict[str, Any]:
    if isinstance(statement, Statement):
        return statement.parameters
    return {column: _column(statement, column) for column in statement.rows[0]}


def _column(statement: Many, column: str) -> str:
    """The values of a column in one text: psycopg is slow at making arrays of many."""
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
    # Not cursor.description, which makes an object for every column to be asked.
    result = cursor.pgresult
    return result is not None and result.status == ExecStatus.TUPLES_OK


async def asend(
    connection: AnyAsyncConnection, statements: tuple[Statement | Many, ...]
) -> list[list[Any]]:
    """The same for async connections."""
    if len(statements) == 1:
        if isinstance(connection, OwnAsyncConnection):
            [statement] = statements
            cursor = connection.own_cursor
            await cursor.execute(statement.text.encode(), _parameters(statement) or None)
            return [await _arows(cursor)]
        return [await _arows(await _aexecute(connection, statements[0]))]
    async with connection.pipeline():
        cursors = [await _aexecute(connection, statement) for statement in statements]
    return [await _arows(cursor) for cursor in cursors]


async def _aexecute(
    connection: AnyAsyncConnection, statement: Statement | Many
) -> psycopg.AsyncCursor[Any]:
    cursor = connection.cursor(row_factory=dict_row)
    return await cursor.execute(statement.text.encode(), _parameters(statement) or None)


async def _arows(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
    return await cursor.fetchall() if _has_rows(cursor) else []
