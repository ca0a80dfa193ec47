"""From a URL to an open store: the one place that imports drivers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from headrace.contract.store import Store
from headrace.errors import InvalidOption, InvalidUrl, StoreUnavailable, UnsupportedStore
from headrace.model.checks import seconds
from headrace.model.url import StoreUrl, masked, parse_url, with_options

Durability = Literal["safe", "relaxed"]
Migrate = Literal["auto", "create", "off"]
DialectName = Literal["postgres", "sqlite"]
Clock = Callable[[], int]


def open_store(
    url: str,
    *,
    durability: Durability | None = None,
    migrate: Migrate = "create",
    patience: float = 30.0,
    clock: Clock | None = None,
) -> Store:
    """Open the store behind a URL, with its tables in place."""
    parts = parse_url(url)
    options = dict(parts.options)
    chosen = durability or options.pop("durability", "safe")
    options.pop("durability", None)
    if chosen not in ("safe", "relaxed"):
        raise InvalidOption(f"durability is {chosen!r}: use safe or relaxed.", option="durability")
    if migrate not in ("auto", "create", "off"):
        raise InvalidOption(f"migrate is {migrate!r}: use auto, create or off.", option="migrate")
    patience = seconds("patience", patience)
    parts = parts._replace(options=options)
    is_safe = chosen == "safe"
    store: Store
    match parts.scheme:
        case "memory":
            store = _memory(parts, patience, clock)
        case "sqlite":
            store = _sqlite(parts, is_safe, migrate, patience, clock)
        case _:
            store = _postgres(parts, is_safe, migrate, patience, clock)
    store.url = url
    return store


def _memory(parts: StoreUrl, patience: float, clock: Clock | None) -> Store:
    from headrace.drivers.memory.store import MemoryStore

    _refuse_options(parts)
    return MemoryStore(parts.location, patience=patience, clock=clock)


def _sqlite(
    parts: StoreUrl, is_safe: bool, migrate: Migrate, patience: float, clock: Clock | None
) -> Store:
    from headrace.drivers.relational.sql import check_identifier
    from headrace.drivers.sqlite.store import SqliteStore

    prefix = check_identifier("prefix", parts.options.pop("prefix", "headrace_"))
    _refuse_options(parts)
    path = Path(parts.location)
    if not path.parent.is_dir():
        raise StoreUnavailable(
            f"the folder {path.parent} for {path.name} does not exist: create it first.",
            path=str(path),
        )
    store = SqliteStore(path, prefix=prefix, is_safe=is_safe, patience=patience, clock=clock)
    try:
        if migrate == "off":
            store.check()
        else:
            store.migrate()
    except BaseException:
        store.close()
        raise
    return store


def _postgres(
    parts: StoreUrl, is_safe: bool, migrate: Migrate, patience: float, clock: Clock | None
) -> Store:
    _need_psycopg()
    import psycopg

    from headrace.drivers.postgres.schema import prepare
    from headrace.drivers.postgres.store import PostgresStore
    from headrace.drivers.relational.sql import check_identifier

    schema = check_identifier("schema", parts.options.pop("schema", "headrace"))
    conninfo = with_options(parts.location, parts.options)
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        # It quotes what it cannot read, and that may be the password.
        seen = masked(conninfo)
        why = re.sub(r'"([^"]*)"', lambda m: m[0] if m[1] in seen else '"***"', str(error))
        raise InvalidUrl(f"PostgreSQL cannot read the URL: {why}".strip()) from error
    store = PostgresStore(conninfo, schema=schema, is_safe=is_safe, patience=patience, clock=clock)
    prepare(store, migrate)
    return store


def _refuse_options(parts: StoreUrl) -> None:
    if parts.options:
        name = next(iter(parts.options))
        known = {"memory": "durability", "sqlite": "durability and prefix"}[parts.scheme]
        raise InvalidUrl(
            f"a {parts.scheme} URL has no option {name!r}: it knows {known}.", option=name
        )


def migration_script(dialect: DialectName, *, name: str | None = None, after: int = 0) -> str:
    """The SQL that makes the tables, or takes them on from version ``after``; no store is opened.

    ``name`` is the schema on PostgreSQL and the prefix on SQLite.
    """
    from headrace.drivers.relational.migrations import migrations, outstanding
    from headrace.drivers.relational.sql import check_identifier

    if dialect == "sqlite":
        from headrace.drivers.sqlite import schema as sqlite
        from headrace.drivers.sqlite.store import DIALECT as SQLITE

        prefix = check_identifier("prefix", name or "headrace_")
        missing = outstanding(migrations(SQLITE, prefix), after, "the script")
        return sqlite.script(prefix, missing) if missing else ""
    _need_psycopg()
    from headrace.drivers.postgres import schema as postgres
    from headrace.drivers.postgres.store import DIALECT as POSTGRES

    schema = check_identifier("schema", name or "headrace")
    missing = outstanding(migrations(POSTGRES, f"{schema}."), after, "the script")
    return postgres.script(schema, missing) if missing else ""


def _need_psycopg() -> None:
    try:
        import psycopg  # noqa: F401  # only whether it is there
    except ImportError as error:
        raise UnsupportedStore(
            "PostgreSQL needs psycopg: pip install 'headrace[postgres]'."
        ) from error
