"""The view of single records, for anybody with a SQL shell."""

import json
import sqlite3

import psycopg

import headrace
from headrace.testing.clocks import FakeClock

BODIES = [{"n": 1, "text": 'a "b"\n\u2028 ü'}, [1, 2], {}]


def test_sqlite_view_shows_records(sqlite_url: str) -> None:
    """One row per record, body and headers as JSON, ids as Headrace writes them."""
    clock = FakeClock()
    with headrace.connect(sqlite_url, clock=clock) as hr:
        hr.commit([("t", BODIES[0], {"h": "x"}), ("t", BODIES[1]), ("u", BODIES[2])])
        hr.commit("t", BODIES[2])
        ids = [record.id for record in hr.range("t")]
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    rows = connection.execute(
        "select id, seq, ts, body, headers, committed_at from headrace_record "
        "where topic = 't' order by seq"
    ).fetchall()
    connection.close()
    assert [row[0] for row in rows] == ids
    assert [row[1] for row in rows] == [0, 1, 2]
    assert {row[2] for row in rows} == {clock.now}
    assert [json.loads(row[3]) for row in rows] == BODIES
    assert [row[4] and json.loads(row[4]) for row in rows] == [{"h": "x"}, None, None]
    assert rows[0][5] == "2018-02-18T10:58:00.106Z"


def test_postgres_view_shows_records(postgres_url: str) -> None:
    """The same on PostgreSQL, also for text that jsonb would refuse."""
    clock = FakeClock()
    odd = [*BODIES, {"nul": "\0"}]
    with headrace.connect(postgres_url, clock=clock) as hr:
        hr.commit([("t", body, {"h": "x"} if n == 0 else None) for n, body in enumerate(odd)])
        ids = [record.id for record in hr.range("t")]
    url, _, schema = postgres_url.partition("?schema=")
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            f"select id, seq, ts, body, headers from {schema}.record "
            "where topic = 't' order by seq".encode()
        ).fetchall()
    assert [row[0] for row in rows] == ids
    assert [row[1] for row in rows] == [0, 1, 2, 3]
    assert [row[3] for row in rows] == odd
    assert [row[4] for row in rows] == [{"h": "x"}, None, None, None]
