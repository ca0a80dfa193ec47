"""Statements sent straight through libpq."""

import asyncio

import psycopg
import pytest

import headrace
from headrace.drivers.postgres.sending import OwnConnection
from headrace.drivers.postgres.straight import PREPARE_AFTER, Straight, is_fit, numbered
from headrace.drivers.relational.sql import Statement

ECHO = (
    "select %(text)s::text as text, %(number)s::int as number, 5 %% 3 as rest, %(text)s::text as t"
)
LARGE = [{"n": n, "text": "x" * 200_000} for n in range(40)]


@pytest.fixture
def connection(postgres):
    with OwnConnection.connect(postgres.url, autocommit=True) as connection:
        yield connection


def test_parameters_are_numbered_once_each():
    """And a name for the statement is good in any session: it says what it is."""
    query = numbered(ECHO)
    assert query.text == b"select $1::text as text, $2::int as number, 5 % 3 as rest, $1::text as t"
    assert query.parameters == ("text", "number")
    assert query.name == numbered(ECHO).name != numbered("select 1").name


@pytest.mark.parametrize("text", ["", "snow ❄", "it's", "a\\b", None])
def test_the_answer_is_the_same_prepared_or_not(connection, text):
    straight = Straight(connection)
    for number in range(PREPARE_AFTER + 2):
        rows = straight.execute(Statement("echo", ECHO, {"text": text, "number": number}))
        assert rows == [{"text": text, "number": number, "rest": 2, "t": text}]
    [[names]] = connection.execute("select array_agg(name) from pg_prepared_statements")
    assert names == [numbered(ECHO).name.decode()]


def test_without_prepared_statements_none_is_prepared(connection):
    """As behind a pooler that would mix them up."""
    connection.prepare_threshold = None
    straight = Straight(connection)
    for number in range(PREPARE_AFTER + 2):
        straight.execute(Statement("echo", ECHO, {"text": "", "number": number}))
    [[count]] = connection.execute("select count(*) from pg_prepared_statements")
    assert count == 0


def test_an_error_leaves_the_connection_usable(connection):
    straight = Straight(connection)
    for _ in range(PREPARE_AFTER + 2):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            straight.execute(Statement("echo", ECHO, {"text": "", "number": "many"}))
    assert straight.execute(Statement("echo", ECHO, {"text": "", "number": 1}))[0]["number"] == 1


def test_a_text_with_nul_is_refused_and_not_cut(connection):
    with pytest.raises(psycopg.DataError, match="NUL"):
        Straight(connection).execute(Statement("echo", ECHO, {"text": "a\0b", "number": 1}))


def both(connection, face, first, second):
    """Send two statements, one behind the other."""
    if face == "blocking":
        return Straight(connection).execute_both(first, second)

    async def asend():
        async with await psycopg.AsyncConnection.connect(
            connection.info.dsn, autocommit=True
        ) as other:
            straight = Straight(other)
            try:
                return await straight.aexecute_both(first, second)
            finally:
                # It is as usable as before.
                assert await straight.aexecute(ECHO_ONE) == ONE

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


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_one_statement_behind_another(connection, notes, face):
    """Both are done, and each has its answer."""
    for turn in range(PREPARE_AFTER + 2):
        assert both(connection, face, ECHO_ONE, NOTE) == [ONE, [{"text": "done"}]]
        assert notes() == ["done"] * (turn + 1)


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_each_of_two_is_a_transaction(connection, notes, face):
    """If one fails the other is done all the same, and whoever sent them hears of it."""
    for first, second in ((WRONG, NOTE), (NOTE, WRONG)):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            both(connection, face, first, second)
    assert notes() == ["done", "done"]
    assert Straight(connection).execute(ECHO_ONE) == ONE


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_the_end_of_a_connection_between_two(connection, face):
    """No answer is taken for one that was not given."""
    end = Statement("end", "select pg_terminate_backend(pg_backend_pid())", {})
    with pytest.raises(psycopg.OperationalError):
        both(connection, face, end, ECHO_ONE)


def test_lists_go_by_a_cursor():
    assert not is_fit(Statement("s", "select 1", {"ids": ["a"]}))
    assert is_fit(Statement("s", "select 1", {"a": "", "b": 1, "c": True, "d": None}))


def test_what_does_not_fit_into_the_buffers_is_sent_piece_by_piece(postgres_url):
    with headrace.connect(postgres_url) as hr:
        assert len(hr.commit_many("t", LARGE)) == len(LARGE)
        assert [record.body for record in hr.range("t")] == LARGE

    async def commit():
        async with await headrace.aconnect(postgres_url) as hr:
            await hr.commit_many("u", LARGE)
            return [record.body for record in await hr.range("u")]

    assert asyncio.run(commit()) == LARGE


def test_a_connection_in_another_encoding_goes_by_cursors(postgres_url):
    with headrace.connect(f"{postgres_url}&client_encoding=latin1") as hr:
        hr.commit("t", {"text": "é"})
        assert [record.body for record in hr.range("t")] == [{"text": "é"}]
