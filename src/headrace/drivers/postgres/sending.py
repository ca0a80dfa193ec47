"""Statements over psycopg connections, one round trip for several."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.rows import dict_row

from headrace.drivers.postgres.pool import AnyAsyncConnection, AnyConnection
from headrace.drivers.relational.sql import Statement


def send(connection: AnyConnection, statements: tuple[Statement, ...]) -> list[list[Any]]:
    """Execute statements, in a pipeline if there are several, and fetch their rows."""
    if len(statements) == 1:
        return [_rows(_execute(connection, statements[0]))]
    with connection.pipeline():
        cursors = [_execute(connection, statement) for statement in statements]
    return [_rows(cursor) for cursor in cursors]


def _execute(connection: AnyConnection, statement: Statement) -> psycopg.Cursor[Any]:
    # A cursor of our own: a user's connection may have another row factory.
    cursor = connection.cursor(row_factory=dict_row)
    return cursor.execute(statement.text.encode(), statement.parameters or None)


def _rows(cursor: psycopg.Cursor[Any]) -> list[Any]:
    return cursor.fetchall() if _has_rows(cursor) else []


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    # Not cursor.description, which makes an object for every column to be asked.
    result = cursor.pgresult
    return result is not None and result.status == ExecStatus.TUPLES_OK


async def asend(
    connection: AnyAsyncConnection, statements: tuple[Statement, ...]
) -> list[list[Any]]:
    """The same for async connections."""
    if len(statements) == 1:
        return [await _arows(await _aexecute(connection, statements[0]))]
    async with connection.pipeline():
        cursors = [await _aexecute(connection, statement) for statement in statements]
    return [await _arows(cursor) for cursor in cursors]


async def _aexecute(
    connection: AnyAsyncConnection, statement: Statement
) -> psycopg.AsyncCursor[Any]:
    cursor = connection.cursor(row_factory=dict_row)
    return await cursor.execute(statement.text.encode(), statement.parameters or None)


async def _arows(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
    return await cursor.fetchall() if _has_rows(cursor) else []
