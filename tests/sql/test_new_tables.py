"""Claims, and whatever goes by keys, on tables that have grown since they were analysed."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import headrace
from faults.polling import until
from headrace.contract.items import ClaimRequest, Outcome
from headrace.drivers.postgres.store import DIALECT
from headrace.drivers.sql_common.statements import Statements
from headrace.model.tokens import claim_token
from headrace.testing.postgres import PrivatePostgres

ROWS = 400_000
COUNT = 100
MANY = 60_000
MAX_PAGES = 4000
"""Less than it takes to read them all."""

COMMON: dict[str, Any] = {
    "token": "t",
    "count": COUNT,
    "lease": 60_000,
    "worker": None,
    "keeps_counts": True,
    "sign": 1,
    "ignores_expired": False,
    "now": None,
    "rule_version": 0,
}
CLAIMS: dict[str, dict[str, Any]] = {
    "claim_items": {"floor_rank": None, "floor_position": None},
    "claim_in_turn": {
        "quantum": COUNT,
        "is_strict": False,
        "selection": None,
        "channels": None,
        "are_all": True,
        "is_tight": False,
        "floor_turn": None,
    },
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_need_no_statistics(
    postgres: PrivatePostgres, new_postgres_url: str, name: str
) -> None:
    """Many items are pushed to a new store. The server takes the table for small until it is
    analysed, and to sort a small one seems cheap; all the same the line is read in its order."""
    schema = new_postgres_url.rpartition("=")[2]
    with headrace.connect(new_postgres_url) as hr:
        queue = hr.queue("q")
        queue.push(0, channel={"os": "linux"} if name == "claim_in_turn" else None)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"alter table {schema}.item set (autovacuum_enabled = off)".encode())
        columns = "queue, channel, rank, payload, format, priority, state"
        times = "next_execution, waiting_since, created_at"
        connection.execute(
            f"insert into {schema}.item ({columns}, position, {times})"
            f" select {columns}, position + n, {times}"
            f" from {schema}.item, generate_series(1, {ROWS}) n".encode()
        )
        [(id, version)] = connection.execute(
            f"select id, version from {schema}.queue where name = 'q'".encode()
        ).fetchall()
        text = Statements(DIALECT, f"{schema}.").texts[name]
        values = {"queue": id, "version": version, **COMMON, **CLAIMS[name]}
        # Once before: to compile the functions reads pages of the catalogue.
        with connection.transaction(force_rollback=True):
            connection.execute(text.encode(), values)
        rows = connection.execute(f"explain (analyze, buffers) {text}".encode(), values).fetchall()
        [(claimed,)] = connection.execute(
            f"select count(*) from {schema}.item where state = 2".encode()
        ).fetchall()
    plan = "\n".join(row[0] for row in rows)
    [pages] = re.findall(r"Buffers: shared hit=(\d+)", plan.partition("Planning:")[0])
    assert claimed == COUNT
    assert int(pages) < MAX_PAGES, plan


def reject(queue: headrace.Queue) -> None:
    queue.push(1)
    queue.claim(1)[0].reject("no", delay=3600)


def release(queue: headrace.Queue) -> None:
    queue.claim(1)[0].release()


def reschedule(queue: headrace.Queue) -> None:
    queue.claim(1)[0].reschedule(delay=0)


def kill(queue: headrace.Queue) -> None:
    queue.push(1)
    queue.claim(1)[0].kill("no")


def complete(queue: headrace.Queue) -> None:
    queue.push_many([1, 2])
    queue.complete(queue.claim(2))


def complete_confirmed(queue: headrace.Queue) -> None:
    """As workers do under a rule: they confirm a claim before they begin."""
    queue.push_many([1, 2])
    store = queue._client._store
    request = ClaimRequest(queue="q", token=claim_token(), count=2, may_confirm=True)
    response = store.run(store.queues.claim(request))
    if response.confirm is not None:
        op = response.confirm(response.items[0].id)
        assert op is not None
        assert store.run(op)
    outcomes = [
        Outcome(item=item.id, token=request.token, kind="complete") for item in response.items
    ]
    store.run(store.queues.settle("q", outcomes))


def extend(queue: headrace.Queue) -> None:
    [item] = queue.claim(1)
    item.extend(60)
    item.release()


def upsert(queue: headrace.Queue) -> None:
    queue.upsert(1, subject="s", delay=3600)


def push_again(queue: headrace.Queue) -> None:
    queue.push_many([headrace.Doc(1, subject="s", delay=3600), headrace.Doc(2, subject="t")])


def rule(queue: headrace.Queue) -> None:
    queue._client.limits.create(None, 5, queue="q", name="few")
    queue._client.limits.delete("few")


ACTS = [
    *(reject, release, reschedule, kill, complete, complete_confirmed),
    *(extend, upsert, push_again, rule),
]


@pytest.mark.parametrize("few", [1, 5, 40])
@pytest.mark.parametrize("act", ACTS)
def test_plans_of_a_small_table_do_not_stay(
    postgres: PrivatePostgres,
    new_postgres_url: str,
    act: Callable[[headrace.Queue], None],
    few: int,
) -> None:
    """A client works on a queue that has hardly anything, and the server keeps its plans. Then
    there are many items, and nobody has analysed the table: all the same nothing reads them all."""
    schema = new_postgres_url.rpartition("=")[2]
    others = sessions(postgres)
    with headrace.connect(new_postgres_url) as hr:
        queue = hr.queue("q")
        queue.push_many(range(few))
        if act is complete_confirmed:
            hr.limits.create(None, 1000, queue="q")
        postgres.execute(f"alter table {schema}.item set (autovacuum_enabled = off)")
        for _ in range(2):
            postgres.execute(f"vacuum analyze {schema}.item")
            # The sixth time a statement is prepared, and from the eleventh on its plan is kept.
            for _ in range(12):
                act(queue)
        subject = "'many ' || n" if act is push_again else "null"
        postgres.execute(
            f"insert into {schema}.item (queue, payload, subject, state, position, next_execution,"
            f" waiting_since, created_at) select id, '1', {subject}, 1, n + 1000000, 0, 0, 0"
            f" from {schema}.queue, generate_series(1, {MANY}) n where name = 'q'"
        )
        for _ in range(3):
            act(queue)
        ours = sessions(postgres) - others
    # A session reports what it has read when it ends.
    until(lambda: not ours & sessions(postgres), "the end of the client's sessions")
    [[read]] = postgres.execute(f"""
        select coalesce(max(seq_tup_read), 0) + sum(idx_tup_read)
        from pg_stat_user_tables t join pg_stat_user_indexes i using (relid)
        where t.schemaname = '{schema}' and t.relname = 'item'
    """)
    assert read < MANY


@pytest.mark.parametrize("few", [0, 5, 40])
def test_keys_are_searched_one_by_one(
    postgres: PrivatePostgres, new_postgres_url: str, few: int
) -> None:
    """The same for idempotency keys: neither a new key nor a repeat reads those of other calls."""
    schema = new_postgres_url.rpartition("=")[2]
    others = sessions(postgres)
    with headrace.connect(new_postgres_url) as hr:

        def act(key: str) -> None:
            for _ in range(2):
                hr.push("q", 1, subject=key, key=key)
                hr.commit("t", {}, key=key)

        hr.push("q", 0)
        hr.queue("q").pause()
        postgres.execute(f"alter table {schema}.idempotency_key set (autovacuum_enabled = off)")
        add_keys(postgres, schema, "few", few)
        postgres.execute(f"vacuum analyze {schema}.idempotency_key")
        for number in range(12):
            act(f"early {number}")
        add_keys(postgres, schema, "many", MANY)
        for number in range(3):
            act(f"late {number}")
        ours = sessions(postgres) - others
    until(lambda: not ours & sessions(postgres), "the end of the client's sessions")
    [[read]] = postgres.execute(f"""
        select coalesce(max(seq_tup_read), 0) + sum(idx_tup_read)
        from pg_stat_user_tables t join pg_stat_user_indexes i using (relid)
        where t.schemaname = '{schema}' and t.relname = 'idempotency_key'
    """)
    assert read < MANY


def add_keys(postgres: PrivatePostgres, schema: str, word: str, count: int) -> None:
    """Keys that pushes and commits have used, for ever."""
    postgres.execute(
        f"insert into {schema}.idempotency_key (scope, key, until)"
        f" select scope, '{word}' || n, {2**50}"
        f" from unnest(array['push', 'commit']) scope, generate_series(1, {count}) n"
    )


def sessions(postgres: PrivatePostgres) -> set[int]:
    """Those of all clients, by their processes."""
    found = postgres.execute("select pid from pg_stat_activity where client_port is not null")
    return {pid for (pid,) in found}
