"""Behaviour of the PostgreSQL driver alone."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace import where
from headrace.contract.op import Steps
from headrace.drivers.postgres import attempts
from headrace.drivers.postgres import schema as postgres_schema
from headrace.drivers.postgres.commit_markers import CommitMarker
from headrace.drivers.postgres.commit_resolution import Identity
from headrace.drivers.postgres.connections import Send
from headrace.drivers.postgres.fastpath import cache, channel_claim
from headrace.drivers.postgres.round_trip import asend, send
from headrace.drivers.postgres.store import PostgresStore
from headrace.drivers.sql_common.migrations import Migration, load_schema
from headrace.drivers.sql_common.queues.settle import QueueSettlements
from headrace.drivers.sql_common.statements import Statement
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


def test_an_unreachable_server_is_reported_immediately() -> None:
    """With the address and the next step, without the password."""
    with pytest.raises(
        StoreUnavailable, match=r"127\.0\.0\.1:1/db .*Check that the server runs"
    ) as e:
        headrace.connect("postgresql://me:secret@127.0.0.1:1/db", patience=0)
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
        assert two.topics.list() == []
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
    """A migrated schema has everything that a new one has."""
    hr.commit("t", {})
    ours = load_schema(postgres_schema.DIALECT, f"{schema}.")
    next_one = ours.version + 1
    extra = Migration(next_one, "extra", f"create table {schema}.extra (n integer);")
    known = ours._replace(version=next_one, migrations=(*ours.migrations, extra))
    monkeypatch.setattr(postgres_schema, "load_schema", lambda *_: known)
    with pytest.raises(SchemaTooOld, match=f"need {next_one}: connect once with migrate='auto'"):
        headrace.connect(postgres_url)
    with headrace.connect(postgres_url, migrate="auto") as migrated:
        assert migrated.topic("t").length() == 1
    headrace.connect(postgres_url).close()


def test_a_migration_is_all_or_nothing(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    postgres_url: str,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = load_schema(postgres_schema.DIALECT, f"{schema}.")
    text = f"create table {schema}.extra (n integer); select nonsense;"
    broken = Migration(ours.version + 1, "broken", text)
    known = ours._replace(version=broken.version, migrations=(*ours.migrations, broken))
    monkeypatch.setattr(postgres_schema, "load_schema", lambda *_: known)
    with pytest.raises(StoreError, match="nonsense"):
        headrace.connect(postgres_url, migrate="auto")
    [[found]] = postgres.execute(f"select to_regclass('{schema}.extra')")
    assert found is None


def test_many_clients_may_create_the_schema_concurrently(postgres_url: str) -> None:
    """They race to be first. All of them work afterwards."""
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


def watch(
    client: headrace.Headrace, tell: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report synchronous_commit at the end of each transaction that writes."""
    store = client._store
    perform = store.perform

    def look(connection: Any, statements: Sequence[Any]) -> Any:
        names = [statement.name for statement in statements]
        ends = {"commit": 0, "append": 1, "claim_records": 1}
        [place] = [names.index(name) + n for name, n in ends.items() if name in names] or [None]
        if place is None:
            return perform(Send(connection, tuple(statements)))
        # Before COMMIT, or after a statement that is its own transaction.
        rows = perform(Send(connection, (*statements[:place], LOOK, *statements[place:])))
        tell(rows.pop(place)[0]["sync"])
        return rows

    def watched(action: Any) -> Any:
        is_send = isinstance(action, Send)
        return look(action.connection, action.statements) if is_send else perform(action)

    store.perform = watched
    monkeypatch.setattr(attempts, "send_autocommit", lambda c, statements, _: look(c, statements))


def watched(client: headrace.Headrace, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The synchronous_commit of each operation."""
    seen: dict[str, str] = {}
    current = [""]

    def probe(operation: str, point: object) -> None:
        current[0] = operation

    client._store.probe = probe
    watch(client, lambda sync: seen.update({current[0]: sync}), monkeypatch)
    client.commit("t", {})
    proc = client.procs.create("p", "t")
    proc.claim().ack()
    proc.delete()
    return seen


def test_safe_operations_wait_for_the_flush_and_claims_do_not(
    postgres_url: str, hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watched(hr, monkeypatch)
    assert seen == {
        "topics.commit": "on",
        "procs.create": "on",
        "procs.claim": "off",
        "procs.ack": "on",
        "procs.delete": "on",
    }
    with headrace.connect(f"{postgres_url}&durability=relaxed") as relaxed:
        assert set(watched(relaxed, monkeypatch).values()) == {"off"}


def test_a_claim_that_creates_a_dead_letter_waits_for_the_flush(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead letter is a record like any other. Readers may see it, so it must be durable."""
    clock = FakeClock()
    seen = []
    with headrace.connect(postgres_url, clock=clock) as client:
        client.commit_many("t", [{"n": 1}, {"n": 2}])
        proc = client.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter")
        proc.claim()
        watch(client, seen.append, monkeypatch)
        clock.advance(10)
        assert [record.seq for record in proc.claim()] == [1]
        assert client.topic("p-dead").length() == 1
    assert seen[-1] == "on"


def test_safe_holds_although_the_server_defaults_to_off(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting of a role or database must not weaken our guarantees."""
    with headrace.connect(f"{postgres_url}&options=-csynchronous_commit%3Doff") as client:
        seen = watched(client, monkeypatch)
    assert seen.pop("procs.claim") == "off"
    assert set(seen.values()) == {"on"}


@pytest.mark.parametrize("mode", ["local", "remote_write", "remote_apply"])
def test_another_default_that_waits_is_kept(
    postgres_url: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far standbys must be is for the server's owner to decide."""
    with headrace.connect(f"{postgres_url}&options=-csynchronous_commit%3D{mode}") as client:
        seen = watched(client, monkeypatch)
    assert seen.pop("procs.claim") == "off"
    assert set(seen.values()) == {mode}


def test_nothing_is_left_in_the_session(hr: headrace.Headrace) -> None:
    """So any server connection serves any operation, as behind a pooler in transaction mode."""
    hr.commit("t", {})
    hr.procs.create("p", "t").claim().ack()
    [connection] = hr._store.connections.pool._idle
    settings = connection.execute(
        "select current_setting('synchronous_commit') as sync, "
        "(select count(*) from pg_locks where locktype = 'advisory') as locks, "
        "current_setting('transaction_isolation') as isolation"
    ).fetchone()
    assert settings == {"sync": "on", "locks": 0, "isolation": "read committed"}


def test_every_operation_may_use_another_connection(hr: headrace.Headrace) -> None:
    """Operations work if each one gets a new connection."""
    give = hr._store.connections.pool.give
    hr._store.connections.pool.give = lambda owner, connection, is_good, is_lasting=False: give(
        owner, connection, is_good=False, is_lasting=is_lasting
    )
    hr.commit_many("t", [{"n": n} for n in range(3)])
    proc = hr.procs.create("p", "t")
    while claim := proc.claim():
        claim.ack_commit([("out", record.body) for record in claim])
    assert [record.body["n"] for record in hr.range("out")] == [0, 1, 2]


def test_lost_prepared_statements_are_survived(hr: headrace.Headrace) -> None:
    """The server session forgets them, and the operation is retried without them."""
    for n in range(8):
        hr.commit("t", {"n": n})
    [connection] = hr._store.connections.pool._idle
    # In a DO block, so that psycopg does not notice.
    connection.execute("do $$ begin execute 'deallocate all'; end $$")
    hr.commit("t", {"n": 8})
    assert hr._store.connections._prepares is False
    for n in range(8):
        hr.commit("t", {"n": n})
    assert hr.topic("t").length() == 17


def prepared(connection: Any) -> set[str]:
    rows = connection.execute("select name from pg_prepared_statements").fetchall()
    return {row["name"] for row in rows}


def transact(client: headrace.Headrace) -> None:
    """Often enough that every statement of it is prepared."""
    for n in range(8):
        with client.transaction() as tx:
            tx.commit("t", {"n": n})


def read(client: headrace.Headrace) -> None:
    for _ in range(8):
        client.range("t")


def test_a_prepared_statement_is_named_by_its_content(postgres_url: str) -> None:
    """Two clients that prepare the same statements in a different order use the same names."""
    names = []
    for turns in ((transact, read), (read, transact)):
        with headrace.connect(postgres_url) as client:
            client.commit("t", {})
            for turn in turns:
                turn(client)
            [connection] = client._store.connections.pool._idle
            texts = connection.execute("select name, statement from pg_prepared_statements")
            names.append({row["name"]: row["statement"] for row in texts})
    assert names[0]
    assert all(name.startswith("headrace_") for name in names[0])
    assert names[0] == names[1]


FAILING = Statement("failing", "select 1 / 0", {})


@pytest.mark.parametrize("failing", [(FAILING, LOOK), (LOOK, FAILING)])
def test_a_statement_is_prepared_again_if_what_it_was_sent_with_has_failed(
    hr: headrace.Headrace, failing: tuple[Statement, ...]
) -> None:
    """Whether or not the server has seen it, later uses work."""
    with hr._store.connections.connect(time.monotonic() + 30) as connection:
        for _ in range(5):
            send(connection, (LOOK,))
        with pytest.raises(psycopg.errors.DivisionByZero):
            send(connection, failing)
        for _ in range(12):
            assert send(connection, (LOOK, LOOK)) == [[{"sync": "on"}]] * 2
        assert prepared(connection)


def test_the_same_on_an_event_loop(postgres_url: str) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(postgres_url) as hr:
            connection = await hr._store.connections._aconnect(time.monotonic() + 30)
            for _ in range(5):
                await asend(connection, (LOOK,))
            with pytest.raises(psycopg.errors.DivisionByZero):
                await asend(connection, (FAILING, LOOK))
            for _ in range(12):
                assert await asend(connection, (LOOK, LOOK)) == [[{"sync": "on"}]] * 2
            await connection.close()

    asyncio.run(scenario())


def test_a_rollback_leaves_statements_prepared(hr: headrace.Headrace) -> None:
    for n in range(4):
        hr.commit("t", {"n": n})
    transact(hr)
    [connection] = hr._store.connections.pool._idle
    before = prepared(connection)
    with suppress(KeyError), hr.transaction() as tx:
        tx.commit("t", {})
        raise KeyError
    assert prepared(connection) >= before
    hr.commit("t", {})
    assert hr._store.connections._prepares is True


def test_a_transaction_that_the_server_has_ended_does_not_return(hr: headrace.Headrace) -> None:
    """After a failed statement the server answers COMMIT with ROLLBACK, and without an error."""
    hr.commit("t", {})
    [connection] = hr._store.connections.pool._idle

    def fail() -> None:
        with hr.transaction() as tx:
            tx.commit("t", {"n": "lost"})
            with suppress(psycopg.errors.DivisionByZero):
                connection.execute("select 1 / 0")

    with pytest.raises(StoreError, match="rolled back"):
        fail()
    assert hr.topic("t").length() == 1


def test_the_same_from_async_code(postgres_url: str) -> None:
    async def scenario() -> None:
        async with await headrace.aconnect(postgres_url) as hr:
            await hr.commit("t", {})
            [connection] = hr._store.connections.async_pool()._idle

            async def fail() -> None:
                async with hr.transaction() as tx:
                    await tx.commit("t", {"n": "lost"})
                    with suppress(psycopg.errors.DivisionByZero):
                        await connection.execute("select 1 / 0")

            with pytest.raises(StoreError, match="rolled back"):
                await fail()
            assert await hr.topic("t").length() == 1

    asyncio.run(scenario())


REPLICA = "options=-csession_replication_role%3Dreplica"


def test_records_are_numbered_for_a_role_without_triggers(postgres_url: str) -> None:
    """``session_replication_role = replica`` switches triggers and foreign keys off."""
    with headrace.connect(f"{postgres_url}&{REPLICA}") as hr:
        with hr.transaction() as tx:
            receipt = tx.commit([("t", {"n": 1}), ("t", {"n": 2})])
        hr.commit("t", {"n": 3})
        assert hr.resolve(receipt) == [record.id for record in hr.range("t")][:2]
        assert [record.body["n"] for record in hr.range("t")] == [1, 2, 3]


def test_the_same_in_a_transaction_of_yours(hr: headrace.Headrace, postgres_url: str) -> None:
    """Even if it is switched off only there, and only for a moment."""
    with psycopg.connect(postgres_url.partition("?")[0]) as connection:
        connection.execute("set local session_replication_role = replica")
        receipt = hr.using(connection).commit("t", {"n": 1})
        connection.execute("set local session_replication_role = origin")
        connection.commit()
    assert hr.resolve(receipt) == [record.id for record in hr.range("t")]


def test_a_proc_is_removed_with_its_claim_without_foreign_keys(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    with headrace.connect(f"{postgres_url}&{REPLICA}") as hr:
        hr.commit("t", {})
        proc = hr.procs.create("p", "t")
        assert proc.claim() is not None
        proc.delete()
        assert postgres.execute(f"select * from {schema}.proc_claim") == []


@pytest.mark.parametrize("level", ["serializable", "repeatable%20read"])
def test_another_default_isolation_level_does_no_harm(postgres_url: str, level: str) -> None:
    """Our transactions set the level that they need."""
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
        assert client.topic("t").length() == 81


def test_many_threads_share_a_client(hr: headrace.Headrace) -> None:
    """There are more threads than connections. Numbers stay dense."""
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
    """There are more tasks than connections, and two event loops one after the other."""

    async def scenario(client: headrace.AsyncHeadrace) -> int:
        await asyncio.gather(*(client.commit("t", {"n": n}) for n in range(50)))
        return await client.topic("t").length()

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
    with pytest.raises(StoreError, match=r"are missing.*Connect again"):
        hr.commit("t", {})
    assert hr.status == -1


def test_an_old_snapshot_blocks_nothing(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    """A foreign old transaction neither blocks commits, claims and pruning nor is disturbed."""
    hr.commit_many("t", [{"n": n} for n in range(10)])
    proc = hr.procs.create("p", "t")
    with psycopg.connect(postgres.url) as old:
        old.execute("set transaction isolation level repeatable read")
        look = f"select seq from {schema}.record where topic = 't' order by seq".encode()
        before = old.execute(look).fetchall()
        for n in range(300):
            hr.commit("t", {"n": n})
            proc.claim(count=2).ack()
        hr.topic("t").set_retention(min_age=0.001)
        report = hr.admin.maintain(force=True)
        assert report.collected[0].first_seq > 10
        assert old.execute(look).fetchall() == before
    assert proc.lag().records == 0
    assert hr.topic("t").info().next_seq == 310


def test_a_connection_has_one_commit_marker(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    """Until it was idle for an hour. Markers do not pile up, however many transactions and clients
    there are."""
    clock = FakeClock()
    table = f"{schema}.commit_marker"
    with headrace.connect(postgres_url, clock=clock) as hr:
        for n in range(5):
            hr.upsert("q", n, subject="s")
        [[own]] = postgres.execute(f"select connection from {table}")
        for age in (3_600_000, 3_599_999):
            values = f"gen_random_uuid(), 1, {clock.now - age}"
            postgres.execute(f"insert into {table} values ({values})")
        hr.admin.maintain(force=True)
        left = postgres.execute(f"select connection, at from {table} order by at")
        assert [at for _, at in left] == [clock.now - 3_599_999, clock.now]
        assert left[-1][0] == own


def test_maintenance_waits_for_no_transaction(postgres_url: str) -> None:
    """Not even for one that is open for longer than commit markers are kept."""
    clock = FakeClock()
    with headrace.connect(postgres_url, clock=clock) as hr, ThreadPoolExecutor(1) as threads:
        # So that there is a row of its connection.
        with hr.transaction() as tx:
            tx.commit("t", {"n": 1})
        with hr.transaction() as tx:
            tx.commit("t", {"n": 2})
            clock.advance(7200)
            threads.submit(hr.admin.maintain, force=True).result(30)
        assert hr.topic("t").length() == 2


def test_a_reused_transaction_id_proves_nothing(
    hr: headrace.Headrace, postgres: PrivatePostgres
) -> None:
    """After a crash the server reuses transaction ids. Only its commit marker identifies a
    transaction."""
    store = hr._store
    assert isinstance(store, PostgresStore)
    [[xid]] = postgres.execute("select pg_current_xact_id()::text")
    identity = Identity(xid, CommitMarker(batch_id(), 1), time.monotonic())
    assert store.drive(store.resolver.ask(identity)) == "aborted"
    # Too long ago: its commit marker may be deleted.
    old = identity._replace(marked_at=identity.marked_at - 3600)
    assert store.drive(store.resolver.ask(old)) == "unknown"


def test_a_transaction_in_progress_is_waited_for(
    hr: headrace.Headrace, postgres: PrivatePostgres
) -> None:
    """It is not reported as rolled back while it may still commit."""
    store = hr._store
    assert isinstance(store, PostgresStore)
    with psycopg.connect(postgres.url) as other:
        [[xid]] = other.execute("select pg_current_xact_id()::text").fetchall()
        identity = Identity(xid, CommitMarker(batch_id(), 1), time.monotonic())
        assert store.drive(store.resolver.ask(identity)) == "in progress"
        other.rollback()
        assert store.drive(store.resolver.ask(identity)) == "aborted"


def test_positions_do_not_depend_on_a_plan(
    postgres: PrivatePostgres, postgres_url: str, schema: str
) -> None:
    """Items become due in the order of their times, even if the server believes the table to be
    small and scans it sequentially."""
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
    """In one transaction, after several scans over all channels found nothing."""
    asked = []

    def never_enough(*_: Any, **options: Any) -> Steps[list[Any]]:
        asked.append(options["channels"])
        yield from ()
        return [{"answer": "more", "items": None}]

    queue = hr.queue("q")
    queue.push(1, channel={"os": "linux"})
    queue.claim(1, select=where(os="linux"))
    queue.push(2, channel={"os": "linux"})
    monkeypatch.setattr(channel_claim, "_claim", never_enough)
    assert [item.payload for item in queue.claim(9, select=where(os="linux"))] == [2]
    assert 2 <= len(asked) <= 5


def test_expired_items_locked_by_others_do_not_slow_claims_down(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open transaction is about to settle them. Claims that have missed the same lease for some
    time check again a second later."""
    monkeypatch.setattr(cache, "ENDING_SECONDS", 0.0)
    tries = []
    ending = QueueSettlements.end_leases

    def counted(claims: QueueSettlements, queue: Any) -> Any:
        tries.append(queue.name)
        return ending(claims, queue)

    monkeypatch.setattr(QueueSettlements, "end_leases", counted)
    schema = postgres_url.partition("schema=")[2]
    with (
        headrace.connect(postgres_url) as hr,
        psycopg.connect(postgres_url.split("?", maxsplit=1)[0]) as other,
    ):
        queue = hr.queue("q")
        queue.push_many(range(9))
        [item] = queue.claim(1, lease=0.001)
        other.execute(f"select from {schema}.item where id = {item.id} for update".encode())
        until(lambda: item.deadline < datetime.now(UTC), "the end of the lease")
        assert [queue.claim(1)[0].payload for _ in range(5)] == [1, 2, 3, 4, 5]
        assert tries == ["q", "q"]
        other.rollback()
        until(lambda: 0 in [item.payload for item in queue.claim(1)], "the lapsed item")
        assert tries == ["q", "q", "q"]
