"""How applied migrations are recorded, in SQL that a person may also run by hand."""

from __future__ import annotations

from headrace.drivers.sql_common.migrations import Migration


def table(prefix: str) -> str:
    """The statement that creates the table of applied migrations."""
    return (
        f"create table if not exists {prefix}migration "
        "(version integer primary key, name text not null, applied_at text not null)"
    )


def note(prefix: str, migration: Migration) -> str:
    """The statement that records a migration."""
    values = f"{migration.version}, '{migration.name}', datetime('now')"
    return f"insert into {prefix}migration values ({values})"


def script(prefix: str, missing: list[Migration]) -> str:
    """A script for sqlite3's shell that does what connecting would."""
    steps = [
        f"-- {migration.version}: {migration.name}\n{migration.text.strip()}\n"
        f"{note(prefix, migration)};\n"
        for migration in missing
    ]
    head = f"pragma journal_mode=wal;\nbegin immediate;\n\n{table(prefix)};\n"
    return "\n".join([head, *steps, "commit;\n"])
