"""Databases of older versions, with data in them: nothing is lost, and everything works after.

``schemas/`` has, for each version, the script that made its tables and the rows that ``fill`` wrote
with it; nothing in them ever changes. A new version is added by
``HEADRACE_FREEZE=1 make test ARGS="-n 0 tests/drivers/test_upgrades.py -k frozen"``. ``fill`` may
change its words with the API, not what it writes.
"""

import os
import re
import socket
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import headrace
from headrace import Doc
from headrace.drivers.postgres.store import DIALECT as POSTGRES
from headrace.drivers.sql_common.migrations import FIRST_VERSION, load_schema
from headrace.drivers.sqlite.store import DIALECT as SQLITE
from headrace.errors import SchemaTooOld
from headrace.stores import migration_script
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import StoreOps
from headrace.testing.sync_facade import claim_of

SCRIPTS = Path(__file__).parent / "schemas"
NEWEST = load_schema(SQLITE, "x_").version
VERSIONS = range(FIRST_VERSION, NEWEST + 1)

COLUMNS = """
select table_name, string_agg(quote_ident(column_name), ', ' order by ordinal_position)
from information_schema.columns join information_schema.tables using (table_schema, table_name)
where table_schema = '{}' and table_type = 'BASE TABLE' and table_name not in ('migration', 'function_set')
group by table_name order by table_name collate "C"
"""
SHAPE = """
select 'column', table_name, column_name, concat_ws(' ', data_type, column_default, is_nullable,
       is_identity, collation_name)
from information_schema.columns where table_schema = '{schema}'
union all select 'index', tablename, indexname, indexdef from pg_indexes where schemaname = '{schema}'
union all select 'table', relname, relpersistence::text, reloptions::text from pg_class
where relnamespace = to_regnamespace('{schema}')
union all select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
from pg_constraint where connamespace = to_regnamespace('{schema}')
union all select 'trigger', c.relname, tgname, tgenabled::text || pg_get_triggerdef(t.oid)
from pg_trigger t join pg_class c on c.oid = tgrelid
where relnamespace = to_regnamespace('{schema}') and not tgisinternal
union all select 'view', viewname, '', definition from pg_views where schemaname = '{schema}'
union all select 'function', proname, pg_get_function_arguments(oid), prosrc
from pg_proc where pronamespace = to_regnamespace('{schema}')
"""


class SqliteFiles:
    """A file of today, and one of an older version."""

    def __init__(self, folder: Path) -> None:
        self._today, self._old = folder / "today.db", folder / "old.db"
        self.today, self.old = f"sqlite:///{self._today}", f"sqlite:///{self._old}"

    def create(self, version: int) -> None:
        self._run(f"sqlite_{version}.sql")

    def load(self, version: int) -> None:
        self._run(f"sqlite_{version}_rows.sql")

    def _run(self, script: str) -> None:
        with closing(sqlite3.connect(self._old)) as old:
            old.executescript((SCRIPTS / script).read_text())

    def execute(self, script: str) -> None:
        with closing(sqlite3.connect(self._old)) as old:
            old.executescript(script.format(place="headrace_"))

    def number(self, version: int) -> None:
        with closing(sqlite3.connect(self._today, isolation_level=None)) as today:
            today.execute("update headrace_migration set version = ?", [version])

    def shape(self, url: str) -> object:
        """Tables with their columns, indexes and views."""
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            found = connection.execute("select type, name, sql from sqlite_master").fetchall()
            columns = {
                name: sorted(row[1:] for row in connection.execute(f"pragma table_xinfo({name})"))
                for type, name, _ in found
                if type == "table"
            }
        others = {
            name: re.sub(r"\s+", " ", sql or "") for type, name, sql in found if type != "table"
        }
        return columns, others

    def token(self, proc: str) -> str:
        """The token of the claim that a proc has in flight."""
        with closing(sqlite3.connect(self._old)) as old:
            [[token]] = old.execute(
                "select token from headrace_proc_claim c join headrace_proc p on p.id = c.proc"
                " where p.name = ?",
                [proc],
            )
        return str(token)

    def freeze(self, version: int) -> None:
        lines = []
        with closing(sqlite3.connect(self._today)) as today:
            names = today.execute(
                "select name from sqlite_master where type = 'table' and name <> 'headrace_migration'"
                " order by name"
            )
            for [name] in names.fetchall():
                columns = [row[1] for row in today.execute(f"pragma table_info({name})")]
                values = " || ', ' || ".join(f'quote("{column}")' for column in columns)
                rows = today.execute(f"select {values} from {name} order by 1")
                lines += insertion(name, ", ".join(columns), [row for [row] in rows])
        keep("sqlite", version, lines)


class PostgresSchemas:
    """The same as schemas."""

    def __init__(self, postgres, today: str, old: str) -> None:
        self._postgres = postgres
        self.today, self.old = today, old

    def create(self, version: int) -> None:
        self._run(f"postgres_{version}.sql")

    def load(self, version: int) -> None:
        self._run(f"postgres_{version}_rows.sql")

    def _run(self, name: str) -> None:
        schema, script = self.old.rpartition("=")[2], (SCRIPTS / name).read_text()
        self._postgres.execute(re.sub(r"\bheadrace\b(?=[.\"'])", schema, script))

    def execute(self, script: str) -> None:
        self._postgres.execute(script.format(place=f"{self.old.rpartition('=')[2]}."))

    def number(self, version: int) -> None:
        schema = self.today.rpartition("=")[2]
        self._postgres.execute(f"update {schema}.migration set version = {version}")

    def shape(self, url: str) -> object:
        """Columns, indexes, constraints, triggers, options and functions."""
        schema = url.rpartition("=")[2]
        rows = self._postgres.execute(SHAPE.format(schema=schema))
        return sorted(tuple(str(value).replace(schema, "") for value in row) for row in rows)

    def token(self, proc: str) -> str:
        schema = self.old.rpartition("=")[2]
        [[token]] = self._postgres.execute(
            f"select token from {schema}.proc_claim c join {schema}.proc p on p.id = c.proc"
            f" where p.name = '{proc}'"
        )
        return str(token)

    def freeze(self, version: int) -> None:
        execute, schema = self._postgres.execute, self.today.rpartition("=")[2]
        lines = ["set session_replication_role = replica;"]  # in any order of the tables
        for name, columns in execute(COLUMNS.format(schema)):
            values = ", ".join(f"quote_nullable({column}::text)" for column in columns.split(", "))
            rows = execute(f"select concat_ws(', ', {values}) from {schema}.{name} order by 1")
            lines += insertion(f"headrace.{name}", columns, [row for [row] in rows])
        sequences = execute(
            "select sequencename, last_value from pg_sequences"
            f" where schemaname = '{schema}' and last_value is not null order by 1"
        )
        for name, value in sequences:
            lines.append(f"select setval('headrace.{name}', {value});")
        keep("postgres", version, [*lines, "reset session_replication_role;"])


def keep(dialect: str, version: int, rows: list[str]) -> None:
    """Write the scripts of a version, with another name for this process in the rows."""
    text = "\n".join([*rows, ""]).replace(f"{socket.gethostname()}/{os.getpid()}", "host/1")
    (SCRIPTS / f"{dialect}_{version}.sql").write_text(migration_script(dialect))
    (SCRIPTS / f"{dialect}_{version}_rows.sql").write_text(text)


def insertion(table: str, columns: str, rows: list[str]) -> list[str]:
    """Statements that make a table have these rows."""
    if not rows:
        return []
    overriding = " overriding system value" if table.startswith("headrace.") else ""
    values = ",\n".join(f"    ({row})" for row in rows)
    return [
        f"delete from {table};",
        f"insert into {table} ({columns}){overriding} values\n{values};",
    ]


@pytest.fixture
def sqlite_places(tmp_path):
    return SqliteFiles(tmp_path)


@pytest.fixture
def postgres_places(postgres, postgres_url, new_postgres_url):
    return PostgresSchemas(postgres, postgres_url, new_postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def places(request):
    return request.getfixturevalue(f"{request.param}_places")


def fill(hr) -> None:
    """All that the oldest of these versions knows; proc ``billing`` has a claim in flight."""
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    hr.commit("orders", {"n": 10}, headers={"who": "me"}, key="ten")
    hr.procs.create("stopped", "orders", lease=None).disable()
    hr.procs.create("patient", "orders", max_attempts=7, on_exhausted="continue")
    hr.proc("patient").claim().nack(error="torn")
    proc = hr.procs.create(
        "billing",
        "orders",
        max_attempts=1,
        lease=2.5,
        on_exhausted="dead_letter",
    )
    claim = proc.claim(count=2)
    claim.nack(failed=claim[1], error="torn")
    proc.claim(count=2).ack()
    proc.claim(count=3)
    hr.queues.create("plain")
    hr.queues.set_defaults(lease=77, max_attempts=2, chunk=3, concurrency=4)
    hr.queues.create(
        "mail", lease=300, max_attempts=5, while_active="next", keep="all", exist_ok=True
    )
    hr.push_many("mail", [Doc({"n": n}, lease=40) for n in range(4)])
    hr.push("mail", {"n": 4}, subject="later", delay=timedelta(hours=1))
    killed, done, _ = hr.queues.create("mail", exist_ok=True).claim(3)
    killed.kill("torn")
    done.complete()
    hr.push("hasty", {"timeout": 1}, lease=9, max_attempts=8, subject="s")
    hr.queues.create("hasty", exist_ok=True).claim()
    hr.upsert("hasty", {"timeout": 2}, lease=60, subject="s", while_active="next")
    hr.push("hasty", {"timeout": 3})


def seen(hr) -> list[object]:
    """What can be seen of it."""
    mail = hr.queues.create("mail", exist_ok=True)
    items = [
        item
        for name in ("mail", "hasty")
        for state in ("planned", "pending", "active", "completed")
        for item in hr.queues.create(name, exist_ok=True).items(state)
    ]
    return [
        hr.range("orders"),
        [(letter.id, letter.body["body"]) for letter in hr.range("billing-dead")],
        hr.procs.list(),
        hr.queues.defaults(),
        hr.queues.list(),
        [(item.id, item.state, item.subject, item.payload, item.attempts) for item in items],
        [(letter.id, letter.payload, letter.title) for letter in mail.dead.list()],
    ]


def go_on(hr, clock, token: str) -> None:
    """What was begun is ended, and what came with later versions is used."""
    claim_of(hr, "billing", token).ack()
    assert hr.commit("orders", {"n": 10}, headers={"who": "me"}, key="ten").endswith("-10")
    assert hr.commit("orders", {"n": 11}).endswith("-11")
    hr.proc("stopped").resume()
    again = hr.proc("patient").claim(count=2)
    again.nack(error="torn")
    assert hr.proc("patient").info().attempts == 2
    clock.advance(9)
    claimed = hr.queues.create("hasty", exist_ok=True).claim(3)
    assert sorted((item.payload["timeout"], leased(item)) for item in claimed) == [(2, 60), (3, 77)]
    assert hr.push("mail", {"n": 5}, subject="later").skipped == 1
    clock.advance(3700)
    claimed = hr.queues.create("mail", exist_ok=True).claim(9)
    assert sorted((i.payload["n"], leased(i)) for i in claimed) == [(2, 40), (3, 40), (4, 300)]
    assert hr.queues.create("mail", exist_ok=True).dead.redrive() == 1
    doubled = hr.pipelines.create("double", source="orders", to="doubled", processor=_twice)
    assert doubled.run_once(engine="inline") == hr.topic("doubled").length() == 12
    hr.push("mail", {"n": 6}, channel={"os": "linux"})
    claimed = hr.queues.create("mail", exist_ok=True).claim(9)
    assert sorted((item.payload["n"], leased(item)) for item in claimed) == [(0, 40), (6, 300)]
    assert hr.sinks.list() == []
    issued = hr.tokens.create("mailer", ["push:queue/mail"])
    assert hr.tokens.rotate(issued.info.id).info == hr.tokens.list()[0]
    hr.admin.maintain(force=True)


def leased(item) -> float:
    """How many seconds its claim lasts."""
    return (item.deadline - item.claimed_at).total_seconds()


def _twice(body):
    return {"n": body["n"] * 2}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_upgrade_keeps_all_data_in_use(places, version):
    clock = FakeClock()
    with headrace.connect(places.today, clock=clock) as hr:
        fill(hr)
        before = seen(hr)
    places.create(version)
    places.load(version)
    token = places.token("billing")
    if isinstance(places, PostgresSchemas) and version < NEWEST:
        with pytest.raises(SchemaTooOld):
            headrace.connect(places.old)
    with headrace.connect(places.old, clock=clock, migrate="auto") as hr:
        assert seen(hr) == before
        go_on(hr, clock, token)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_migrated_schema_is_like_a_new_one(places, version):
    """A change of the tables without a migration is noticed here."""
    places.create(version)
    headrace.connect(places.old, migrate="auto").close()
    headrace.connect(places.today).close()
    assert places.shape(places.old) == places.shape(places.today)


def test_each_version_is_frozen(places):
    """As it was when it came, so that its tables can be made after they have changed."""
    if os.environ.get("HEADRACE_FREEZE"):
        with headrace.connect(places.today, clock=FakeClock()) as hr:
            fill(hr)
        places.freeze(NEWEST)
    kind = "sqlite" if isinstance(places, SqliteFiles) else "postgres"
    for version in VERSIONS:
        for script in (f"{kind}_{version}.sql", f"{kind}_{version}_rows.sql"):
            assert (SCRIPTS / script).exists(), (
                f"freeze version {version}: see the top of this file"
            )


@pytest.mark.parametrize("dialect", [POSTGRES, SQLITE], ids=lambda dialect: dialect.folder)
def test_migrations_are_numbered_without_gaps(dialect):
    """Versions mean the same in all databases."""
    known = load_schema(dialect, "x_")
    numbers = [migration.version for migration in known.migrations]
    assert numbers == list(range(FIRST_VERSION + 1, known.version + 1))
    assert known.version == NEWEST


@pytest.mark.parametrize("version", [1, FIRST_VERSION - 1])
@pytest.mark.parametrize("migrate", ["off", "create", "auto"])
def test_tables_from_before_the_first_release_are_refused(places, migrate, version):
    """And stay as they are."""
    headrace.connect(places.today).close()
    places.number(version)
    with pytest.raises(
        SchemaTooOld, match=f"cannot be migrated to {NEWEST}: use a new database"
    ) as caught:
        headrace.connect(places.today, migrate=migrate)
    assert (caught.value.version, caught.value.newest) == (version, NEWEST)


LIMITS = """
insert into {place}limit_rule (id, queue, measure, key_values, most)
values ('r', '*', 'running', '{{"os":[13,"mac"]}}', 3);
insert into {place}limit_override (rule, id, key_values, most)
values ('r', 'o', '{{"branch":[13,"main"],"os":[13,"mac"]}}', 7);
update {place}limit_version set version = 4;
update {place}queue set limits = 4 where name = 'mail';
"""


def test_limits_of_an_older_version_are_kept(places):
    """Their columns have other names since version 12."""
    places.create(11)
    places.load(11)
    places.execute(LIMITS)
    clock = FakeClock()
    with headrace.connect(places.old, clock=clock, migrate="auto") as hr:
        ops = StoreOps(hr)
        [rule] = ops.limits.list("", 9)
        assert (rule.limit, [override.limit for override in rule.overrides]) == (3, [7])
        hr.push_many("mail", [Doc(n, channel={"os": "mac"}) for n in range(5)])
        clock.advance(3700)
        claimed = [item for item in hr.queue("mail").claim(99) if item.channel]
        assert len(claimed) == 3
        [usage] = ops.limits.usage("r", 0)
        assert (usage.used, usage.limit) == (3, 3)
