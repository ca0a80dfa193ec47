"""Opens the store of a URL; the only module that imports drivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from headrace import local_nodes
from headrace.contract.driver import Clock, Migrate, OpenDriver, OpenOptions
from headrace.contract.missing_part import add_missing_parts
from headrace.contract.store import Store
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    InvalidUrl,
    StoreUnavailable,
    UnsupportedStore,
)
from headrace.model.checks import seconds
from headrace.model.fields import shown
from headrace.model.url import (
    NODE_SCHEMES,
    StoreUrl,
    installed_drivers,
    parse_url,
    with_options,
)

Durability = Literal["safe", "relaxed"]
DialectName = Literal["postgres", "sqlite"]
PATIENCE_SECONDS = 30.0


def open_store(
    url: str,
    *,
    durability: Durability | None = None,
    migrate: Migrate = "create",
    patience: float = PATIENCE_SECONDS,
    clock: Clock | None = None,
) -> Store:
    """Open the store of a URL, and create, migrate or check its tables."""
    parts = parse_url(url)
    options = dict(parts.options)
    chosen = durability or options.pop("durability", None)
    options.pop("durability", None)
    if chosen not in (None, "safe", "relaxed"):
        raise InvalidOption(
            f"durability is {shown(chosen)}: use safe or relaxed.", option="durability"
        )
    if migrate not in ("auto", "create", "off"):
        raise InvalidOption(
            f"migrate is {shown(migrate)}: use auto, create or off.", option="migrate"
        )
    is_safe = None if chosen is None else chosen == "safe"
    asked = OpenOptions(is_safe, migrate, seconds("patience", patience), clock)
    store = _driver(parts.scheme)(parts._replace(options=options), asked)
    store.url = url
    add_missing_parts(store)
    return store


def _driver(scheme: str) -> OpenDriver:
    """Our own driver of a scheme, or the one that another distribution has for it."""
    ours = _DRIVERS.get(scheme)
    if ours is not None:
        return ours
    entry_point = installed_drivers()[scheme]
    try:
        found: OpenDriver = entry_point.load()
    except Exception as error:
        raise UnsupportedStore(
            f"the driver for {scheme}:// cannot be loaded ({entry_point.value}: {error}): "
            "install it again, or remove it."
        ) from error
    return found


def _memory(url: StoreUrl, options: OpenOptions) -> Store:
    from headrace.drivers.memory.store import MemoryStore

    _refuse_options(url)
    return MemoryStore(url.location, patience=options.patience, clock=options.clock)


def _sqlite(url: StoreUrl, options: OpenOptions) -> Store:
    from headrace.drivers.sql_common.statements import check_identifier
    from headrace.drivers.sqlite.store import SqliteStore

    prefix = check_identifier("prefix", url.options.pop("prefix", "headrace_"))
    _refuse_options(url)
    path = Path(url.location)
    if not path.parent.is_dir():
        raise StoreUnavailable(
            f"the folder {path.parent} for {path.name} does not exist: create it first.",
            path=str(path),
        )
    store = SqliteStore(
        path,
        prefix=prefix,
        is_safe=options.is_safe is not False,
        patience=options.patience,
        clock=options.clock,
    )
    try:
        if options.migrate == "off":
            store.check()
        else:
            store.migrate()
    except BaseException:
        store.close()
        raise
    return store


def _postgres(url: StoreUrl, options: OpenOptions) -> Store:
    _require_psycopg()
    from headrace.drivers.postgres.schema import prepare
    from headrace.drivers.postgres.store import PostgresStore
    from headrace.drivers.sql_common.statements import check_identifier

    schema = check_identifier("schema", url.options.pop("schema", "headrace"))
    conninfo = with_options(url.location, url.options)
    if not _is_valid(conninfo):
        raise _invalid_url(url.options)
    store = PostgresStore(
        conninfo,
        schema=schema,
        is_safe=options.is_safe is not False,
        patience=options.patience,
        clock=options.clock,
    )
    prepare(store, options.migrate)
    return store


def _node(url: StoreUrl, options: OpenOptions) -> Store:
    from headrace.drivers.http.address import parse_address
    from headrace.drivers.http.store import HttpStore

    if options.clock is not None:
        raise InvalidOption(
            "a node has a clock of its own: give clock= to the node.", option="clock"
        )
    if options.is_safe is not None:
        raise InvalidOption(
            "a node decides how durable its store is: give durability= to the node.",
            option="durability",
        )
    address = parse_address(url)
    if address.token is not None:
        return HttpStore(address, patience=options.patience)
    return HttpStore(
        address, patience=options.patience, find_token=partial(_local_token, address.shown)
    )


def open_spawned(url: str, why_ended: Callable[[], HeadraceError | None]) -> Store:
    """Open the store of a node that this process has spawned; ``url`` has all that it needs."""
    from headrace.drivers.http.address import parse_address
    from headrace.drivers.http.store import HttpStore

    return HttpStore(parse_address(parse_url(url)), patience=PATIENCE_SECONDS, why_ended=why_ended)


def _local_token(url: str) -> str | None:
    """The token of a node of this user on this machine."""
    found = local_nodes.find_by_url(url)
    return None if found is None else found.token


_DRIVERS: Mapping[str, OpenDriver] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
} | dict.fromkeys(NODE_SCHEMES, _node)


def _is_valid(conninfo: str) -> bool:
    import psycopg

    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except (psycopg.Error, UnicodeError):
        # The error quotes the invalid part, which may be the password, so it is dropped.
        return False
    return True


def _invalid_url(options: Mapping[str, str]) -> InvalidUrl:
    import psycopg

    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    unknown = [name for name in options if name not in known]
    # After a password, an unknown name may be a part of it.
    if unknown and not any("pass" in name for name in options):
        return InvalidUrl(
            f"a postgresql URL has no option {shown(unknown[0])}: use schema, durability, or an "
            "option of libpq.",
            option=unknown[0],
        )
    return InvalidUrl(
        "PostgreSQL cannot read the URL: write it as "
        "postgresql://user:password@host:5432/database?option=value, and quote special characters "
        "in its parts with %."
    )


def _refuse_options(parts: StoreUrl) -> None:
    if parts.options:
        name = next(iter(parts.options))
        known = {"memory": "durability", "sqlite": "durability or prefix"}[parts.scheme]
        raise InvalidUrl(
            f"a {parts.scheme} URL has no option {shown(name)}: use {known}.", option=name
        )


def migration_script(dialect: DialectName, *, name: str | None = None, after: int = 0) -> str:
    """The SQL that creates the tables, or migrates them from version ``after``; opens no store.

    ``name`` is the schema on PostgreSQL and the prefix on SQLite. On PostgreSQL the script also
    replaces the functions, which may change without the version.
    """
    from headrace.drivers.sql_common.migrations import load_schema, outstanding
    from headrace.drivers.sql_common.statements import check_identifier

    if dialect == "sqlite":
        from headrace.drivers.sqlite import schema as sqlite
        from headrace.drivers.sqlite.store import DIALECT as SQLITE

        prefix = check_identifier("prefix", name or "headrace_")
        missing = outstanding(load_schema(SQLITE, prefix), after, "the script")
        return sqlite.script(prefix, missing) if missing else ""
    _require_psycopg()
    from headrace.drivers.postgres import schema as postgres
    from headrace.drivers.postgres.store import DIALECT as POSTGRES

    schema = check_identifier("schema", name or "headrace")
    return postgres.script(schema, load_schema(POSTGRES, f"{schema}."), after)


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401  # only checks that it is installed
    except ImportError as error:
        raise UnsupportedStore(
            "PostgreSQL needs psycopg: pip install 'headrace[postgres]'."
        ) from error
