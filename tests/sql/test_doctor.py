"""The statements of the diagnosis: each dialect has its own, all of them valid and used."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

import headrace
from headrace.drivers.postgres.store import DIALECT as POSTGRES
from headrace.drivers.sql_common.statements import Dialect, Statements
from headrace.drivers.sqlite.store import DIALECT as SQLITE

DRIVERS = Path(headrace.__file__).parent / "drivers"


def statements(dialect: Dialect, name: str) -> dict[str, str]:
    return Statements(dialect._replace(nouns=("doctor",)), name).texts


@pytest.mark.parametrize("dialect", [POSTGRES, SQLITE], ids=lambda dialect: dialect.folder)
def test_every_statement_is_used_and_every_used_one_exists(dialect: Dialect) -> None:
    code = (DRIVERS / dialect.folder / "doctor.py").read_text()
    used = set(re.findall(r"\bsql\.([a-z_]+)\(", code))
    assert used == set(statements(dialect, "x_"))


def test_no_name_is_used_twice() -> None:
    """A statement of the diagnosis is not one of the store's under the same name."""
    for dialect in (POSTGRES, SQLITE):
        assert not set(statements(dialect, "x_")) & set(Statements(dialect, "x_").texts)


def test_statements_run_on_sqlite(sqlite_url: str) -> None:
    headrace.connect(sqlite_url).close()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.execute("pragma query_only = on")
    for text in statements(SQLITE, "headrace_").values():
        connection.execute(text, {"now": None}).fetchall()
    connection.close()


def test_statements_run_on_postgres(postgres_url: str) -> None:
    """In a transaction that may only read, as on a replica."""
    headrace.connect(postgres_url).close()
    url, _, schema = postgres_url.partition("?schema=")
    with psycopg.connect(url) as connection:
        connection.read_only = True
        for text in statements(POSTGRES, f"{schema}.").values():
            names = re.findall(r"%\(([a-z_]+)\)s", text)
            values = {"now": None, "schema": schema}
            parameters = {name: values[name] for name in names}
            connection.execute(text.encode(), parameters or None).fetchall()
