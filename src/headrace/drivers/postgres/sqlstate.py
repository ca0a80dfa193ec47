"""What PostgreSQL's errors mean for us."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import PipelineStatus, TransactionStatus

from headrace.drivers.postgres.network_timeouts import ServerSilent
from headrace.errors import HeadraceError, InvalidInput, StoreBusy, StoreError, StoreUnavailable

OUTRUN = "HR002"
"""A statement of ours aborted: another transaction was faster, or a channel has no counters at this
version of the rules."""
TOO_MUCH = "54000"
"""A text would be too long for the server: the general path reads rows instead."""

_GONE = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow)
_COLLIDED = (pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
_NOT_NOW = (pg.ReadOnlySqlTransaction, pg.TooManyConnections, pg.DiskFull, pg.OutOfMemory)
_MISSING = (pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.InvalidSchemaName)
_PREPARED = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
# While a connection is made, messages of the server or a pooler mostly arrive without a code.
_REFUSED = re.compile(r"authentication failed|no password supplied")
_LOGIN = (pg.InvalidPassword, pg.InvalidAuthorizationSpecification)
_ABSENT = re.compile(r'"[^"]*" does not exist|no such database|no pg_hba.conf entry')


@contextmanager
def keeping_secrets() -> Iterator[None]:
    """Connect inside: the library's error contains all parameters of the connection, the password
    included, and would be kept as the cause of ours."""
    try:
        yield
    except psycopg.Error as error:
        error._pgconn = None  # noqa: SLF001  # there is no other way to it
        raise


def is_lost(error: psycopg.Error, connection: object) -> bool:
    """Whether the connection is lost, and with it any answer."""
    if getattr(connection, "closed", False):
        return True
    if any(map(_ends_session, _chain(error))):
        return True
    # An error without a code is not the server's, but trouble in reaching it.
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def is_silent(error: BaseException) -> bool:
    """Whether the client gave up the connection because the server was silent."""
    return any(isinstance(one, ServerSilent) for one in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it hides: leaving a pipeline may fail because the connection has
    ended."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _ends_session(error: BaseException) -> bool:
    # Idle and transaction timeouts, poolers and shutdowns: their codes differ, all are FATAL.
    return isinstance(error, _GONE) or (
        isinstance(error, psycopg.Error) and error.diag.severity_nonlocalized in ("FATAL", "PANIC")
    )


def is_amid_answers(connection: Any) -> bool:
    """Whether statements were sent whose answers are unread, after an interrupt: a caller that
    waited for another answer here might wait for ever."""
    pgconn = connection.pgconn
    return bool(
        pgconn.transaction_status == TransactionStatus.ACTIVE
        or pgconn.pipeline_status != PipelineStatus.OFF
    )


def is_prepare_trouble(error: psycopg.Error) -> bool:
    """Whether a pooler gave us a session that does not have our prepared statements."""
    return isinstance(error, _PREPARED)


def passing(error: psycopg.Error, place: str) -> HeadraceError | None:
    """The error for the caller when patience ends, if a retry may help; else None."""
    if isinstance(error, _COLLIDED):
        return StoreBusy(f"transactions on {place} kept colliding: {_first_line(error)}.")
    if isinstance(error, _NOT_NOW):
        return unavailable(error, place)
    return None


def not_connected(error: BaseException, place: str) -> StoreError:
    """The error for a connection that could not be made."""
    if isinstance(error, _LOGIN) or _REFUSED.search(str(error)):
        return StoreError(
            f"PostgreSQL at {place} refused the login: {_first_line(error)}. Check the user and "
            "the password in the URL, in PGPASSWORD or in ~/.pgpass; trying again will not help.",
            place=place,
        )
    return unavailable(error, place)


def is_absent(error: BaseException | None) -> bool:
    """Whether a server answered that the database or role does not exist: it is up, so there is no
    point in waiting for it."""
    return _ABSENT.search(str(error)) is not None


def unavailable(error: BaseException, place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"PostgreSQL at {place} cannot be used now: {_first_line(error)}. "
        "Check that the server runs and that the URL's host, port, user, password and database are "
        "right.",
        place=place,
    )


def final(error: psycopg.Error, place: str) -> HeadraceError:
    """The error where a retry will not help."""
    if isinstance(error, _MISSING):
        return StoreError(
            f"Headrace's tables at {place} are missing or not as they were made: "
            f"{_first_line(error)}. Connect again to create them.",
            place=place,
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return StoreError(
            f"the database user lacks a right at {place}: {_first_line(error)}.", place=place
        )
    if isinstance(error, psycopg.DataError):
        # A text with a NUL, a number of more than 64 bits: of a caller that checks nothing.
        return InvalidInput(
            f"PostgreSQL cannot store or compare a value: {_first_line(error)}. Nothing was "
            "written; check the arguments."
        )
    return StoreError(f"PostgreSQL at {place} refused a statement: {_first_line(error)}.")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
