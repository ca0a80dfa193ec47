"""SQLAlchemy's sessions and connections, without importing SQLAlchemy.

Statements go through ``exec_driver_sql`` of the user's own connection, so SQLAlchemy knows
about the transaction, and any pool or event hook of the user's stays in charge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.drivers.relational.sql import Many, Statement

Prepare = Callable[[Statement | Many], list[dict[str, Any]]]


def is_sync(candidate: Any) -> bool:
    """A ``Session``, ``scoped_session`` or ``Connection``."""
    return _module(candidate) == "sqlalchemy" and not is_async(candidate)


def is_async(candidate: Any) -> bool:
    """An ``AsyncSession`` or ``AsyncConnection``."""
    return _module(candidate) == "sqlalchemy" and hasattr(candidate, "run_sync")


def connection_of(candidate: Any) -> Any:
    """The ``Connection`` behind a session, in its transaction; a connection as it is."""
    found = candidate.connection
    return found() if callable(found) else candidate


def driver_connection(candidate: Any) -> Any:
    """The database library's own connection object."""
    return connection_of(candidate).connection.driver_connection


def send(
    candidate: Any, statements: tuple[Statement | Many, ...], prepare: Prepare
) -> list[list[Any]]:
    """Execute statements in the user's transaction and fetch their rows."""
    connection = connection_of(candidate)
    answers = []
    for statement in statements:
        rows: list[Any] = []
        for parameters in prepare(statement):
            result = connection.exec_driver_sql(statement.text, parameters)
            rows += result.mappings() if result.returns_rows else []
        answers.append(rows)
    return answers


def _module(candidate: Any) -> str:
    return type(candidate).__module__.partition(".")[0]
