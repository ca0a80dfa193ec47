"""Hot statements stay on their indexes when the tables are large."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

import headrace
from headrace.drivers.postgres.store import DIALECT as POSTGRES
from headrace.drivers.relational.sql import Sql
from headrace.drivers.sqlite.store import DIALECT as SQLITE
from headrace.testing.postgres import PrivatePostgres

ROWS = 20_000
TS = 1_518_951_480_106
HOT: dict[str, dict[str, Any]] = {
    "lock_heads": {"names": ["t-7"], "now": None},
    "head": {"topic": "t-7", "now": None},
    "move_head": {"topic": 7, "next_seq": 1, "ts": 1},
    "time_cut": {"topic": "t-7", "ts": TS + 5000},
    "read_up": {
        "topic": "t-7",
        "low": 9000,
        "high": 9100,
        "span": 100,
        "max_bytes": 10,
        "known": "",
    },
    "read_down": {"topic": "t-7", "low": 0, "high": 9100, "span": 100, "max_bytes": 9, "known": ""},
    "read_once": {"scope": "commit", "keys": ["k-7"]},
    "settle_once": {"scope": "commit", "key": "k-7", "outcome": None},
    "lock_proc": {"proc": "p-7"},
    "load_proc": {"proc": "p-7", "now": None},
    "definition": {"pipeline": "l-7"},
    "extend_hold": {"id": 7, "deadline": 5},
    "release": {"id": 7},
    "candidates": {"names": ["p-7", "p-8"], "now": None},
    "move_floor": {"topic": 7, "first_seq": 5},
    "drop_batches": {"topic": 7, "first_seq": 50, "limit": 100},
    "drop_expired_keys": {"now": 50, "limit": 100},
    "find_queue": {"name": "q-7", "now": None},
    "lock_queue": {"name": "q-7", "now": None},
    "find_subjects": {"queue": 7, "subjects": ["s-7", "s-9"]},
    "find_subject": {"queue": 7, "subject": "s-7"},
    "find_item": {"queue": 7, "id": 7},
    "lock_item": {"queue": 7, "id": 7},
    "load_items": {"queue": 7, "ids": [7, 8, 9]},
    "remove_items": {"queue": 7, "ids": [7, 8, 9]},
    "complete_items": {"queue": 7, "ids": [7, 8, 9], "token": "t"},
    "find_claim": {"queue": 7, "item": 7, "token": "t"},
    "extend_items": {"queue": 7, "ids": [7, 8, 9], "token": "t", "lease": 5, "now": None},
    "due_items": {"queue": 7, "now": TS + 100, "limit": 10},
    "first_items": {"queue": 7, "limit": 10},
    "ended_leases": {"queue": 7, "now": TS + 100, "limit": 10},
    "next_times": {"queue": 7},
    "find_used": {"queue": 7, "subjects": ["s-7"]},
    "lock_sink": {"sink": "s-7", "now": None},
    "move_sink": {"sink": "s-7", "batch": 1, "outcome": "{}", "now": None},
    "free_subject": {"queue": 7, "subject": "s-7"},
    "find_ended": {"queue": 7, "id": 50_007},
    "lock_ended": {"queue": 7, "id": 50_007},
    "find_ended_subject": {"queue": 7, "subject": "s-7"},
    "list_ended": {"queue": 7, "state": -1, "after": 55_000, "limit": 10},
    "drop_ended": {"queue": 7, "state": -1, "at": TS + 100, "limit": 10},
    "drop_errors": {"queue": 7, "at": TS + 100, "limit": 10},
    "list_errors": {"queue": 7, "item": None, "before": 5000, "limit": 10},
    "last_sample": {"queue": 7},
    "list_samples": {"queue": 7, "since": TS + 5000, "limit": 10},
    "drop_samples": {"queue": 7, "at": TS + 100, "limit": 10},
    "drop_used": {"queue": 7, "at": TS + 100, "limit": 10},
    "remove_ended": {"queue": 7, "ids": [50_007, 50_008]},
    "hold_channels": {"queue": 8, "names": ["c-7", "c-8"]},
    "mark_updateable": {"channels": [7, 8]},
    "empty_channels": {"queue": 8, "names": ["c-7", "c-8"]},
    "emptied_channels": {"channels": [7, 8]},
    "drop_turns": {"channels": [7, 8]},
    "next_channels": {"queue": 8, "lane": 0, "after": 5, "limit": 10},
    "lock_turns": {"channels": [7, 8]},
    "blocked_channels": {"channels": [7, 8]},
    "channel_items": {"channels": [7, 8], "each": 5, "limit": 8, "but": [7, 8]},
    "last_in_line": {"queue": 8, "names": ["c-7", "c-8"], "certain": ["c-8"]},
    "channel_sizes": {"queue": 8, "names": ["c-7", "c-8"]},
    "give_once": {"scope": "commit", "key": "k-7"},
    "line_items": {"queue": 7, "rank": 0, "position": 5000, "limit": 10},
    "pending_items": {"ids": [7, 8]},
    "channel_members": {"channels": [7, 8]},
    "lock_channels": {"channels": [7, 8]},
    "drop_channels": {"channels": [7, 8]},
    "find_gone": {"queue": 8, "items": [7, 8]},
    "find_selection": {"queue": 8, "form": "f"},
    "list_selections": {"queue": 8},
    "list_lanes": {"queue": 8},
    "lane_channels": {"queue": 8, "lane": 0, "limit": 10},
    "drop_selections": {"ids": [7, 8]},
    "drop_gone": {"queue": 8, "at": TS + 100, "limit": 10},
    "look_at_buckets": {"names": ["q|running|b-7", "q|running|b-8"]},
    "lock_buckets": {"names": ["q|running|b-7", "q|running|b-8"]},
    "lock_free_buckets": {"names": ["q|running|b-7", "q|running|b-8"]},
    "await_buckets": {"buckets": [7, 8]},
    "unawait_buckets": {"buckets": [7, 8]},
    "end_waits": {"buckets": [7, 8]},
    "find_limit": {"id": "r-7"},
    "count_running": {"queues": [9]},
    "list_running": {"queues": [9], "after": 0, "limit": 10},
    "end_hold": {"queue": 8, "key_values": "c-7"},
    "find_hold": {"queue": 8, "key_values": "c-7", "now": 5},
    "held_channels": {"queue": 8, "now": TS + ROWS - 10},
    "drop_holds": {"queue": 8, "now": TS + 10},
    "find_counter": {"session": "s-7"},
    "lock_counter": {"session": "s-7"},
    "change_counter": {"session": "s-7", "count": 1},
    "extend_counter": {"session": "s-7", "lease": 5, "now": 5},
    "drop_counters": {"sessions": ["s-7", "s-8"]},
    "ended_counters": {"now": TS + 10, "limit": 10},
    "overdue": {"queue": 7, "now": TS + 10},
    "find_lock": {"key_values": "k-7"},
    "load_lock": {"key_values": "k-7"},
    "lock_line": {"key_values": "k-7"},
    "take_lock": {"id": 7, "session": "s", "holder": "h", "since": 5, "until": 5},
    "keep_place": {"session": "s-7", "ttl": 5, "now": 5},
    "drop_place": {"session": "s-7"},
    "extend_lock": {"key_values": "k-7", "session": "s-7", "lease": 5, "now": 5},
    "free_lock": {"key_values": "k-7", "session": "s-7", "now": 5},
    "guard_lock": {"key_values": "k-7", "session": "s-7"},
    "idle_locks": {"age": 0, "limit": 10, "now": TS + 100},
    "drop_locks": {"ids": [7, 8]},
}
# What these read of a queue is all that there is in some state, not all that there is.
PARTIAL = {"held_items", "active_items", "oldest_due"}
# Only SQLite has these.
HOT_ON_SQLITE: dict[str, dict[str, Any]] = {
    "next_records": {"proc": "p-7", "known": "", "now": None},
    "push_now": {
        "queue": 7,
        "name": "q-7",
        "version": 1,
        "rank": 0,
        "sign": 1,
        "priority": 0,
        "payload": "1",
        "format": 0,
        "headers": None,
        "overrides": None,
        "now": None,
    },
    "note_claim": {"id": 7, "range": "1-1..1-1", "now": 5},
    "next_items": {"queue": 7, "token": "t", "worker": None, "lease": 5, "count": 10, "now": 5},
    "open_files": {"queue": 7},
    "file_channels": {"channel": 7, "queue": 7, "bucket": 7, "most": 2},
    "unfile_channels": {"channels": [7, 8]},
    "drop_files": {"ids": [7, 8]},
    "await_files": {"queue": 7},
    "await_filed": {"queue": 7},
    "unfile_queues": {"queues": [7, 8]},
    "remove_files": {"queues": [7, 8]},
}
# Only PostgreSQL has these.
HOT_ON_POSTGRES: dict[str, dict[str, Any]] = {
    "find_topics": {"names": ["t-7"], "now": None},
    "find_numbered": {
        "topic": "t-7",
        "since": TS + ROWS - 50,
        "id": "00000000-0000-0000-0000-000000000000",
    },
    "find_batches": {"ids": ["00000000-0000-0000-0000-000000000000"]},
    "subject_items": {"queue": 7, "subjects": ["s-7"]},
    "walk_channels": {"queue": 8, "after": 5, "limit": 10},
    "find_receipt": {"receipt": "00000000-0000-0000-0000-000000000000"},
    "find_signature": {
        "connection": "00000000-0000-0000-0000-000000000000",
        "transaction": 7,
    },
    "enter_queue": {"name": "q-7"},
    "count_staged": {"tokens": ["x-7"]},
    "number_staged": {"tokens": ["x-7"], "topics": [7], "bases": [5], "ts": 5},
    "staged_documents": {
        "stage": "x-7",
        "after": "00000000-0000-0000-0000-000000000000",
        "limit": 10,
    },
    "drop_staged": {"tokens": ["x-7"]},
    "drop_staged_documents": {"tokens": ["x-7"]},
    "notify": {"channel": "c", "topics": "t"},
    "drop_waiter": {"id": "00000000-0000-0000-0000-000000000000"},
}
# Nothing looks anything up here.
INSERTS = {"add_topics", "add_batch", "take_once", "add_proc", "hold", "take_lease"} | {
    *("add_items", "add_plain_items", "restore_item", "add_ended", "add_errors", "add_sample"),
    *(
        "add_tally",
        "add_queue",
        "save_defaults",
        "use_subject",
        "take_subjects",
        "take_turns",
        "last_item",
    ),
    *("read_clock", "keep_client", "keep_worker", "add_sink"),
    *("enter_limits", "close_limits", "close_queues", "add_limits", "add_overrides"),
    *("set_buckets", "add_buckets", "add_waits", "limit_version", "next_limit_version"),
    *(
        "add_channels",
        "add_channel_items",
        "add_selection",
        "add_lane",
        "add_turns",
        "add_gone",
        "push_alone",
        "add_lock",
    ),
    *("save_place", "hold_channel", "add_counter"),
}
# Rows by their primary key, many at once; on SQLite they are sent one by one.
BY_KEY = {"save_items", "place_items", "hand_out_items", "save_queue", "save_ended"} | {
    *(
        "move_turns",
        "rechannel_items",
        "mark_channels",
        "see_selection",
        "change_selections",
        "sort_channels",
        "sort_turns",
        "set_queue_limits",
    ),
    *("change_buckets", "mark_buckets"),
}
INSERTS_ON_SQLITE = {"count_push", "count_claim", "add_files", "pass_turn"}
INSERTS_ON_POSTGRES = {
    "append",
    "claim_next",
    "push_at_once",
    "push_one_at_once",
    "push_payloads",
    "push_to_channels",
    "claim_at_once",
    "claim_in_turn",
    "claim_in_line",
    "complete_at_once",
    "complete_counted",
    "bind_channels",
    "flush",
    "begin_relaxed",
    "secure_claims",
    "take_receipt",
    "close_queue",
    "sign",
} | {"add_unnumbered", "keep_waiter", "set_clock", "stage_batch", "stage_documents"}
# Seldom, or meant to look at everything.
COLD = {"list_topics", "load_procs", "save_proc", "drop_proc", "set_ages", "collectable"} | {
    *("define_proc", "definitions"),
    *("drop_expired_procs", "list_queues", "read_defaults", "list_items", "waiting_items"),
    *("count_items", "count_ended", "rerank_items", "dead_items", "look_at_dead", "count_dead"),
    *("dead_groups", "remove_queue", "remove_all_items", "remove_all_ended", "remove_all_used"),
    *("remove_all_errors", "remove_all_samples", "remove_tallies", "sum_tallies"),
    *("fold_tallies", "compare_tallies", "drop_other_workers", "drop_workers", "drop_client"),
    *(
        "list_channels",
        "idle_channels",
        "remove_all_turns",
        "remove_all_channels",
        "remove_all_selections",
        "remove_all_lanes",
        "remove_all_holds",
    ),
    "remove_all_gone",
    *("list_limits", "remove_limits", "remove_overrides", "limited_queues", "queue_names"),
    *("count_held", "list_held", "clear_buckets", "drop_buckets"),
    *("sum_counters", "counter_holders", "list_counters", "next_counter_end"),
    *("list_locks", "drop_places", "raise_fence_floor"),
    *("list_clients", "list_workers", "desire", "silent_clients", "find_sinks", "drop_sink"),
}
COLD_ON_POSTGRES = {"old_stages", "fate", "drop_signatures"}

FILL = """
insert into headrace.topic (name, next_seq, last_ts)
    select 't-' || n, {rows}, {ts} + {rows} from series where n < 200;
insert into headrace.batch (id, topic, base_seq, count, ts, body)
    select {id}, 7, n, 1, {ts} + n, '{{}}' from series;
insert into headrace.sink (name, query_id, last_batch, at, outcome)
    select 's-' || n, 'q', 1, 0, '{{}}' from series where n < 2000;
insert into headrace.once (scope, key, until) select 'commit', 'k-' || n, n from series;
insert into headrace.proc (name, topic, origin, created_at, max_reclaims, on_max_reclaims_reached)
    select 'p-' || n, 7, '>', 0, 10, 'disable' from series where n < 2000;
insert into headrace.proc (name, topic, origin, created_at, max_reclaims, on_max_reclaims_reached,
                           pipeline, definition)
    select 'l-' || n, 7, '>', 0, 10, 'disable', 'l-' || n, '{{}}' from series where n < 2000;
insert into headrace.proc_claim (proc, token, first_seq, last_seq)
    select id, 'x', 0, 0 from headrace.proc;
insert into headrace.queue (name, settings, version, created_at, is_live, is_paused)
    select 'q-' || n, '{{}}', 1, 0, true, false from series where n < 200;
insert into headrace.item (queue, state, position, next_execution, waiting_since, created_at,
                           lease_until, subject, payload)
    select 7, n % 3, n, {ts} + n, 0, 0, {ts} + n, 's-' || n, '{{}}' from series;
insert into headrace.ended (id, queue, state, priority, next_execution, waiting_since, created_at,
                            attempts, crashes, iterations, format, subject, payload, ended_at, cause)
    select 50000 + n, 7, case when n % 2 = 0 then -1 else 3 end, 0, 0, 0, 0, 0, 0, 0, 0,
           's-' || n, '{{}}', {ts} + n, 'killed' from series;
insert into headrace.used (queue, subject, at) select 7, 's-' || n, {ts} + n from series;
insert into headrace.error (queue, at, item, attempt, failure)
    select 7, {ts} + n, n, 1, '{{}}' from series;
insert into headrace.sample (queue, at, counts) select 7, {ts} + n, '{{}}' from series;
insert into headrace.channel (queue, key_values, created_at)
    select 8, 'c-' || n, {ts} + n from series where n < 2000;
insert into headrace.ready (channel, queue, turn) select n + 1, 8, n from series where n < 2000;
insert into headrace.item (queue, state, position, next_execution, waiting_since, created_at,
                           lease_until, payload, channel, key_values)
    select 8, n % 3, n, {ts} + n, 0, 0, {ts} + n, '{{}}', n % 2000 + 1, 'c-' || (n % 2000)
    from series;
insert into headrace.gone (item, queue, token, at) select n, 8, 't', {ts} + n from series;
insert into headrace.limit_rule (id, queue, measure, key_values, most)
    select 'r-' || n, 'q', 'running', 'b-' || n, 5 from series where n < 2000;
insert into headrace.limit_override (rule, id, key_values, most)
    select 'r-' || n, 'o', 'b-' || n, 5 from series where n < 2000;
insert into headrace.bucket (name, queue, measure)
    select 'q|running|b-' || n, 'q', 'running' from series;
insert into headrace.limit_wait (bucket, queue) select n, 7 from series;
insert into headrace.channel_hold (queue, key_values, until) select 8, 'c-' || n, {ts} + n
    from series;
insert into headrace.counter (session, key_values, count, until, since)
    select 's-' || n, 'k-' || n, 1, {ts} + n, 0 from series;
insert into headrace.lock (key_values, session, until) select 'k-' || n, 's-' || n, {ts} + n
    from series;
insert into headrace.lock_place (lock, session, until) select n, 's-' || n, {ts} + n from series;
"""
FILL_POSTGRES = """
insert into headrace.signature (connection, transaction, at)
    select gen_random_uuid(), n, {ts} from series;
"""


def test_every_statement_is_judged() -> None:
    """A new statement must say whether it is hot."""
    judged = {*HOT, *INSERTS, *COLD, *PARTIAL, *BY_KEY}
    assert judged | {*HOT_ON_SQLITE, *INSERTS_ON_SQLITE} == set(Sql(SQLITE, "headrace_").texts)
    judged |= {*HOT_ON_POSTGRES, *INSERTS_ON_POSTGRES, *COLD_ON_POSTGRES}
    assert judged == set(Sql(POSTGRES, "headrace.").texts)


@pytest.fixture(scope="module")
def large_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "flow.db"
    headrace.connect(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    connection.execute("create temp table series (n integer)")
    connection.execute(
        "with recursive s(n) as (select 0 union all select n + 1 from s where n < ?) "
        "insert into series select n from s",
        (ROWS,),
    )
    fill = FILL.format(rows=ROWS, ts=TS, id="printf('%d', n)")
    connection.executescript(fill.replace("headrace.", "headrace_"))
    yield connection
    connection.close()


@pytest.mark.parametrize("name", [*HOT, *HOT_ON_SQLITE])
def test_sqlite_searches_by_index(large_sqlite: sqlite3.Connection, name: str) -> None:
    """Every table is searched, none is scanned but that of places, which has one row."""
    text = Sql(SQLITE, "headrace_").texts[name]
    parameters = {
        k: str(v).replace("'", '"') if isinstance(v, list) else v
        for k, v in (HOT | HOT_ON_SQLITE)[name].items()
    }
    plan = large_sqlite.execute(f"explain query plan {text}", parameters).fetchall()
    scans = [
        row[3]
        for row in plan
        if re.match(r"SCAN (?!json_each|CONSTANT ROW|row\b|headrace_turn\b|\(subquery)", row[3])
    ]
    assert not scans, plan


@pytest.fixture(scope="module")
def large_postgres(postgres: PrivatePostgres) -> Iterator[psycopg.Connection]:
    headrace.connect(f"{postgres.url}?schema=plans").close()
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"create temp table series as select generate_series(0, {ROWS}) n")
        fill = (FILL + FILL_POSTGRES).format(rows=ROWS, ts=TS, id="gen_random_uuid()")
        connection.execute(fill.replace("headrace.", "plans.").encode())
        connection.execute("analyze")
        yield connection
        connection.execute("drop schema plans cascade")


@pytest.mark.parametrize("name", [*HOT, *HOT_ON_POSTGRES])
def test_postgres_searches_by_index(large_postgres: psycopg.Connection, name: str) -> None:
    """No sequential scan of a table of ours, with the generic plan that a long-lived
    connection ends up with; and few pages are touched."""
    text = Sql(POSTGRES, "plans.").texts[name]
    names = list(dict.fromkeys(re.findall(r"%\(([a-z_]+)\)s", text)))
    for number, parameter in enumerate(names, 1):
        text = text.replace(f"%({parameter})s", f"${number}")
    values = sql.SQL(", ").join(
        sql.Literal((HOT | HOT_ON_POSTGRES)[name][parameter]) for parameter in names
    )
    execute = sql.SQL("explain (analyze, buffers) execute hot({})").format(values)
    with large_postgres.transaction(force_rollback=True):
        large_postgres.execute("set local plan_cache_mode = force_generic_plan")
        large_postgres.execute(f"prepare hot as {text.replace('%%', '%')}".encode())
        rows = large_postgres.execute(execute).fetchall()
        large_postgres.execute("deallocate hot")
    plan = "\n".join(row[0] for row in rows)
    # What a function is called with is not shown.
    assert "$" in plan or "Function Scan" in plan, plan
    # Topics and outstanding claims fit in a few pages: there a scan may be the better choice.
    large = "batch|once|proc|item|ended|used|error|sample|channel|ready|gone|channel_hold|lock|lock_place"
    assert not re.search(rf"Seq Scan on ({large})\b", plan), plan
    # Planning reads the catalogue, once for a connection.
    executed = plan.partition("Planning:")[0]
    pages = [int(n) for n in re.findall(r"Buffers: shared hit=(\d+)", executed)]
    assert max(pages, default=0) < 200, plan
