"""Functions on the server: of which release they are, and which stores replace them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
from headrace.drivers.postgres import functions
from headrace.drivers.postgres.functions import FunctionSet, signature
from headrace.drivers.postgres.store import DIALECT
from headrace.drivers.sql_common.migrations import load_schema
from headrace.errors import StoreError
from headrace.testing.postgres import PrivatePostgres

CATALOGUE = """
select lower(concat(proname, '(', pg_get_function_arguments(oid), ') ', pg_get_function_result(oid)))
from pg_proc where pronamespace = to_regnamespace('{}')
"""
OTHER = """
create or replace function {s}.token_of(queue_id integer, item_id bigint)
returns text language sql as 'select null::text'
"""


class Database:
    """A schema with our tables, and what is in it."""

    def __init__(self, postgres: PrivatePostgres, url: str) -> None:
        self._postgres = postgres
        self.url = url
        self.schema = url.rpartition("=")[2]
        headrace.connect(url).close()

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        return list(self._postgres.execute(statement.format(s=self.schema)))

    def signatures(self) -> set[object]:
        return {row[0] for row in self.execute(CATALOGUE.format(self.schema))}

    def source(self, name: str) -> object:
        [[found]] = self.execute(
            f"select prosrc from pg_proc where proname = '{name}'"
            " and pronamespace = to_regnamespace('{s}')"
        )
        return found

    def connect(self, migrate: headrace.stores.Migrate) -> None:
        headrace.connect(self.url, migrate=migrate).close()

    def finding(self) -> tuple[str, str]:
        with headrace.connect(self.url) as hr:
            [found] = [each for each in hr.admin.diagnose() if each.check == "functions"]
        return found.verdict, found.found


@pytest.fixture
def database(postgres: PrivatePostgres, new_postgres_url: str) -> Database:
    return Database(postgres, new_postgres_url)


@pytest.fixture
def other_functions(database: Database) -> Iterator[str]:
    """The functions of another release: one does something else, and one is no longer there."""
    database.execute(
        "create function {s}.old_one(n integer) returns integer language sql as 'select 1'"
    )
    database.execute(OTHER)
    texts = load_schema(DIALECT, f"{database.schema}.").functions
    ours = FunctionSet(database.schema, texts)
    theirs = FunctionSet(
        database.schema,
        (*texts, "create function x.old_one(n integer) returns integer language sql"),
    )
    assert theirs.digest != ours.digest
    database.execute(theirs.note().replace("{", "{{").replace("}", "}}"))
    return "select null::text"


def test_signatures_are_those_of_the_catalogue(database: Database) -> None:
    """Otherwise functions would be dropped and created where they could be replaced."""
    texts = load_schema(DIALECT, f"{database.schema}.").functions
    assert {signature(text) for text in texts} == database.signatures()
    assert database.finding()[0] == "ok"


@pytest.mark.parametrize("migrate", ["off", "create"])
def test_a_plain_connect_leaves_functions_alone(
    database: Database, other_functions: str, migrate: headrace.stores.Migrate
) -> None:
    database.connect(migrate)
    assert database.source("token_of") == other_functions
    verdict, found = database.finding()
    assert (verdict, "has others" in found) == ("warn", True)


def test_auto_replaces_functions_and_drops_those_that_are_gone(
    database: Database, other_functions: str
) -> None:
    """Only functions that Headrace has installed: others in the schema are not ours."""
    database.execute("create function {s}.of_the_user() returns integer language sql as 'select 1'")
    database.execute("create function {s}.clock(text) returns integer language sql as 'select 1'")
    database.connect("auto")
    assert database.source("token_of") != other_functions
    texts = load_schema(DIALECT, f"{database.schema}.").functions
    kept = {"of_the_user() integer", "clock(text) integer"}
    assert database.signatures() == {signature(text) for text in texts} | kept
    assert database.finding()[0] == "ok"


def test_clients_that_migrate_together_replace_functions_once(
    database: Database, other_functions: str
) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(database.connect, ["auto"] * 4))
    assert database.source("token_of") != other_functions
    assert database.finding()[0] == "ok"


def test_functions_of_a_newer_release_are_not_replaced(
    database: Database, other_functions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two releases with migrate='auto' do not replace each other's functions in turns."""
    database.execute("update {s}.function_set set release = '99.0'")
    database.connect("auto")
    assert database.source("token_of") == other_functions
    verdict, found = database.finding()
    assert (verdict, "newer than this one" in found) == ("ok", True)
    monkeypatch.setattr(functions, "release", lambda: "99.0.1")
    database.connect("auto")
    assert database.source("token_of") != other_functions
    assert database.execute("select release from {s}.function_set") == [("99.0.1",)]


@pytest.mark.parametrize(
    "damage",
    [
        "drop function {s}.token_of",
        OTHER,
        "alter function {s}.token_of reset enable_seqscan",
        "delete from {s}.function_set",
    ],
)
def test_damaged_functions_are_noticed_and_mended(database: Database, damage: str) -> None:
    whole = database.source("token_of")
    database.execute(damage)
    assert database.finding()[0] == "fail"
    database.connect("create")
    assert database.finding()[0] == "fail"
    database.connect("auto")
    assert database.finding()[0] == "ok"
    assert database.source("token_of") == whole


def test_a_function_with_another_result_is_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``create or replace`` alone would refuse it."""
    ours = load_schema(DIALECT, f"{database.schema}.")
    text = next(text for text in ours.functions if "token_of(" in text)
    other = text.replace("returns text", "returns json").replace("i.token from", "null::json from")
    changed = ours._replace(
        functions=tuple(other if each == text else each for each in ours.functions)
    )
    monkeypatch.setattr("headrace.drivers.postgres.schema.load_schema", lambda *_: changed)
    database.connect("auto")
    assert signature(other) in database.signatures()
    assert signature(text) not in database.signatures()
    monkeypatch.undo()
    database.connect("auto")
    assert signature(text) in database.signatures()


def test_functions_are_replaced_all_or_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = load_schema(DIALECT, f"{database.schema}.")
    broken = ours._replace(
        functions=(*ours.functions[:-1], "create function x.y() returns nonsense language sql")
    )
    monkeypatch.setattr("headrace.drivers.postgres.schema.load_schema", lambda *_: broken)
    before = database.signatures()
    with pytest.raises(StoreError):
        database.connect("auto")
    assert database.signatures() == before
    monkeypatch.undo()
    assert database.finding()[0] == "ok"


@pytest.mark.parametrize(
    ("other", "newer"),
    [("0.1.0", False), ("0.0.9", False), ("0.1.1", True), ("0.10", True), ("0.1.0rc1", False)],
)
def test_releases_are_compared_by_their_numbers(
    monkeypatch: pytest.MonkeyPatch, other: str, newer: bool
) -> None:
    monkeypatch.setattr(functions, "release", lambda: "0.1.0")
    assert functions.is_newer(other) == newer
