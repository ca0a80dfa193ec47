"""Numbered SQL files, applied in order and remembered in a table."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from headrace.drivers.relational.sql import Dialect
from headrace.errors import SchemaTooNew, SchemaTooOld, UnknownStore


class Migration(NamedTuple):
    """One step from a version to the next."""

    version: int
    name: str
    text: str


def migrations(dialect: Dialect, name: str) -> list[Migration]:
    """All migrations of a dialect, in order, with the schema or prefix in place."""
    folder = files("headrace.drivers") / "sql" / dialect.folder / "migrations"
    found = []
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        number, _, title = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), title, dialect.place(file.read_text("utf-8"), name)))
    return found


def outstanding(known: list[Migration], version: int, where: str) -> list[Migration]:
    """What is left to apply at ``version``; refuses tables of a newer Headrace."""
    newest = known[-1].version
    if version > newest:
        raise SchemaTooNew(
            f"the tables in {where} have version {version}; this Headrace knows up to "
            f"{newest}: upgrade the headrace package.",
            version=version,
            newest=newest,
        )
    return [migration for migration in known if migration.version > version]


def refuse_old(version: int, missing: list[Migration], where: str) -> None:
    """Raise if tables exist and are not up to date."""
    if version and missing:
        raise SchemaTooOld(
            f"the tables in {where} have version {version} and need {missing[-1].version}: "
            "connect once with migrate='auto' or run headrace migrate, when no older Headrace "
            "writes there any more.",
            version=version,
            newest=missing[-1].version,
        )


def refuse_absent(version: int, where: str) -> None:
    """Raise if there are no tables, where none may be made."""
    if not version:
        raise UnknownStore(
            f"there are no tables of Headrace in {where}: check the URL, or create them with "
            "headrace migrate.",
            place=where,
        )
