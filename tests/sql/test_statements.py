"""Statements in files: the same names everywhere, and each one is valid SQL."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import ExecStatus

import headrace
from headrace.drivers.postgres.advisory_locks import AdvisoryLock
from headrace.drivers.postgres.fastpath.answers import ClaimAnswer
from headrace.drivers.postgres.libpq import numbered
from headrace.drivers.postgres.store import DIALECT as POSTGRES
from headrace.drivers.sql_common import statements as loader
from headrace.drivers.sql_common.statements import Statements
from headrace.drivers.sqlite.store import DIALECT as SQLITE

NAMES = sorted(Statements(SQLITE, "headrace_").texts)
DRIVERS = Path(headrace.__file__).parent / "drivers"


def test_both_dialects_have_the_same_statements() -> None:
    """A statement that exists in one dialect only is a capability nobody declared."""
    ours, theirs = SQLITE._replace(nouns=loader.NOUNS), POSTGRES._replace(nouns=loader.NOUNS)
    assert sorted(Statements(ours, "headrace_").texts) == sorted(
        Statements(theirs, "headrace.").texts
    )


def test_every_statement_is_used_and_every_used_one_exists() -> None:
    """No dead SQL, no call into nothing."""
    drivers = [path for path in DRIVERS.rglob("*.py") if "memory" not in path.parts]
    code = "\n".join(path.read_text() for path in drivers)
    used = set(re.findall(r"\b_?sql\.([a-z_]+)\b", code)) - {"texts"}
    used |= set(re.findall(r"\btexts\[\"([a-z_]+)\"\]", code))
    doctor = POSTGRES._replace(nouns=("doctor",))
    known = Statements(POSTGRES, "headrace.").texts | Statements(doctor, "headrace.").texts
    assert used == {
        *known,
        *NAMES,
        *Statements(SQLITE._replace(nouns=("doctor",)), "headrace_").texts,
    }


def test_no_two_statements_of_a_dialect_have_one_name() -> None:
    """The later one would silently replace the other."""
    for folder in ("sqlite", "postgres"):
        paths = (DRIVERS / folder / "sql").glob("*.sql")
        names = [
            block.partition("\n")[0]
            for path in paths
            for block in path.read_text().split("-- name: ")[1:]
        ]
        assert sorted(names) == sorted(set(names))


def test_every_statement_says_what_it_is_for() -> None:
    """The line below ``-- name:`` is its purpose."""
    for folder in ("sqlite", "postgres"):
        for path in (DRIVERS / folder / "sql").glob("*.sql"):
            for block in path.read_text().split("-- name: ")[1:]:
                assert block.splitlines()[1].startswith("-- "), block.splitlines()[0]


@pytest.mark.parametrize("name", NAMES)
def test_statement_prepares_on_sqlite(name: str, sqlite_url: str) -> None:
    """SQLite compiles the statement against the real tables."""
    headrace.connect(sqlite_url).close()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    text = Statements(SQLITE, "headrace_").texts[name]
    parameters = dict.fromkeys(re.findall(r"(?<!:):([a-z_]+)", text))
    connection.execute(f"explain {text}", parameters)
    connection.close()


def test_statements_prepare_on_postgres(postgres_url: str) -> None:
    """PostgreSQL infers a type for every parameter of every statement."""
    headrace.connect(postgres_url).close()
    url, _, schema = postgres_url.partition("?schema=")
    with psycopg.connect(url, autocommit=True) as connection:
        for name, text in Statements(POSTGRES, f"{schema}.").texts.items():
            result = connection.pgconn.prepare(name.encode(), numbered(text).text)
            assert result.status == ExecStatus.COMMAND_OK, (name, result.error_message)


def test_a_schema_or_prefix_replaces_one_word_only() -> None:
    """Column names and words that contain it stay."""
    assert POSTGRES.place("select headrace.topic, xheadrace.y", "mine.") == (
        "select mine.topic, xheadrace.y"
    )
    assert "my_topic" in Statements(SQLITE, "my_").texts["head"]
    assert "headrace" not in Statements(SQLITE, "my_").texts["head"]


def test_an_unknown_statement_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no statement 'nope'"):
        Statements(SQLITE, "headrace_").nope()


@pytest.mark.parametrize("bad", ["", "Upper", "9x", "a-b", "a;b", 'a"b', "x" * 41])
def test_an_identifier_is_checked(bad: str) -> None:
    """Names that become SQL text are checked."""
    with pytest.raises(headrace.errors.InvalidUrl):
        loader.check_identifier("schema", bad)


def test_claim_functions_answer_in_the_words_of_the_enum() -> None:
    """An answer that the client does not know would be read as a claim."""
    folder = DRIVERS / "postgres" / "sql" / "schema" / "functions"
    texts = [file.read_text() for file in folder.glob("*/*claim*.sql")]
    words = {word for text in texts for word in re.findall(r"(?:word|answer) := '(\w+)'", text)}
    assert words
    assert words <= set(ClaimAnswer)


def test_advisory_locks_in_sql_carry_their_names() -> None:
    """Two locks with one number would wait for each other."""
    known = {f"{lock:d}": f"AdvisoryLock.{lock.name}" for lock in AdvisoryLock}
    call = re.compile(r"pg_(?:try_)?advisory\w*\((\w+)(?: /\* (\S+) \*/)?,")
    found = [
        match
        for path in (DRIVERS / "postgres" / "sql").rglob("*.sql")
        for match in call.findall(path.read_text())
    ]
    assert {name for _, name in found} == set(known.values()) - {"AdvisoryLock.COLLIDED"}
    assert [pair for pair in found if known.get(pair[0]) != pair[1]] == []
