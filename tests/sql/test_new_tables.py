"""Claims on tables that have grown since anybody looked at them."""

import re
from typing import Any

import psycopg
import pytest

import headrace
from headrace.drivers.postgres.store import DIALECT
from headrace.drivers.relational.sql import Sql
from headrace.testing.postgres import PrivatePostgres

ROWS = 400_000
COUNT = 100
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
