"""Creating and migrating the schema."""

from __future__ import annotations

import time
from typing import Literal

import psycopg
from psycopg import sql

from headrace.drivers.postgres import sqlstate
from headrace.drivers.postgres.functions import FunctionSet
from headrace.drivers.postgres.network_timeouts import GRACE_SECONDS, seconds_left
from headrace.drivers.postgres.pool import AnyConnection
from headrace.drivers.postgres.round_trip import send
from headrace.drivers.postgres.sessions import place_of
from headrace.drivers.postgres.store import DIALECT, PostgresStore
from headrace.drivers.runner import FIRST_DELAY, MAX_DELAY_SECONDS, drive
from headrace.drivers.sql_common.migrations import (
    Migration,
    Schema,
    load_schema,
    outstanding,
    refuse_absent,
    refuse_old,
)
from headrace.errors import StoreError, UnsupportedStore

OLDEST = 14
Migrate = Literal["auto", "create", "off"]


def prepare(store: PostgresStore, migrate: Migrate) -> None:
    """Check the server and prepare the schema; wait for a server that is not up yet."""
    delay = FIRST_DELAY
    give_up = time.monotonic() + store.patience
    while True:
        try:
            return _prepare(store, migrate, give_up)
        except StoreError as error:
            is_final = not error.retryable or sqlstate.is_absent(error.__cause__)
            if is_final or time.monotonic() + delay > give_up:
                raise
        time.sleep(delay)
        delay = min(delay * 2, MAX_DELAY_SECONDS)


def _prepare(store: PostgresStore, migrate: Migrate, give_up: float) -> None:
    try:
        with store.connections.connect(give_up + GRACE_SECONDS) as connection:
            connection.limit = seconds_left(give_up)
            _check(store, connection)
            _bring_up(store, connection, migrate)
    except psycopg.OperationalError as error:
        raise sqlstate.not_connected(error, store.address) from error
    except psycopg.Error as error:
        raise sqlstate.final(error, store.address) from error


def script(schema: str, known: Schema, version: int) -> str:
    """A script for psql that does what ``prepare`` would with tables of a version, 0 for none."""
    steps = [
        f"-- {migration.version}: {migration.name}\n{migration.text.strip()}\n"
        f"{_note(schema, migration)};\n"
        for migration in outstanding(known, version, "the script")
    ]
    functions = FunctionSet(schema, known.functions)
    applied = functions.replacement() if version else [functions.note()]
    steps += [f"{statement.strip().removesuffix(';')};\n" for statement in applied]
    head = "".join(f"{statement};\n" for statement in _opening(schema))
    return "\n".join(["begin;\n", head, *steps, "commit;\n"])


def _check(store: PostgresStore, connection: AnyConnection) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise UnsupportedStore(
            f"PostgreSQL {version} at {store.address} is too old: {OLDEST} or newer is needed."
        )
    [row] = connection.execute(
        "select pg_backend_pid() as pid, current_user as role, "
        "current_setting('default_transaction_read_only') = 'on' as is_read_only"
    ).fetchall()
    if row["is_read_only"]:
        raise UnsupportedStore(
            f"transactions of {row['role']!r} at {store.address} are read-only, by "
            "default_transaction_read_only: set it to off for this role, database or server, or "
            "only for Headrace by adding options=-cdefault_transaction_read_only%3Doff to the URL."
        )
    if row["pid"] != connection.info.backend_pid:
        # A pooler answers, with a process number of its own. It may give the session to another
        # client after each transaction, and prepared statements stay in the session.
        store.connections.do_without_preparing()
        _check_pooler(store, connection)
    # Read now: later, inside a user's transaction, it would need a second session.
    store.note_where(drive(place_of(), lambda statement: send(connection, (statement,))[0]))


def _check_pooler(store: PostgresStore, connection: AnyConnection) -> None:
    """Refuse a pooler without transactions: it ends the connection at the first BEGIN."""
    try:
        with connection.transaction():
            pass
    except psycopg.OperationalError as error:
        if not connection.closed:
            raise
        raise UnsupportedStore(
            f"the pooler at {store.address} allows no transactions: set its pool_mode to "
            "transaction or session."
        ) from error


def _bring_up(store: PostgresStore, connection: AnyConnection, migrate: Migrate) -> None:
    known = load_schema(DIALECT, f"{store.schema}.")
    functions = FunctionSet(store.schema, known.functions)
    where = f"schema {store.schema!r} at {store.address}"
    version = _version(connection, store.schema)
    missing = outstanding(known, version, where)
    if migrate == "off":
        refuse_absent(version, where)
    if migrate != "auto":
        refuse_old(version, missing, where)
    if not missing and (migrate != "auto" or not _needs_functions(connection, functions)):
        return
    with connection.transaction():
        for statement in _opening(store.schema):
            connection.execute(statement.encode())
        # Another client may have done it meanwhile.
        version = _version(connection, store.schema)
        missing = outstanding(known, version, where)
        for migration in missing:
            connection.execute(migration.text.encode())
            connection.execute(_note(store.schema, migration).encode())
        if not version:
            connection.execute(functions.note().encode())
        elif missing or (migrate == "auto" and _needs_functions(connection, functions)):
            for statement in functions.replacement():
                connection.execute(statement.encode())


def _needs_functions(connection: AnyConnection, functions: FunctionSet) -> bool:
    """Whether ours must be applied, to tables that are up to date."""
    recorded = connection.execute(functions.recorded().encode()).fetchall()
    return functions.is_to_be_applied(recorded)


def _opening(schema: str) -> tuple[str, ...]:
    """The start of a migration. All clients that need one wait here; the first one migrates."""
    columns = "version integer primary key, name text not null, applied_at timestamptz"
    return (
        f"select pg_advisory_xact_lock(hashtext('headrace.migrate'), hashtext('{schema}'))",
        f'create schema if not exists "{schema}"',
        f'create table if not exists "{schema}".migration ({columns} not null default now())',
    )


def _note(schema: str, migration: Migration) -> str:
    values = f"{migration.version}, '{migration.name}'"
    return f'insert into "{schema}".migration values ({values})'


def _version(connection: AnyConnection, schema: str) -> int:
    table = f"{schema}.migration"
    [row] = connection.execute("select to_regclass(%s) as found", (table,)).fetchall()
    if row["found"] is None:
        return 0
    statement = sql.SQL("select coalesce(max(version), 0) as version from {}.migration")
    [row] = connection.execute(statement.format(sql.Identifier(schema))).fetchall()
    return int(row["version"])
