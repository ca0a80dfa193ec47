"""Creating and migrating the schema."""

from __future__ import annotations

from typing import Literal

import psycopg
from psycopg import sql

from headrace.drivers.postgres import failures
from headrace.drivers.postgres.pool import AnyConnection
from headrace.drivers.postgres.store import DIALECT, PostgresStore
from headrace.drivers.relational.migrations import migrations, outstanding, refuse_old
from headrace.errors import UnsupportedStore

OLDEST = 14
Migrate = Literal["auto", "create"]


def prepare(store: PostgresStore, migrate: Migrate) -> None:
    """Check the server and make the schema ready; one try, so that errors show at once."""
    try:
        with store.connect() as connection:
            _check(store, connection)
            _bring_up(store, connection, migrate)
    except psycopg.OperationalError as error:
        raise failures.unavailable(error, store.place) from error
    except psycopg.Error as error:
        raise failures.final(error, store.place) from error


def _check(store: PostgresStore, connection: AnyConnection) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST:
        raise UnsupportedStore(
            f"PostgreSQL {version} at {store.place} is too old: {OLDEST} or newer is needed."
        )
    [row] = connection.execute("select current_setting('synchronous_commit') as mode").fetchall()
    if row["mode"] == "off":
        store.insist_on_disk()


def _bring_up(store: PostgresStore, connection: AnyConnection, migrate: Migrate) -> None:
    known = migrations(DIALECT, f"{store.schema}.")
    where = f"schema {store.schema!r} at {store.place}"
    version = _version(connection, store.schema)
    missing = outstanding(known, version, where)
    if not missing:
        return
    if migrate != "auto":
        refuse_old(version, missing, where)
    schema = sql.Identifier(store.schema)
    with connection.transaction():
        # All who find tables missing come here; the first one makes them.
        connection.execute(
            "select pg_advisory_xact_lock(hashtext('headrace.migrate'), hashtext(%s))",
            (store.schema,),
        )
        connection.execute(sql.SQL("create schema if not exists {}").format(schema))
        connection.execute(
            sql.SQL(
                "create table if not exists {}.migration (version integer primary key,"
                " name text not null, applied_at timestamptz not null default now())"
            ).format(schema)
        )
        for migration in outstanding(known, _version(connection, store.schema), where):
            connection.execute(migration.text.encode())
            connection.execute(
                sql.SQL("insert into {}.migration values (%s, %s)").format(schema),
                (migration.version, migration.name),
            )


def _version(connection: AnyConnection, schema: str) -> int:
    table = f"{schema}.migration"
    [row] = connection.execute("select to_regclass(%s) as found", (table,)).fetchall()
    if row["found"] is None:
        return 0
    statement = sql.SQL("select coalesce(max(version), 0) as version from {}.migration")
    [row] = connection.execute(statement.format(sql.Identifier(schema))).fetchall()
    return int(row["version"])
