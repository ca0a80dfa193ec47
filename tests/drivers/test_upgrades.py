"""Databases of older versions, with data in them: nothing is lost, and everything works after.

An older version's tables are made by its own migrations. Their rows are what this version has
written, in the columns that there were then.
"""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import headrace
from headrace.drivers.postgres import schema as postgres_schema
from headrace.drivers.relational.migrations import migrations
from headrace.drivers.sqlite import store as sqlite_store
from headrace.errors import SchemaTooOld
from headrace.testing.clocks import FakeClock

OLDEST = 3
NEWEST = migrations(sqlite_store.DIALECT, "x_")[-1].version

TABLES = """
select table_name, string_agg(quote_ident(column_name), ', ') from information_schema.columns
join information_schema.tables using (table_schema, table_name)
where table_schema = '{}' and table_type = 'BASE TABLE' and table_name <> 'migration'
group by table_name
"""


class SqliteFiles:
    """A file of today, and one of an older version."""

    def __init__(self, folder: Path) -> None:
        self._today, self._old = folder / "today.db", folder / "old.db"
        self.today, self.old = f"sqlite:///{self._today}", f"sqlite:///{self._old}"

    def copy(self) -> None:
        with closing(sqlite3.connect(self._old, isolation_level=None)) as old:
            old.execute("attach ? as today", [str(self._today)])
            names = old.execute(
                "select name from main.sqlite_master where type = 'table'"
                " and name <> 'headrace_migration'"
            ).fetchall()
            for [name] in names:
                columns = ", ".join(
                    f'"{row[1]}"' for row in old.execute(f"pragma main.table_info({name})")
                )
                old.execute(
                    f"insert or replace into main.{name} ({columns}) select {columns} from today.{name}"
                )


class PostgresSchemas:
    """The same as schemas."""

    def __init__(self, postgres, today: str, old: str) -> None:
        self._postgres = postgres
        self.today, self.old = today, old

    def copy(self) -> None:
        execute = self._postgres.execute
        today, old = (url.rpartition("=")[2] for url in (self.today, self.old))
        copies = ["set session_replication_role = replica"]  # in any order of the tables
        for name, columns in execute(TABLES.format(old)):
            copies.append(
                f"insert into {old}.{name} ({columns}) overriding system value"
                f" select {columns} from {today}.{name} on conflict do nothing"
            )
        for name, value in execute(
            "select sequencename, last_value from pg_sequences"
            f" where schemaname = '{today}' and last_value is not null"
        ):
            copies.append(f"select setval(to_regclass('{old}.{name}'), {value})")
        execute("; ".join(copies))


@pytest.fixture
def sqlite_places(tmp_path):
    return SqliteFiles(tmp_path)


@pytest.fixture
def postgres_places(postgres, postgres_url, new_postgres_url):
    return PostgresSchemas(postgres, postgres_url, new_postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def places(request):
    return request.getfixturevalue(f"{request.param}_places")


def fill(hr) -> str:
    """All that the oldest of these versions knows; the token of a claim that is out."""
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    hr.commit("orders", {"n": 10}, headers={"who": "me"}, key="ten")
    hr.proc("stopped", topic="orders").disable()
    proc = hr.proc("billing", topic="orders", max_reclaims=1, on_max_reclaims_reached="dead_letter")
    claim = proc.claim(count=2)
    claim.reclaim(failed=claim[1], error="torn")
    proc.claim(count=2).ack()
    hr.push_many("mail", [{"n": n} for n in range(4)])
    hr.push("mail", {"n": 4}, subject="later", delay=timedelta(hours=1))
    killed, done, _ = hr.ref("mail").claim(3)
    killed.kill("torn")
    done.complete()
    return str(proc.claim(count=3).token)


def seen(hr) -> list[object]:
    """What can be seen of it."""
    mail = hr.ref("mail")
    items = [item for state in ("planned", "pending", "active") for item in mail.items(state)]
    return [
        hr.range("orders"),
        hr.range("billing-dead"),
        hr.procs(),
        [(item.id, item.state, item.subject, item.payload, item.attempts) for item in items],
        [(letter.id, letter.payload, letter.title) for letter in mail.dead.list()],
    ]


def go_on(hr, clock, token: str) -> None:
    """What was begun is ended, and what came with later versions is used."""
    hr.proc("billing").ack(token)
    assert hr.commit("orders", {"n": 10}, headers={"who": "me"}, key="ten").endswith("-10")
    assert hr.commit("orders", {"n": 11}).endswith("-11")
    hr.proc("stopped").resume()
    assert hr.push("mail", {"n": 5}, subject="later").skipped == 1
    clock.advance(3700)
    assert sorted(item.payload["n"] for item in hr.ref("mail").claim(9)) == [2, 3, 4]
    assert hr.ref("mail").dead.redrive() == 1
    doubled = hr.system_proc("double", source="orders", to="doubled", processor=_twice)
    assert doubled.run_once(engine="inline") == hr.length("doubled") == 12
    hr.push("mail", {"n": 6}, channel={"os": "linux"})
    assert sorted(item.payload["n"] for item in hr.ref("mail").claim(9)) == [0, 6]
    assert hr.sinks() == []
    hr.maintain(force=True)


def _twice(body):
    return {"n": body["n"] * 2}


@pytest.mark.parametrize("version", range(OLDEST, NEWEST))
def test_an_upgrade_keeps_all_and_all_goes_on(places, version, monkeypatch):
    clock = FakeClock()
    with headrace.connect(places.today, clock=clock) as hr:
        token = fill(hr)
        before = seen(hr)
    with monkeypatch.context() as then:
        for module in (postgres_schema, sqlite_store):
            then.setattr(module, "migrations", lambda *place: migrations(*place)[:version])
        headrace.connect(places.old).close()
    places.copy()
    if isinstance(places, PostgresSchemas):
        with pytest.raises(SchemaTooOld):
            headrace.connect(places.old)
    with headrace.connect(places.old, clock=clock, migrate="auto") as hr:
        assert seen(hr) == before
        go_on(hr, clock, token)
