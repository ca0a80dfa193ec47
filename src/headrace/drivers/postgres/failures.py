"""What PostgreSQL's errors mean for us."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import ConnStatus

from headrace.errors import HeadraceError, StoreBusy, StoreError, StoreUnavailable

OUTRUN = "HR002"
"""What a statement of ours says that was undone because others were faster, or because it is
not known what rules say."""
TOO_MUCH = "54000"
"""What the server says of a text that it cannot make so long: then rows have to do."""

_GONE = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.IdleInTransactionSessionTimeout,
)
_COLLIDED = (pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
_NOT_NOW = (pg.ReadOnlySqlTransaction, pg.TooManyConnections, pg.DiskFull, pg.OutOfMemory)
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName)
_PREPARED = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)


def is_lost(error: psycopg.Error, connection: object) -> bool:
    """Whether the connection is gone, and with it any answer."""
    if getattr(connection, "closed", False):
        return True
    # Leaving a pipeline may fail over the end of the connection, and hide it.
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, _GONE):
            return True
        chain = chain.__cause__ or chain.__context__
    # Without a code the error is not the server's word but trouble in reaching it.
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def has_ended(connection: Any) -> bool:
    """Whether the server has closed an idle connection of ours, as far as can be seen from here."""
    pgconn, poller = connection.pgconn, connection.poller
    # Words of farewell may come before the end itself; a few looks see both.
    for _ in range(3):
        if not poller.poll(0):
            return False
        try:
            pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        if pgconn.status == ConnStatus.BAD:
            return True
    return True


def is_prepare_trouble(error: psycopg.Error) -> bool:
    """Whether a pooler gave us a session that does not know our prepared statements."""
    return isinstance(error, _PREPARED)


def passing(error: psycopg.Error, place: str) -> HeadraceError | None:
    """What to tell the caller once patience ends, if trying again may help; else None."""
    if isinstance(error, _COLLIDED):
        return StoreBusy(f"transactions on {place} kept colliding: {_first_line(error)}.")
    if isinstance(error, _NOT_NOW):
        return unavailable(error, place)
    return None


def unavailable(error: BaseException, place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"PostgreSQL at {place} cannot be used now: {_first_line(error)}. "
        "Check that the server runs and that the URL's host, port, user and database are right.",
        place=place,
    )


def final(error: psycopg.Error, place: str) -> HeadraceError:
    """The error for what trying again will not cure."""
    if isinstance(error, _MISSING):
        return StoreError(
            f"Headrace's tables at {place} are missing or not as they were made: "
            f"{_first_line(error)}. Connect anew to create them.",
            place=place,
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreError(
            f"the database user lacks a right at {place}: {_first_line(error)}.", place=place
        )
    return StoreError(f"PostgreSQL at {place} refused a statement: {_first_line(error)}.")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
