"""Statements in files: the same names everywhere, and each one is valid SQL."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

import headrace
from headrace.drivers.postgres.store import DIALECT as POSTGRES
from headrace.drivers.postgres.straight import numbered
from headrace.drivers.relational import sql as loader
from headrace.drivers.relational.sql import Sql
from headrace.drivers.sqlite.store import DIALECT as SQLITE

NAMES = sorted(Sql(SQLITE, "headrace_").texts)
SOURCES = Path(headrace.__file__).parent / "drivers" / "relational"


def test_both_dialects_have_the_same_statements() -> None:
    """A statement that exists in one dialect only is a capability nobody declared."""
    ours, theirs = SQLITE._replace(nouns=loader.NOUNS), POSTGRES._replace(nouns=loader.NOUNS)
    assert sorted(Sql(ours, "headrace_").texts) == sorted(Sql(theirs, "headrace.").texts)


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    """No dead SQL, no call into nothing."""
    drivers = [path for path in SOURCES.parent.rglob("*.py") if "memory" not in path.parts]
    code = "\n".join(path.read_text() for path in drivers)
    used = set(re.findall(r"\b_?sql\.([a-z_]+)\b", code)) - {"texts"}
    used |= set(re.findall(r"\btexts\[\"([a-z_]+)\"\]", code))
    doctor = POSTGRES._replace(nouns=("doctor",))
    known = Sql(POSTGRES, "headrace.").texts | Sql(doctor, "headrace.").texts
    assert used == {*known, *NAMES, *Sql(SQLITE._replace(nouns=("doctor",)), "headrace_").texts}


def test_no_two_statements_of_a_dialect_have_one_name() -> None:
    """The later one would take the place of the other, in silence."""
    for folder in ("sqlite", "postgres"):
        paths = (SOURCES.parent / "sql" / folder).glob("*.sql")
        names = [
            block.partition("\n")[0]
            for path in paths
            for block in path.read_text().split("-- name: ")[1:]
        ]
        assert sorted(names) == sorted(set(names))


def test_every_statement_says_what_it_is_for() -> None:
    """The line below ``-- name:`` is its purpose."""
    for folder in ("sqlite", "postgres"):
        for path in (SOURCES.parent / "sql" / folder).glob("*.sql"):
            for block in path.read_text().split("-- name: ")[1:]:
                assert block.splitlines()[1].startswith("-- "), block.splitlines()[0]


@pytest.mark.parametrize("name", NAMES)
def test_statement_prepares_on_sqlite(name: str, sqlite_url: str) -> None:
    """SQLite compiles the statement against the real tables."""
    headrace.connect(sqlite_url).close()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    text = Sql(SQLITE, "headrace_").texts[name]
    parameters = dict.fromkeys(re.findall(r"(?<!:):([a-z_]+)", text))
    connection.execute(f"explain {text}", parameters)
    connection.close()


def test_statements_prepare_on_postgres(postgres_url: str) -> None:
    """PostgreSQL infers a type for every parameter of every statement."""
    headrace.connect(postgres_url).close()
    url, _, schema = postgres_url.partition("?schema=")
    with psycopg.connect(url, autocommit=True) as connection:
        for name, text in Sql(POSTGRES, f"{schema}.").texts.items():
            connection.execute(b"prepare %s as %s" % (name.encode(), numbered(text).text))


def test_a_schema_or_prefix_replaces_one_word_only() -> None:
    """Column names and words that contain it stay."""
    assert POSTGRES.place("select headrace.topic, xheadrace.y", "mine.") == (
        "select mine.topic, xheadrace.y"
    )
    assert "my_topic" in Sql(SQLITE, "my_").texts["head"]
    assert "headrace" not in Sql(SQLITE, "my_").texts["head"]


def test_an_unknown_statement_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no statement 'nope'"):
        Sql(SQLITE, "headrace_").nope()


@pytest.mark.parametrize("bad", ["", "Upper", "9x", "a-b", "a;b", 'a"b', "x" * 41])
def test_an_identifier_is_checked(bad: str) -> None:
    """What stands in SQL text is never taken on trust."""
    with pytest.raises(headrace.errors.InvalidUrl):
        loader.check_identifier("schema", bad)
