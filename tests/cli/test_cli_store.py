"""``headrace migrate``, ``maintain``, ``doctor``, ``config``, and what all commands share."""

import sqlite3
import typing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from run_cli import Cli, on

import headrace
from headrace.cli import doctor
from headrace.cli.command import CommandSession, run_guarded
from headrace.client._sync.admin import Admin
from headrace.client._sync.procs import Procs
from headrace.drivers.postgres import doctor as postgres_diagnosis
from headrace.drivers.postgres import schema as postgres_schema
from headrace.drivers.sql_common.migrations import Migration, load_schema
from headrace.drivers.sqlite import store as sqlite_store
from headrace.model.maintenance import MaintenanceReport
from headrace.stores import migration_script
from headrace.testing.clocks import FakeClock
from headrace.testing.postgres import PrivatePostgres

NEWEST = load_schema(sqlite_store.DIALECT, "headrace_").version
# A node changes the tables of its store itself.
WITHOUT_NODE = pytest.mark.parametrize("durable_url", ["sqlite", "postgres"], indirect=True)
UNREACHABLE = "postgresql://me:secret@127.0.0.1:1/db"


def execute(url: str, sqlite: str, postgres: str) -> None:
    """Run a statement directly, without Headrace."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        with connection:
            connection.execute(sqlite)
        connection.close()
        return
    plain, _, schema = url.partition("?schema=")
    with psycopg.connect(plain, autocommit=True) as session:
        session.execute(postgres.format(schema=schema).encode())


@pytest.fixture
def from_the_future(durable_url: str) -> None:
    """The tables of a newer Headrace."""
    headrace.connect(durable_url).close()
    execute(
        durable_url,
        "insert into headrace_migration values (99, 'future', '')",
        "insert into {schema}.migration values (99, 'future')",
    )


def test_migrate_creates_the_tables(bare: Cli, new_url: str) -> None:
    each = on(bare, new_url)
    assert each("migrate") == (0, f"created the tables, at version {NEWEST}\n", "")
    assert each("migrate") == (0, f"the tables are at version {NEWEST} already\n", "")
    assert each("migrate", "--json").json == {
        "from": NEWEST,
        "to": NEWEST,
        "functions_replaced": False,
    }
    headrace.connect(new_url, migrate="off").close()


def test_migrate_reports_functions_that_it_replaced(bare: Cli, postgres_url: str) -> None:
    """Functions change without a new version of the tables."""
    each = on(bare, postgres_url)
    each("migrate")

    def change_function() -> None:
        execute(postgres_url, "", "alter function {schema}.token_of(integer, bigint) stable")

    change_function()
    assert each("migrate").out.splitlines() == [
        f"the tables are at version {NEWEST} already",
        "replaced the functions by those of this release",
    ]
    change_function()
    assert each("migrate", "--json").json["functions_replaced"]
    assert not each("migrate", "--json").json["functions_replaced"]


@WITHOUT_NODE
def test_migrate_upgrades_old_tables(
    each: Cli, durable_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings do not matter: the command asks for it."""
    each("migrate")
    name = f"{durable_url.rpartition('=')[2]}." if "schema=" in durable_url else "headrace_"
    for module in (postgres_schema, sqlite_store):
        extra = Migration(NEWEST + 1, "extra", f"create table {name}extra (n integer);")
        ours = load_schema(module.DIALECT, name)
        known = ours._replace(version=NEWEST + 1, migrations=(*ours.migrations, extra))
        monkeypatch.setattr(module, "load_schema", lambda *_, known=known: known)
    looked = each("topic", "ls")
    assert (looked.code, f"need {NEWEST + 1}" in looked.err, "headrace migrate" in looked.err) == (
        1,
        True,
        True,
    )
    monkeypatch.setenv("HEADRACE_MIGRATE", "off")
    assert each("migrate", "--json").json == {
        "from": NEWEST,
        "to": NEWEST + 1,
        "functions_replaced": "schema=" in durable_url,
    }


@WITHOUT_NODE
def test_migrate_refuses_tables_from_before_the_first_release(each: Cli, durable_url: str) -> None:
    each("migrate")
    execute(
        durable_url,
        "update headrace_migration set version = 9",
        "update {schema}.migration set version = 9",
    )
    answer = each("migrate")
    assert (answer.code, "before the first release" in answer.err) == (1, True)


def test_migrate_of_memory_is_a_mistake(bare: Cli) -> None:
    answer = bare("-u", "memory://", "migrate")
    assert (answer.code, answer.err) == (2, "headrace: this store has no tables to migrate.\n")


def test_a_node_migrates_its_own_store(bare: Cli, node_url: str) -> None:
    answer = bare("-u", node_url, "migrate")
    assert (answer.code, answer.out) == (2, "")
    assert "a node, which migrates its own store" in answer.err
    assert "run `headrace migrate` with the URL of its store" in answer.err


def test_migrate_sql_connects_to_nothing(bare: Cli, sqlite_url: str) -> None:
    """Dialect, schema and prefix come from the URL, or from --dialect."""
    answer = bare("-u", UNREACHABLE, "migrate", "--sql")
    assert answer == (0, migration_script("postgres"), "")
    answer = bare("-u", f"{UNREACHABLE}?schema=mine", "migrate", "--sql")
    assert answer.out == migration_script("postgres", name="mine")
    answer = bare("-u", f"{sqlite_url}?prefix=mine_", "migrate", "--sql")
    assert answer.out == migration_script("sqlite", name="mine_")
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()
    answer = bare("migrate", "--sql", "--dialect", "sqlite")
    assert answer.out == migration_script("sqlite")
    answer = bare("-u", f"{sqlite_url}?prefix=mine_", "migrate", "--sql", "--dialect", "postgres")
    assert answer.out == migration_script("postgres")
    answer = bare("migrate", "--sql", "--dialect", "sqlite", "--from", str(NEWEST))
    assert answer == (0, "", f"version {NEWEST} is the newest: there is nothing to do\n")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["migrate", "--sql"], 2, "no store is configured"),
        (["-u", "memory://", "migrate", "--sql"], 2, "a memory store has no tables"),
        (["-u", "http://127.0.0.1:1", "migrate", "--sql"], 2, "name it with --dialect"),
        (["migrate", "--sql", "--dialect", "oracle"], 2, "--dialect"),
        (["migrate", "--dialect", "sqlite"], 2, "--dialect and --from go with --sql"),
        (["migrate", "--sql", "--dialect", "sqlite", "--from", "99"], 1, "version 99"),
        (["-u", "sqlite:///x.db?prefix=No", "migrate", "--sql"], 2, "prefix='No' is not usable"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_with_migrate(bare: Cli, args: list[str], code: int, message: str) -> None:
    answer = bare(*args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err


def test_maintain_prunes(each: Cli, direct_url: str) -> None:
    """Records that are eight years old, with a retention of a second."""
    clock = FakeClock()
    with headrace.connect(direct_url, clock=clock) as hr:
        hr.commit_many("t", [{"n": n} for n in range(5)])
        hr.procs.create("slow", "t")
        hr.topic("t").set_retention(min_age=None, max_age=1)
        clock.advance(60)
        hr.commit("t", {"n": 5})
    answer = each("maintain")
    assert (answer.code, answer.err) == (0, "")
    [titles, row] = [line.split() for line in answer.out.splitlines()]
    assert titles == ["TOPIC", "REMOVED", "FROM", "TO", "OVERTAKEN"]
    assert row == ["t", "6", ":0", ":5", "slow"]
    assert each("topic", "ls", "--json").json[0]["first_seq"] == 6


def test_maintain_says_when_there_is_nothing_to_do(each: Cli, durable_url: str) -> None:
    headrace.connect(durable_url).close()
    assert each("maintain") == (0, "", "there were no records to remove\n")
    again = each("maintain")
    assert (again.code, again.out) == (0, "")
    assert "--force runs it anyway" in again.err
    assert each("maintain", "--json").json["is_skipped"] is True
    assert each("maintain", "--force", "--json").json == {
        "is_skipped": False,
        "collected": [],
        "expired_procs": [],
        "tended": [],
        "forgotten_clients": [],
        "dropped_stages": 0,
        "forgotten_locks": 0,
        "ended_counters": 0,
        "interval": 30.0,
    }


def test_maintain_names_deleted_live_procs(
    cli: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headrace.connect(sqlite_url).close()
    report = MaintenanceReport(expired_procs=("live-1",))
    monkeypatch.setattr(Admin, "maintain", lambda self, *, force: report)
    assert "live proc 'live-1' was no longer used and is removed" in cli("maintain").err


def test_doctor_on_sqlite(cli: Cli, sqlite_url: str) -> None:
    """Warnings are no failure."""
    headrace.connect(sqlite_url).close()
    answer = cli("doctor")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert any(line.startswith("ok    durability    safe: ") for line in lines)
    assert " 0 failed: sqlite:///" in answer.err
    found = cli("doctor", "--json").json
    assert (found["url"], found["fail"]) == (sqlite_url, 0)
    checks = [finding["check"] for finding in found["findings"]]
    assert checks == ["engine", "durability", "wal", "schema", "topics", "size", "spark", "java"]
    deep = cli("doctor", "--deep", "--json").json
    assert "integrity" in [finding["check"] for finding in deep["findings"]]


def test_doctor_on_memory(bare: Cli) -> None:
    answer = bare("-u", "memory://", "doctor")
    assert answer.code == 0
    assert "nothing outlives the process" in answer.out


def test_doctor_fails_on_postgres_without_fsync(bare: Cli, postgres_url: str) -> None:
    """The server of the tests has it off."""
    headrace.connect(postgres_url).close()
    answer = bare("-u", postgres_url, "doctor")
    assert answer.code == 1
    lines = answer.out.splitlines()
    [at] = [n for n, line in enumerate(lines) if line.startswith("fail")]
    assert lines[at].startswith("fail  durability    synchronous_commit=on, fsync=off")
    assert lines[at + 1].strip().startswith("-> set fsync = on")
    found = bare("-u", postgres_url, "doctor", "--json")
    assert (found.code, found.json["fail"]) == (1, 1)


def test_doctor_passes_on_a_sound_server(bare: Cli) -> None:
    with PrivatePostgres({}) as server:
        headrace.connect(server.url).close()
        answer = bare("-u", server.url, "doctor")
    assert answer.code == 0, answer
    assert {line.split()[0] for line in answer.out.splitlines()} == {"ok"}


def test_doctor_names_an_old_transaction(
    bare: Cli, postgres: PrivatePostgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_diagnosis, "OPEN_SECONDS", 0.0)
    headrace.connect(postgres_url).close()
    with psycopg.connect(postgres.url) as session:
        session.execute("select 1")
        pid = session.info.backend_pid
        answer = bare("-u", postgres_url, "doctor")
    assert f"pid {pid} " in answer.out
    assert "warn  transactions" in answer.out


@pytest.mark.parametrize(
    ("url", "code", "error"),
    [(UNREACHABLE, 4, "store_unavailable"), ("sqlite:///nowhere.db", 3, "unknown_store")],
)
def test_doctor_on_a_store_that_cannot_be_opened(
    bare: Cli, url: str, code: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is a finding, and the exit code is that of the error."""
    monkeypatch.setenv("HEADRACE_PATIENCE", "0")
    answer = bare("-u", url, "doctor")
    assert answer.code == code
    assert answer.out.startswith("fail  store")
    found = bare("-u", url, "doctor", "--json")
    assert found.code == code
    [finding] = found.json["findings"]
    assert (finding["verdict"], finding["facts"]) == ("fail", {"code": error})
    assert "secret" not in answer.out + answer.err + found.out + found.err


def test_every_verdict_has_a_colour() -> None:
    verdict = typing.get_type_hints(headrace.types.Finding)["verdict"]
    assert set(typing.get_args(verdict)) == set(doctor._COLOURS)


def test_config_show_prints_values_and_origins(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text('url = "postgresql://me:secret@h/db"\npatience = 5\n')
    monkeypatch.setenv("HEADRACE_MAX_BODY", "4096")
    answer = bare("config", "show")
    rows = [line.split(maxsplit=2) for line in answer.out.splitlines()]
    file = str(Path("headrace.toml").resolve())
    assert rows == [
        ["SETTING", "VALUE", "FROM"],
        ["url", "postgresql://me:***@h/db", file],
        ["durability", "safe", "default"],
        ["patience", "5", file],
        ["max_body", "4096", "HEADRACE_MAX_BODY"],
        ["migrate", "create", "default"],
        ["file", file, "the working directory"],
    ]
    Path(".git").mkdir()
    found = bare("config", "show", "--json", "-u", "memory://").json
    assert found["file"] == {"value": file, "origin": f"the project's root {Path.cwd()}"}
    assert found["url"] == {"value": "memory://", "origin": "--url"}
    assert found["durability"] == {"value": "safe", "origin": "default"}


def test_config_show_without_a_store(bare: Cli) -> None:
    found = bare("config", "show", "--json").json
    assert found["url"] == {"value": None, "origin": "not set"}
    assert found["file"] == {"value": None, "origin": "the working directory"}
    assert bare("config", "show").code == 0


def test_config_show_knows_what_the_url_sets(bare: Cli) -> None:
    found = bare("-u", "sqlite:///x.db?durability=relaxed", "config", "show", "--json").json
    assert found["durability"] == {"value": "relaxed", "origin": "the url"}


def test_settings_reach_the_store(
    bare: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file and from the environment, below the arguments."""
    Path("headrace.toml").write_text(f'url = "{sqlite_url}"\ndurability = "relaxed"\n')
    monkeypatch.setenv("HEADRACE_MAX_BODY", "10")
    assert bare("topic", "commit", "t", "{}").code == 0
    assert "over the limit of 10" in bare("topic", "commit", "t", '{"n": 12345}').err
    found = bare("doctor", "--json").json["findings"]
    [durability] = [f["facts"]["durability"] for f in found if f["check"] == "durability"]
    assert durability == "relaxed"
    assert bare("topic", "ls", "-u", "sqlite:///other.db").code == 3


def test_a_wrong_setting_is_a_usage_error(bare: Cli) -> None:
    Path("headrace.toml").write_text('ulr = "memory://"\n')
    answer = bare("topic", "ls")
    assert (answer.code, answer.out) == (2, "")
    assert "headrace.toml has the unknown key 'ulr'" in answer.err
    assert bare("doctor").code == 2


def test_the_shared_options_stand_before_or_after(bare: Cli, sqlite_url: str) -> None:
    bare("-u", sqlite_url, "topic", "commit", "t", "{}")
    expected = bare("-u", sqlite_url, "--json", "topic", "ls")
    assert expected.json[0]["name"] == "t"
    assert bare("topic", "ls", "--url", sqlite_url, "--json") == expected
    assert bare("-u", "memory://", "topic", "ls", "-u", sqlite_url, "--json") == expected


def test_reading_commands_create_nothing(bare: Cli, new_url: str) -> None:
    """Neither a file nor a schema, however often they run."""
    cli = on(bare, new_url)
    looks = [
        ("topic", "ls"),
        ("topic", "tail", "t"),
        ("topic", "range", "t"),
        ("topic", "show", "t"),
        ("proc", "ls"),
        ("proc", "show", "p"),
        ("proc", "lag"),
        ("proc", "seek", "p", ">", "--yes"),
        ("proc", "delete", "p", "--yes"),
        ("maintain",),
        ("doctor",),
    ]
    for look in looks:
        answer = cli(*look)
        assert answer.code == 3, look
        assert "there are no tables of Headrace" in answer.err + answer.out
    assert list(Path.cwd().parent.glob("*.db*")) == []


@WITHOUT_NODE
@pytest.mark.usefixtures("from_the_future")
@pytest.mark.parametrize(
    "args", [["topic", "ls"], ["topic", "commit", "t", "{}"], ["migrate"], ["doctor"]]
)
def test_newer_tables_are_refused(each: Cli, args: list[str]) -> None:
    answer = each(*args)
    assert answer.code == 1
    assert "version 99" in answer.err + answer.out
    assert "upgrade the headrace package" in answer.err + answer.out


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        (UNREACHABLE, 4, "cannot be used now"),
        ("sqlite:///no/such/folder/flow.db", 4, "does not exist: create it first"),
        ("flow.db", 2, "the url in --url is wrong: 'flow.db' is not a store's URL"),
        ("kafka://localhost", 2, "there is no driver for 'kafka'"),
        ("sqlite:///x.db?colour=red", 2, "a sqlite URL has no option 'colour'"),
    ],
)
def test_wrong_and_unreachable_stores(
    bare: Cli, url: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PATIENCE", "0")
    for args in (["topic", "ls"], ["topic", "commit", "t", "{}"], ["migrate"]):
        answer = bare("-u", url, *args)
        assert (answer.code, answer.out) == (code, "")
        assert message in answer.err
        assert answer.err.count("\n") == 1
        assert "secret" not in answer.err


def test_debug_shows_the_traceback(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PATIENCE", "0")
    answer = bare("topic", "ls", "-u", UNREACHABLE, "--debug")
    assert answer.code == 4
    assert "Traceback" in answer.err
    assert answer.err.splitlines()[-1].startswith("headrace: PostgreSQL at")


def test_an_internal_error_is_one_line(
    cli: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headrace.connect(sqlite_url).close()

    def explode(self: Any, **_: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Procs, "list", explode)
    answer = cli("proc", "ls")
    assert answer == (1, "", "headrace: unexpected ZeroDivisionError: oops (--debug shows where)\n")
    assert "Traceback" in cli("--debug", "proc", "ls").err


def test_an_interrupted_command_has_its_code() -> None:
    """Headrace sets it, not typer."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as caught:
        run_guarded(CommandSession(), interrupt)
    assert caught.value.exit_code == 130


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["topc"], "No such command 'topc'. Did you mean 'topic'? Try 'headrace --help'."),
        (["topic", "x"], "No such command 'x'. Try 'headrace topic --help'."),
        (["topic", "ls", "--no"], "No such option: --no"),
        (["topic", "tail"], "Missing argument 'TOPIC'. Try 'headrace topic tail --help'."),
    ],
)
def test_wrong_usage_is_one_line(bare: Cli, args: list[str], message: str) -> None:
    answer = bare(*args)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"headrace: {message}")
    assert answer.err.count("\n") == 1


def test_help_and_version(bare: Cli) -> None:
    answer = bare("--help")
    assert answer.code == 0
    for code in ("0  done", "1  a check", "2  wrong usage", "3  the store", "4  the store", "130"):
        assert code in answer.out
    assert bare("-h").out == answer.out
    assert bare("--version").out == f"headrace {headrace.__version__}\n"
    assert bare("topic").code == 2
    assert "Usage: headrace topic" in bare("topic").out
