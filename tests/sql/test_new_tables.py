"""Claims, and whatever goes by keys, on tables that have grown since anybody looked at them."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import headrace
from faults.waiting import until
from headrace.drivers.postgres.store import DIALECT
from headrace.drivers.relational.sql import Sql
from headrace.testing.postgres import PrivatePostgres

ROWS = 400_000
COUNT = 100
MANY = 60_000
MOST_PAGES = 4000
"""Less than it takes to read them all."""

COMMON: dict[str, Any] = {
    "token": "t",
    "count": COUNT,
    "lease": 60_000,
    "worker": None,
    "keeps_counts": True,
    "sign": 1,
    "takes_any": False,
    "now": None,
    "rules": 0,
}
CLAIMS: dict[str, dict[str, Any]] = {
    "claim_at_once": {"floor_rank": None, "floor_position": None},
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
        text = Sql(DIALECT, f"{schema}.").texts[name]
        values = {"queue": id, "version": version, **COMMON, **CLAIMS[name]}
        rows = connection.execute(f"explain (analyze, buffers) {text}".encode(), values).fetchall()
        [(claimed,)] = connection.execute(
            f"select count(*) from {schema}.item where state = 2".encode()
        ).fetchall()
    plan = "\n".join(row[0] for row in rows)
    [pages] = re.findall(r"Buffers: shared hit=(\d+)", plan.partition("Planning:")[0])
    assert claimed == COUNT
    assert int(pages) < MOST_PAGES, plan


def reject(hr: headrace.Headrace) -> None:
    hr.queue("q").claim(1)[0].reject("no", delay=3600)


def release(hr: headrace.Headrace) -> None:
    hr.queue("q").claim(1)[0].release()


def reschedule(hr: headrace.Headrace) -> None:
    hr.queue("q").claim(1)[0].reschedule(delay=0)


def kill(hr: headrace.Headrace) -> None:
    hr.queue("q").claim(1)[0].kill("no")


def complete(hr: headrace.Headrace) -> None:
    hr.queue("q").complete(hr.queue("q").claim(2))


def extend(hr: headrace.Headrace) -> None:
    [item] = hr.queue("q").claim(1)
    item.extend(60)
    item.complete()


def upsert(hr: headrace.Headrace) -> None:
    hr.upsert("q", 1, subject="s", delay=3600)


def cancel(hr: headrace.Headrace) -> None:
    hr.queue("q").cancel(hr.push("q", 1).id)


def rule(hr: headrace.Headrace) -> None:
    hr.create_limit(None, 5, queue="q", name="few")
    hr.delete_limit("few")


@pytest.mark.parametrize(
    "act", [reject, release, reschedule, kill, complete, extend, upsert, cancel, rule]
)
def test_plans_of_a_small_table_do_not_stay(
    postgres: PrivatePostgres, new_postgres_url: str, act: Callable[[headrace.Headrace], None]
) -> None:
    """A client works on a queue that has hardly anything, and the server keeps its plans. Then
    there are many items, and nobody has analysed the table: all the same nothing reads them all."""
    schema = new_postgres_url.rpartition("=")[2]
    with headrace.connect(new_postgres_url) as hr:
        hr.push_many("q", range(40))
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            off = "autovacuum_enabled = off"
            connection.execute(f"alter table {schema}.item set ({off})".encode())
            connection.execute(f"vacuum analyze {schema}.item".encode())
            for _ in range(8):
                act(hr)
            connection.execute(
                f"insert into {schema}.item (queue, payload, state, position, next_execution,"
                f" waiting_since, created_at) select id, '1', 1, n + 1000000, 0, 0, 0"
                f" from {schema}.queue, generate_series(1, {MANY}) n where name = 'q'".encode()
            )
        for _ in range(3):
            act(hr)
    # What a session has read is told when it ends.
    looks = f"""
        select coalesce(max(seq_tup_read), 0) + sum(idx_tup_read)
        from pg_stat_user_tables t join pg_stat_user_indexes i using (relid)
        where t.schemaname = '{schema}' and t.relname = 'item'
    """
    ended = f"select count(*) from pg_stat_activity where query like '%{schema}%' and pid <> pg_backend_pid()"
    until(lambda: postgres.execute(ended) == [(0,)], "the end of the client's sessions")
    [[read]] = postgres.execute(looks)
    assert read < MANY
