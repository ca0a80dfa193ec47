"""Creating and migrating the schema."""

from __future__ import annotations

from typing import Literal

import psycopg
from psycopg import sql

from headrace.drivers.postgres import failures
from headrace.drivers.postgres.pool import AnyConnection
from headrace.drivers.postgres.store import DIALECT, PostgresStore
from headrace.drivers.relational.migrations import (
    Migration,
    migrations,
    outstanding,
    refuse_absent,
    refuse_old,
)
from headrace.errors import UnsupportedStore

OLDEST = 14
Migrate = Literal["auto", "create", "off"]


def prepare(store: PostgresStore, migrate: Migrate) -> None:
    """Check the server and make the schema ready; one try, so that errors show at once."""
    try:
        with store.connect() as connection:
            _check(store, connection)
            _bring_up(store, connection, migrate)
    except psycopg.OperationalError as error:
        raise failures.unavailable(error, store.address) from error
    except psycopg.Error as error:
        raise failures.final(error, store.address) from error


def script(schema: str, missing: list[Migration]) -> str:
    """Everything that ``prepare`` would do, for psql."""
    steps = [
        f"-- {migration.version}: {migration.name}\n{migration.text.strip()}\n"
        f"{_note(schema, migration)};\n"
        for migration in missing
    ]
    head = "".join(f"{statement};\n" for statement in _opening(schema))
    return "\n".join(["begin;\n", head, *steps, "commit;\n"])


def _check(store: PostgresStore, connection: AnyConnection) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise UnsupportedStore(
            f"PostgreSQL {version} at {store.address} is too old: {OLDEST} or newer is needed."
        )
    [row] = connection.execute("select current_setting('synchronous_commit') as mode").fetchall()
    if row["mode"] == "off":
        store.insist_on_disk()


def _bring_up(store: PostgresStore, connection: AnyConnection, migrate: Migrate) -> None:
    known = migrations(DIALECT, f"{store.schema}.")
    where = f"schema {store.schema!r} at {store.address}"
    version = _version(connection, store.schema)
    missing = outstanding(known, version, where)
    if not missing:
        return
    if migrate == "off":
        refuse_absent(version, where)
    if migrate != "auto":
        refuse_old(version, missing, where)
    with connection.transaction():
        for statement in _opening(store.schema):
            connection.execute(statement.encode())
        for migration in outstanding(known, _version(connection, store.schema), where):
            connection.execute(migration.text.encode())
            connection.execute(_note(store.schema, migration).encode())


def _opening(schema: str) -> tuple[str, ...]:
    """What comes first. All who find tables missing wait here; the first one makes them."""
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
