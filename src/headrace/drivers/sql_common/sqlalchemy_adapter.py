"""SQLAlchemy's sessions and connections, without importing SQLAlchemy.

Statements go through ``exec_driver_sql`` of the user's own connection, so SQLAlchemy knows
about the transaction, and any pool or event hook of the user's stays in charge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.drivers.sql_common.statements import Many, Statement
from headrace.errors import InvalidOption

Prepare = Callable[[Statement | Many], list[dict[str, Any]]]


def is_sync(candidate: Any) -> bool:
    """A ``Session``, ``scoped_session`` or ``Connection``."""
    return _is_theirs(candidate) and not hasattr(candidate, "run_sync")


def is_async(candidate: Any) -> bool:
    """An ``AsyncSession`` or ``AsyncConnection``."""
    return _is_theirs(candidate) and hasattr(candidate, "run_sync")


def _is_theirs(candidate: Any) -> bool:
    is_usable = hasattr(candidate, "get_bind") or hasattr(candidate, "exec_driver_sql")
    return is_usable and is_alchemy(candidate)


def is_alchemy(candidate: Any) -> bool:
    """An object of SQLAlchemy, or of a class made from one of its own."""
    return any(cls.__module__.partition(".")[0] == "sqlalchemy" for cls in type(candidate).__mro__)


def check_library(candidate: Any, drivers: tuple[str, ...], url: str) -> None:
    """Refuse a session or connection that reaches its database through another library.

    Nothing is sent. ``drivers`` are SQLAlchemy's names; ``url`` is how an engine is made.
    """
    dialect = _dialect(candidate)
    if dialect.driver not in drivers:
        raise InvalidOption(
            f"this {type(candidate).__name__} of SQLAlchemy is on {dialect.name} through "
            f"{dialect.driver}, which cannot be used here: make its engine with {url}…, for the "
            "same database as the client's.",
            option="connection",
        )


def _dialect(candidate: Any) -> Any:
    try:
        if hasattr(candidate, "get_bind"):
            return candidate.get_bind().dialect
        return candidate.dialect
    except Exception as error:
        # There are two causes: a session without an engine, or an async connection not entered.
        is_session = hasattr(candidate, "get_bind")
        why = "the session has no engine" if is_session else str(error).splitlines()[0].rstrip(".")
        raise InvalidOption(
            f"using() needs a connection that is open: {why}.", option="connection"
        ) from error


def connection_of(candidate: Any) -> Any:
    """The ``Connection`` behind a session, in its transaction; a connection as it is."""
    found = candidate.connection
    return found() if callable(found) else candidate


def transaction_of(candidate: Any) -> Any:
    """The open transaction of a session or connection, without its savepoints; None if none is."""
    if hasattr(candidate, "registry"):
        candidate = candidate()  # a scoped_session
    for name in ("sync_session", "sync_connection"):
        candidate = getattr(candidate, name, candidate)
    return None if candidate is None else candidate.get_transaction()


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
            rows += _rows(connection, statement.text, parameters)
        answers.append(rows)
    return answers


def _rows(connection: Any, text: str, parameters: dict[str, Any]) -> list[Any]:
    try:
        result = connection.exec_driver_sql(text, parameters)
        return list(result.mappings()) if result.returns_rows else []
    except Exception as error:
        # SQLAlchemy wraps the library's errors; drivers classify the originals.
        original = getattr(error, "orig", None)
        if original is None:
            raise
    raise original
