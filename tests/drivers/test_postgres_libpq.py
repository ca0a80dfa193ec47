"""Statements sent directly through libpq."""

import asyncio

import psycopg
import pytest

import headrace
from headrace.drivers.postgres.libpq import (
    PREPARE_AFTER,
    LibpqConnection,
    Unconfirmed,
    is_fit,
    numbered,
)
from headrace.drivers.postgres.round_trip import OwnConnection
from headrace.drivers.sql_common.statements import Statement

ECHO = (
    "select %(text)s::text as text, %(number)s::int as number, 5 %% 3 as rest, %(text)s::text as t"
)
LARGE = [{"n": n, "text": "x" * 200_000} for n in range(40)]


@pytest.fixture
def connection(postgres):
    with OwnConnection.connect(postgres.url, autocommit=True) as connection:
        yield connection


def test_parameters_are_numbered_once_each():
    """The name of a statement is derived from its content, so it is valid in any session."""
    query = numbered(ECHO)
    assert query.text == b"select $1::text as text, $2::int as number, 5 % 3 as rest, $1::text as t"
    assert query.parameters == ("text", "number")
    assert query.name == numbered(ECHO).name != numbered("select 1").name


@pytest.mark.parametrize("text", ["", "snow ❄", "it's", "a\\b", None])
def test_the_answer_is_the_same_prepared_or_not(connection, text):
    libpq = LibpqConnection(connection)
    for number in range(PREPARE_AFTER + 2):
        rows = libpq.execute(Statement("echo", ECHO, {"text": text, "number": number}))
        assert rows == [{"text": text, "number": number, "rest": 2, "t": text}]
    [[names]] = connection.execute("select array_agg(name) from pg_prepared_statements")
    assert names == [numbered(ECHO).name.decode()]


def test_without_prepared_statements_none_is_prepared(connection):
    """As behind a pooler that would mix them up."""
    connection.prepare_threshold = None
    libpq = LibpqConnection(connection)
    for number in range(PREPARE_AFTER + 2):
        libpq.execute(Statement("echo", ECHO, {"text": "", "number": number}))
    [[count]] = connection.execute("select count(*) from pg_prepared_statements")
    assert count == 0


def test_an_error_leaves_the_connection_usable(connection):
    libpq = LibpqConnection(connection)
    for _ in range(PREPARE_AFTER + 2):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            libpq.execute(Statement("echo", ECHO, {"text": "", "number": "many"}))
    assert libpq.execute(Statement("echo", ECHO, {"text": "", "number": 1}))[0]["number"] == 1


def test_a_text_with_nul_is_refused_and_not_cut(connection):
    with pytest.raises(psycopg.DataError, match="NUL"):
        LibpqConnection(connection).execute(Statement("echo", ECHO, {"text": "a\0b", "number": 1}))


def both(connection, mode, first, second):
    """Send two statements, one after the other."""
    if mode == "blocking":
        return LibpqConnection(connection).execute_both(first, second)

    async def asend():
        async with await psycopg.AsyncConnection.connect(
            connection.info.dsn, autocommit=True
        ) as other:
            libpq = LibpqConnection(other)
            try:
                return await libpq.aexecute_both(first, second)
            finally:
                # It is as usable as before.
                assert await libpq.aexecute(ECHO_ONE) == ONE

    return asyncio.run(asend())


ECHO_ONE = Statement("echo", ECHO, {"text": "a", "number": 1})
ONE = [{"text": "a", "number": 1, "rest": 2, "t": "a"}]
NOTE = Statement("note", "insert into note values (%(text)s) returning *", {"text": "done"})
WRONG = Statement("echo", ECHO, {"text": "", "number": "many"})


@pytest.fixture
def notes(connection):
    connection.execute("create table note (text text)")
    yield lambda: [row[0] for row in connection.execute("select text from note").fetchall()]
    connection.execute("drop table note")


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_two_statements_in_one_round_trip(connection, notes, mode):
    """Both run, and each has its answer."""
    for turn in range(PREPARE_AFTER + 2):
        assert both(connection, mode, ECHO_ONE, NOTE) == [ONE, [{"text": "done"}]]
        assert notes() == ["done"] * (turn + 1)


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_each_of_two_is_a_transaction(connection, notes, mode):
    """If one fails, the other still runs, and the caller learns of the failure."""
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        both(connection, mode, WRONG, NOTE)
    with pytest.raises(Unconfirmed) as caught:
        both(connection, mode, NOTE, WRONG)
    assert isinstance(caught.value.__cause__, psycopg.errors.InvalidTextRepresentation)
    assert notes() == ["done", "done"]
    assert LibpqConnection(connection).execute(ECHO_ONE) == ONE


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_connection_that_ends_between_two_statements(connection, mode):
    """An answer that was not received is never assumed."""
    end = Statement("end", "select pg_terminate_backend(pg_backend_pid())", {})
    with pytest.raises(psycopg.OperationalError):
        both(connection, mode, end, ECHO_ONE)


def test_lists_use_a_cursor():
    assert not is_fit(Statement("s", "select 1", {"ids": ["a"]}))
    assert is_fit(Statement("s", "select 1", {"a": "", "b": 1, "c": True, "d": None}))


def test_large_statements_are_sent_in_pieces(postgres_url):
    with headrace.connect(postgres_url) as hr:
        assert len(hr.commit_many("t", LARGE)) == len(LARGE)
        assert [record.body for record in hr.range("t")] == LARGE

    async def commit():
        async with await headrace.aconnect(postgres_url) as hr:
            await hr.commit_many("u", LARGE)
            return [record.body for record in await hr.range("u")]

    assert asyncio.run(commit()) == LARGE
