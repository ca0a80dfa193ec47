"""The tables of a dialect: created as a whole in a new database, migrated in steps in an old one.

A dialect's ``sql/schema`` folder has the newest schema: ``tables.sql`` and, on servers with
functions, ``functions/<name>.sql`` and ``triggers.sql``. ``sql/migrations`` has numbered scripts
that lead there from older versions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from headrace.contract.op import Steps
from headrace.drivers.sql_common.statements import Dialect, Statement
from headrace.errors import SchemaTooNew, SchemaTooOld, UnknownStore

FIRST_VERSION = 10
"""Versions 1 to 9 were never released, and no migration leads from them."""

_MADE = re.compile(r"^create (?:unlogged )?table (\S+)", re.MULTILINE)
# Statements of functions are indented.
_FILLED = re.compile(r"^insert into (\S+)", re.MULTILINE)


class Migration(NamedTuple):
    """One step from a version to the next, or the whole schema in a new database."""

    version: int
    name: str
    text: str


class Schema(NamedTuple):
    """What a store's tables and functions are made from, with the schema or prefix in place."""

    version: int
    tables: str
    functions: tuple[str, ...]
    triggers: str
    migrations: tuple[Migration, ...]

    @property
    def creation(self) -> Migration:
        """The whole schema, for a database without tables."""
        text = "\n".join(filter(None, (self.tables, *self.functions, self.triggers)))
        return Migration(self.version, "schema", text)


def load_schema(dialect: Dialect, name: str) -> Schema:
    """The schema of a dialect, for the schema or prefix ``name``."""
    found = _read(dialect)
    return found._replace(
        tables=dialect.place(found.tables, name),
        functions=tuple(dialect.place(text, name) for text in found.functions),
        triggers=dialect.place(found.triggers, name),
        migrations=tuple(m._replace(text=dialect.place(m.text, name)) for m in found.migrations),
    )


@cache
def _read(dialect: Dialect) -> Schema:
    folder = files("headrace.drivers") / dialect.folder / "sql"
    functions = folder / "schema" / "functions"
    triggers = folder / "schema" / "triggers.sql"
    migrations = []
    for file in sorted((folder / "migrations").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            number, _, title = file.name.removesuffix(".sql").partition("_")
            migrations.append(Migration(int(number), title, file.read_text("utf-8")))
    return Schema(
        version=migrations[-1].version if migrations else FIRST_VERSION,
        tables=(folder / "schema" / "tables.sql").read_text("utf-8"),
        functions=tuple(
            file.read_text("utf-8")
            for file in sorted(
                (file for group in functions.iterdir() for file in group.iterdir()),
                key=lambda f: f.name,
            )
        )
        if functions.is_dir()
        else (),
        triggers=triggers.read_text("utf-8") if triggers.is_file() else "",
        migrations=tuple(migrations),
    )


class Expected(NamedTuple):
    """The tables that a schema must have, by their whole names."""

    tables: tuple[str, ...]
    # Those of them that always have a row.
    filled: tuple[str, ...]


def expected(schema: Schema) -> Expected:
    """Which tables a schema has, and which of them have rows from the start."""
    return Expected(tuple(_MADE.findall(schema.tables)), tuple(_FILLED.findall(schema.tables)))


def absent(wanted: Expected, found: Collection[str]) -> Steps[list[str]]:
    """Which tables are missing; if none is, which of them lack the row that they must have."""
    missing = [name for name in wanted.tables if name not in found]
    if missing:
        return missing
    for name in wanted.filled:
        counted = Statement("rows", f"select count(*) as count from {name}", {})
        [row] = yield counted
        if not row["count"]:
            missing.append(f"the row of {name}")
    return missing


def outstanding(schema: Schema, version: int, where: str) -> list[Migration]:
    """The migrations to apply at ``version``; 0 means that there are no tables.

    Refuses tables of a newer Headrace, and those of versions that were never released.
    """
    if version > schema.version:
        raise SchemaTooNew(
            f"the tables in {where} have version {version}; this Headrace knows up to "
            f"{schema.version}: upgrade the headrace package.",
            version=version,
            newest=schema.version,
        )
    if not version:
        return [schema.creation]
    if version < FIRST_VERSION:
        raise SchemaTooOld(
            f"the tables in {where} have version {version}, from before the first release, and "
            f"cannot be migrated to {schema.version}: use a new database, schema or prefix, and "
            "copy what you need with the Headrace that made them; or drop them.",
            version=version,
            newest=schema.version,
        )
    return [migration for migration in schema.migrations if migration.version > version]


def refuse_old(version: int, missing: list[Migration], where: str) -> None:
    """Raise if tables exist and are not up to date."""
    if version and missing:
        raise SchemaTooOld(
            f"the tables in {where} have version {version} and need {missing[-1].version}: "
            "connect once with migrate='auto' or run headrace migrate, when no older Headrace "
            "writes there any longer.",
            version=version,
            newest=missing[-1].version,
        )


def refuse_absent(version: int, where: str) -> None:
    """Raise if there are no tables and none may be made."""
    if not version:
        raise UnknownStore(
            f"there are no tables of Headrace in {where}: check the URL, or create them with "
            "headrace migrate.",
            place=where,
        )
