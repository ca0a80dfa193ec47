"""What is particular to PostgreSQL."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import headrace
from headrace import where
from headrace.contract.op import Steps
from headrace.drivers.postgres import in_turn
from headrace.drivers.postgres import schema as postgres_schema
from headrace.drivers.postgres.connecting import Send
from headrace.drivers.postgres.fates import Identity
from headrace.drivers.postgres.signing import Signature
from headrace.drivers.postgres.store import PostgresStore
from headrace.drivers.relational.migrations import Migration, migrations
from headrace.drivers.relational.sql import Statement
from headrace.drivers.running import drive
from headrace.errors import (
    SchemaTooNew,
    SchemaTooOld,
    StoreError,
    StoreUnavailable,
    UnsupportedStore,
)
from headrace.model.tokens import batch_id
from headrace.testing.clocks import FakeClock
from headrace.testing.postgres import PrivatePostgres


def test_an_unreachable_server_is_reported_at_once() -> None:
    """With the place and the next step, without the password."""
    with pytest.raises(
        StoreUnavailable, match=r"127\.0\.0\.1:1/db .*Check that the server runs"
    ) as e:
        headrace.connect("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(e.value)
    assert e.value.retryable


def test_an_unknown_database_is_reported(postgres: PrivatePostgres) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        headrace.connect(f"postgresql://headrace@127.0.0.1:{postgres.port}/nowhere")


def test_schemas_are_apart(postgres: PrivatePostgres) -> None:
    with (
        headrace.connect(f"{postgres.url}?schema=apart_one") as one,
        headrace.connect(f"{postgres.url}?schema=apart_two") as two,
    ):
        one.commit("t", {})
        assert two.topics() == []
    for name in ("apart_one", "apart_two"):
        postgres.execute(f"drop schema {name} cascade")


def test_an_old_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "OLDEST", 99)
    with pytest.raises(UnsupportedStore, match="99 or newer"):
        headrace.connect(postgres_url)


def test_tables_of_a_newer_headrace_are_refused(
    hr: headrace.Headrace, postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    postgres.execute(f"insert into {schema}.migration values (99, 'from_the_future')")
    with pytest.raises(SchemaTooNew, match=r"version 99.*upgrade the headrace package"):
        headrace.connect(postgres_url)


def test_older_tables_are_migrated_only_when_asked(
    hr: headrace.Headrace, postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what a fresh schema has, a migrated one has too."""
    hr.commit("t", {})
    ours = migrations(postgres_schema.DIALECT, f"{schema}.")
    next_one = ours[-1].version + 1
    extra = Migration(next_one, "extra", f"create table {schema}.extra (n integer);")
    known = [*ours, extra]
    monkeypatch.setattr(postgres_schema, "migrations", lambda *_: known)
    with pytest.raises(SchemaTooOld, match=f"need {next_one}: connect once with migrate='auto'"):
        headrace.connect(postgres_url)
    with headrace.connect(postgres_url, migrate="auto") as migrated:
        assert migrated.length("t") == 1
    headrace.connect(postgres_url).close()


def test_a_migration_is_all_or_nothing(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    postgres_url: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = migrations(postgres_schema.DIALECT, f"{schema}.")
    text = f"create table {schema}.extra (n integer); select nonsense;"
    known = [*ours, Migration(ours[-1].version + 1, "broken", text)]
    monkeypatch.setattr(postgres_schema, "migrations", lambda *_: known)
    with pytest.raises(StoreError, match="nonsense"):
        headrace.connect(postgres_url, migrate="auto")
    [[found]] = postgres.execute(f"select to_regclass('{schema}.extra')")
    assert found is None


def test_many_clients_may_create_the_schema_at_once(postgres_url: str) -> None:
    """They race to be first; all of them work afterwards."""
    clients: list[headrace.Headrace] = []
    threads = [
        threading.Thread(target=lambda: clients.append(headrace.connect(postgres_url)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients) == 8
    for client in clients:
        client.commit("t", {})
        client.close()


LOOK = Statement("look", "select current_setting('synchronous_commit') as sync", {})


def watch(client: headrace.Headrace, tell: Callable[[str], object]) -> None:
    """Tell synchronous_commit as it is in each transaction that writes, at its end."""
    store = client._store
    send = store.perform

    def perform(action: Any) -> Any:
        statements = list(getattr(action, "statements", ()))
        names = [statement.name for statement in statements]
        ends = {"commit": 0, "append": 1, "claim_next": 1}
        [place] = [names.index(name) + n for name, n in ends.items() if name in names] or [None]
        if place is None:
            return send(action)
        # Before COMMIT, or behind a statement that is a transaction by itself.
        statements.insert(place, LOOK)
        rows = send(Send(action.connection, tuple(statements)))
        tell(rows.pop(place)[0]["sync"])
        return rows

    store.perform = perform


def watched(client: headrace.Headrace) -> dict[str, str]:
    """synchronous_commit as each operation has it."""
    seen: dict[str, str] = {}
    current = [""]

    def probe(operation: str, point: object) -> None:
        current[0] = operation

    client._store.probe = probe
    watch(client, lambda sync: seen.update({current[0]: sync}))
    client.commit("t", {})
    proc = client.proc("p", topic="t")
    proc.claim().ack()
    proc.destroy()
    return seen


def test_safe_operations_wait_for_the_disk_and_claims_do_not(
    postgres_url: str, hr: headrace.Headrace
) -> None:
    seen = watched(hr)
    assert seen == {
        "commit": "on",
        "create_proc": "on",
        "claim": "off",
        "ack": "on",
        "destroy": "on",
    }
    with headrace.connect(f"{postgres_url}&durability=relaxed") as relaxed:
        assert set(watched(relaxed).values()) == {"off"}


def test_a_claim_that_buries_a_record_waits_for_the_disk(postgres_url: str) -> None:
    """A dead letter is a record like any other: others may read it, so it must last."""
    clock = FakeClock()
    seen = []
    with headrace.connect(postgres_url, clock=clock) as client:
        client.commit_many("t", [{"n": 1}, {"n": 2}])
        proc = client.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        proc.claim()
        watch(client, seen.append)
        clock.advance(10)
        assert [record.seq for record in proc.claim()] == [1]
        assert client.length("p-dead") == 1
    assert seen[-1] == "on"


def test_safe_holds_although_the_server_defaults_to_off(postgres_url: str) -> None:
    """A role or database setting must not weaken what we promise."""
    with headrace.connect(f"{postgres_url}&options=-csynchronous_commit%3Doff") as client:
        assert watched(client)["commit"] == "on"


def test_nothing_is_left_in_the_session(hr: headrace.Headrace) -> None:
    """So any server connection serves any operation, as behind a pooler in transaction mode."""
    hr.commit("t", {})
    hr.proc("p", topic="t").claim().ack()
    [connection] = hr._store._pool._idle
    settings = connection.execute(
        "select current_setting('synchronous_commit') as sync, "
        "(select count(*) from pg_locks where locktype = 'advisory') as locks, "
        "current_setting('transaction_isolation') as isolation"
    ).fetchone()
    assert settings == {"sync": "on", "locks": 0, "isolation": "read committed"}


def test_every_operation_may_use_another_connection(hr: headrace.Headrace) -> None:
    """Operations work when each one gets a brand-new connection."""
    give = hr._store._pool.give
    hr._store._pool.give = lambda connection, is_good, is_lasting=False: give(
        connection, is_good=False, is_lasting=is_lasting
    )
    hr.commit_many("t", [{"n": n} for n in range(3)])
    proc = hr.proc("p", topic="t")
    while claim := proc.claim():
        claim.ack_commit([("out", record.body) for record in claim])
    assert [record.body["n"] for record in hr.range("out")] == [0, 1, 2]


def test_prepared_statements_lost_by_a_pooler_are_done_without(hr: headrace.Headrace) -> None:
    """The server session forgets them behind our back; the operation is tried again."""
    for n in range(8):
        hr.commit("t", {"n": n})
    [connection] = hr._store._pool._idle
    # In a DO block, so that psycopg does not notice.
    connection.execute("do $$ begin execute 'deallocate all'; end $$")
    hr.commit("t", {"n": 8})
    assert hr._store._prepares is False
    for n in range(8):
        hr.commit("t", {"n": n})
    assert hr.length("t") == 17


@pytest.mark.parametrize("level", ["serializable", "repeatable%20read"])
def test_another_default_isolation_level_does_no_harm(postgres_url: str, level: str) -> None:
    """Our transactions say which one they need."""
    url = (
        f"{postgres_url}&options=-cdefault_transaction_isolation%3D{level.replace('%20', '%5C%20')}"
    )
    with headrace.connect(url) as client:
        client.commit("t", {})
        threads = [
            threading.Thread(target=lambda: [client.commit("t", {}) for _ in range(20)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.length("t") == 81


def test_many_threads_share_a_client(hr: headrace.Headrace) -> None:
    """More threads than connections; numbers stay dense."""
    hr.commit("t", {})
    threads = [
        threading.Thread(
            target=lambda: [hr.commit([("t", {}), ("u", {}), ("t", {})]) for _ in range(10)]
        )
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.seq for record in hr.range("t")] == list(range(321))
    assert [record.seq for record in hr.range("u")] == list(range(160))


def test_many_tasks_share_a_client(postgres_url: str) -> None:
    """More tasks than connections, and two event loops one after the other."""

    async def scenario(client: headrace.AsyncHeadrace) -> int:
        await asyncio.gather(*(client.commit("t", {"n": n}) for n in range(50)))
        return await client.length("t")

    async def first() -> int:
        async with await headrace.aconnect(postgres_url) as client:
            return await scenario(client)

    assert asyncio.run(first()) == 50
    assert asyncio.run(first()) == 100


def test_a_missing_right_is_named(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    headrace.connect(postgres_url).close()
    postgres.execute("create role reader login")
    url = postgres_url.replace("headrace@", "reader@")
    with pytest.raises(StoreError, match="lacks a right"):
        headrace.connect(url).commit("t", {})
    postgres.execute("drop role reader")


def test_dropped_tables_are_reported(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    hr.commit("t", {})
    postgres.execute(f"drop schema {schema} cascade")
    with pytest.raises(StoreError, match=r"are missing.*Connect anew"):
        hr.commit("t", {})
    assert hr.status() == -1


def test_a_held_snapshot_sees_its_own_past_and_stops_nobody(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    """Somebody's old transaction neither blocks commits, claims and collection nor is disturbed."""
    hr.commit_many("t", [{"n": n} for n in range(10)])
    proc = hr.proc("p", topic="t")
    with psycopg.connect(postgres.url) as old:
        old.execute("set transaction isolation level repeatable read")
        look = f"select seq from {schema}.record where topic = 't' order by seq".encode()
        before = old.execute(look).fetchall()
        for n in range(300):
            hr.commit("t", {"n": n})
            proc.claim(count=2).ack()
        hr.keep("t", min_age=0.001)
        report = hr.maintain(force=True)
        assert report.collected[0].first_seq > 10
        assert old.execute(look).fetchall() == before
    assert proc.lag().records == 0
    assert hr.topic_info("t").next_seq == 310


def test_a_connection_has_one_signature_until_it_is_idle_for_an_hour(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    """They do not pile up, however many transactions and clients there are."""
    clock = FakeClock()
    table = f"{schema}.signature"
    with headrace.connect(postgres_url, clock=clock) as hr:
        for n in range(5):
            hr.upsert("q", n, subject="s")
        [[own]] = postgres.execute(f"select connection from {table}")
        for age in (3_600_000, 3_599_999):
            values = f"gen_random_uuid(), 1, {clock.now - age}"
            postgres.execute(f"insert into {table} values ({values})")
        hr.maintain(force=True)
        left = postgres.execute(f"select connection, at from {table} order by at")
        assert [at for _, at in left] == [clock.now - 3_599_999, clock.now]
        assert left[-1][0] == own


def test_maintenance_waits_for_no_transaction(postgres_url: str) -> None:
    """Not even for one that is open for longer than signatures are kept."""
    clock = FakeClock()
    with headrace.connect(postgres_url, clock=clock) as hr, ThreadPoolExecutor(1) as threads:
        # So that there is a row of its connection.
        with hr.transaction() as tx:
            tx.commit("t", {"n": 1})
        with hr.transaction() as tx:
            tx.commit("t", {"n": 2})
            clock.advance(7200)
            threads.submit(hr.maintain, force=True).result(30)
        assert hr.length("t") == 2


def test_a_number_that_another_transaction_has_got_proves_nothing(
    hr: headrace.Headrace, postgres: PrivatePostgres
) -> None:
    """After a crash numbers are given out again; only what it signed tells a transaction."""
    store = hr._store
    assert isinstance(store, PostgresStore)
    [[xid]] = postgres.execute("select pg_current_xact_id()::text")
    identity = Identity(xid, Signature(batch_id(), 1), time.monotonic())
    assert drive(store._ask(identity), store.perform) == "aborted"
    # Too long ago: its signature may be gone.
    old = identity._replace(signed_at=identity.signed_at - 3600)
    assert drive(store._ask(old), store.perform) == "unknown"


def test_a_transaction_under_way_is_waited_for(
    hr: headrace.Headrace, postgres: PrivatePostgres
) -> None:
    """Nobody says that it came to nothing while it may still be committed."""
    store = hr._store
    assert isinstance(store, PostgresStore)
    with psycopg.connect(postgres.url) as other:
        [[xid]] = other.execute("select pg_current_xact_id()::text").fetchall()
        identity = Identity(xid, Signature(batch_id(), 1), time.monotonic())
        assert drive(store._ask(identity), store.perform) == "in progress"
        other.rollback()
        assert drive(store._ask(identity), store.perform) == "aborted"


def test_places_in_line_do_not_depend_on_a_plan(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    """Items become due in the order of their times also where the table is so small, for all the
    server knows, that it reads it from one end to the other."""
    clock = FakeClock()
    with headrace.connect(postgres_url, clock=clock) as hr:
        queue = hr.queue("q")
        queue.push(0, channel={"n": 0})
        [first] = queue.claim(9)
        postgres.execute(f"vacuum analyze {schema}.item")
        for n in range(5, 0, -1):
            queue.push(n, delay=n, channel={"n": n})
        clock.advance(10)
        assert [item.payload for item in queue.claim(9)] == [1, 2, 3, 4, 5]
        first.complete()


def test_a_query_whose_channels_keep_changing_is_answered(
    hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one transaction, when several walks over all channels were in vain."""
    asked = []

    def never_enough(*_: Any, **options: Any) -> Steps[list[Any]]:
        asked.append(options["channels"])
        yield from ()
        return [{"held": "more", "items": None}]

    queue = hr.queue("q")
    queue.push(1, channel={"os": "linux"})
    queue.claim(1, select=where(os="linux"))
    queue.push(2, channel={"os": "linux"})
    monkeypatch.setattr(in_turn, "_claim", never_enough)
    assert [item.payload for item in queue.claim(9, select=where(os="linux"))] == [2]
    assert 2 <= len(asked) <= 5


def test_a_claim_on_a_queue_that_was_made_anew_can_be_secured(
    hr: headrace.Headrace, postgres_url: str
) -> None:
    """Also by a client that knows only the one that had its name before."""
    hr.push("q", 0)
    hr.push("q", 1)
    with headrace.connect(postgres_url) as other:
        other.drop("q")
        other.push("q", 2)
        [item] = other.queue("q").claim(1)
        store = hr._store
        assert store.run(store.secure_claim("q", item.token or "", item.id))
        assert not store.run(store.secure_claim("q", "another", item.id))
        other.drop("q")
        assert not store.run(store.secure_claim("q", item.token or "", item.id))
