"""Tables that are created automatically, not at all, or by hand."""

import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

import headrace
from headrace.drivers.postgres import schema as postgres_schema
from headrace.drivers.sql_common.migrations import Migration, load_schema
from headrace.drivers.sqlite import store as sqlite_store
from headrace.errors import (
    InvalidUrl,
    SchemaTooNew,
    SchemaTooOld,
    StoreBusy,
    UnknownStore,
    UnsupportedStore,
)
from headrace.stores import migration_script
from headrace.testing.postgres import PrivatePostgres


def path_of(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


def test_off_creates_no_tables(new_url: str) -> None:
    """Only an existing schema can be opened."""
    with pytest.raises(UnknownStore, match=r"no tables of Headrace in .*headrace migrate"):
        headrace.connect(new_url, migrate="off")
    with pytest.raises(UnknownStore):
        headrace.connect(new_url, migrate="off")
    headrace.connect(new_url).close()
    with headrace.connect(new_url, migrate="off") as hr:
        hr.commit("t", {})


def test_off_creates_no_file(sqlite_url: str) -> None:
    with pytest.raises(UnknownStore):
        headrace.connect(sqlite_url, migrate="off")
    assert not path_of(sqlite_url).exists()


def test_off_leaves_a_foreign_file_as_it_is(sqlite_url: str) -> None:
    """Not even its journal mode changes."""
    path = path_of(sqlite_url)
    connection = sqlite3.connect(path)
    connection.execute("create table theirs (n integer)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UnknownStore):
        headrace.connect(sqlite_url, migrate="off")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    path.write_text("no database at all, whatever else it may be")
    with pytest.raises(UnsupportedStore):
        headrace.connect(sqlite_url, migrate="off")


def test_off_upgrades_nothing(durable_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    headrace.connect(durable_url).close()
    for module in (postgres_schema, sqlite_store):
        ours = load_schema(module.DIALECT, "x_")
        newest = ours.version
        extra = Migration(newest + 1, "extra", "select 1;")
        known = ours._replace(version=newest + 1, migrations=(*ours.migrations, extra))
        monkeypatch.setattr(module, "load_schema", lambda *_, known=known: known)
    with pytest.raises(SchemaTooOld, match="run headrace migrate") as caught:
        headrace.connect(durable_url, migrate="off")
    assert (caught.value.version, caught.value.newest) == (newest, newest + 1)


def test_off_refuses_newer_tables(durable_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    headrace.connect(durable_url).close()
    for module in (postgres_schema, sqlite_store):
        known = load_schema(module.DIALECT, "x_")._replace(version=9)
        monkeypatch.setattr(module, "load_schema", lambda *_, known=known: known)
    with pytest.raises(SchemaTooNew):
        headrace.connect(durable_url, migrate="off")


def test_off_on_a_locked_file_is_busy(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program has an exclusive lock, which even readers must respect."""
    other = sqlite3.connect(path_of(sqlite_url), isolation_level=None)
    other.execute("create table theirs (n integer)")
    other.execute("begin exclusive")
    monkeypatch.setattr("headrace.drivers.sqlite.connections.BUSY_MS", 1)
    with pytest.raises(StoreBusy):
        headrace.connect(sqlite_url, migrate="off")
    other.close()


def test_the_script_for_sqlite_does_what_connecting_does(tmp_path: Path) -> None:
    """Every table, index and view, and the stored version."""
    by_hand, by_us = tmp_path / "by_hand.db", tmp_path / "by_us.db"
    connection = sqlite3.connect(by_hand)
    connection.executescript(migration_script("sqlite"))
    connection.close()
    headrace.connect(f"sqlite:///{by_us}").close()
    made = []
    for path in (by_hand, by_us):
        connection = sqlite3.connect(path)
        tables = connection.execute("select type, name, sql from sqlite_master").fetchall()
        notes = connection.execute("select version, name from headrace_migration").fetchall()
        made.append((sorted(tables, key=str), notes))
        connection.close()
    assert made[0] == made[1]
    with headrace.connect(f"sqlite:///{by_hand}", migrate="off") as hr:
        hr.commit("t", {})


OBJECTS = """
select table_name, column_name, data_type, column_default
from information_schema.columns where table_schema = '{schema}'
union all select 'index', indexname, replace(indexdef, '{schema}.', ''), ''
from pg_indexes where schemaname = '{schema}'
union all select 'note', version::text, name, '' from {schema}.migration
order by 1, 2
"""


def test_the_script_for_postgres_does_what_connecting_does(
    postgres: PrivatePostgres, postgres_url: str, tmp_path: Path
) -> None:
    """Run by psql, as its users will."""
    headrace.connect(postgres_url).close()
    schema = postgres_url.rpartition("=")[2]
    by_hand = f"{schema}_h"
    script = tmp_path / "up.sql"
    script.write_text(migration_script("postgres", name=by_hand))
    psql = postgres.binaries / "psql"
    subprocess.run(
        [psql if psql.exists() else "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f", script],
        env={**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(postgres.port)}
        | {"PGUSER": "headrace", "PGDATABASE": "postgres"},
        check=True,
        capture_output=True,
    )
    try:
        ours = postgres.execute(OBJECTS.format(schema=schema))
        theirs = postgres.execute(OBJECTS.format(schema=by_hand))
        assert len(ours) > 30
        assert [tuple(str(v).replace(by_hand, schema) for v in row) for row in theirs] == [
            tuple(map(str, row)) for row in ours
        ]
        url = postgres_url.replace(f"schema={schema}", f"schema={by_hand}")
        with headrace.connect(url, migrate="off") as hr:
            hr.commit("t", {})
    finally:
        postgres.execute(f"drop schema {by_hand} cascade")


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_script_can_go_on_from_a_version(dialect: str) -> None:
    whole = migration_script(dialect)
    assert "create table" in whole
    newest = max(map(int, re.findall(r"^-- (\d+): ", whole, re.MULTILINE)))
    rest = migration_script(dialect, after=newest)
    assert "create table" not in rest.replace("create table if not exists", "")
    assert ("create or replace function" in rest) == (dialect == "postgres")
    with pytest.raises(SchemaTooOld, match="before the first release"):
        migration_script(dialect, after=9)
    with pytest.raises(SchemaTooNew):
        migration_script(dialect, after=newest + 1)
    with pytest.raises(InvalidUrl):
        migration_script(dialect, name="no-good")
    assert "mine" in migration_script(dialect, name="mine")


def test_settings_of_a_newer_client_are_refused_with_the_next_step(tmp_path: Path) -> None:
    """A client that ignored a setting would break what it promises."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with headrace.connect(url) as hr:
        hr.queues.create("q")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute(
            "update headrace_queue set settings = json_set(settings, '$.max_payload_bytes', 5)"
        )
    with headrace.connect(url) as hr:
        for use in (
            lambda: hr.push("q", 1),
            lambda: hr.queue("q").claim(),
            lambda: hr.queues.create("q"),
        ):
            with pytest.raises(SchemaTooNew, match=r"max_payload_bytes.*upgrade this client"):
                use()
