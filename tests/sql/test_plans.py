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
from headrace.drivers.sql_common.statements import Statements
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
    "read_keys": {"scope": "commit", "keys": ["k-7"]},
    "save_key_outcomes": {"scope": "commit", "key": "k-7", "outcome": None},
    "lock_proc": {"proc": "p-7"},
    "load_proc": {"proc": "p-7", "now": None},
    "definition": {"pipeline": "l-7"},
    "extend_claim": {"id": 7, "deadline": 5},
    "drop_claim": {"id": 7},
    "proc_candidates": {"names": ["p-7", "p-8"], "now": None},
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
    "delete_completed": {"queue": 7, "ids": [7, 8, 9], "token": "t"},
    "extend_items": {"queue": 7, "ids": [7, 8, 9], "token": "t", "lease": 5, "now": None},
    "due_items": {"queue": 7, "now": TS + 100, "limit": 10},
    "first_items": {"queue": 7, "limit": 10},
    "expired_leases": {"queue": 7, "now": TS + 100, "limit": 10},
    "next_times": {"queue": 7},
    "find_used": {"queue": 7, "subjects": ["s-7"]},
    "lock_sink": {"sink": "s-7", "now": None},
    "advance_sink": {"sink": "s-7", "batch": 1, "outcome": "{}", "now": None},
    "free_subject": {"queue": 7, "subject": "s-7"},
    "find_finished": {"queue": 7, "id": 50_007},
    "lock_finished": {"queue": 7, "id": 50_007},
    "find_finished_subject": {"queue": 7, "subject": "s-7"},
    "list_finished": {"queue": 7, "state": -1, "after": 55_000, "limit": 10},
    "drop_finished": {"queue": 7, "state": -1, "at": TS + 100, "limit": 10},
    "drop_errors": {"queue": 7, "at": TS + 100, "limit": 10},
    "list_errors": {"queue": 7, "item": None, "before": 5000, "limit": 10},
    "last_sample": {"queue": 7},
    "list_samples": {"queue": 7, "since": TS + 5000, "limit": 10},
    "drop_samples": {"queue": 7, "at": TS + 100, "limit": 10},
    "drop_used": {"queue": 7, "at": TS + 100, "limit": 10},
    "remove_finished": {"queue": 7, "ids": [50_007, 50_008]},
    "lock_channels_shared": {"queue": 8, "names": ["c-7", "c-8"]},
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
    "release_key": {"scope": "commit", "key": "k-7"},
    "line_items": {"queue": 7, "rank": 0, "position": 5000, "limit": 10},
    "pending_items": {"ids": [7, 8]},
    "channel_members": {"channels": [7, 8]},
    "lock_channels_exclusive": {"channels": [7, 8]},
    "drop_channels": {"channels": [7, 8]},
    "find_deleted_items": {"queue": 8, "items": [7, 8]},
    "find_selection": {"queue": 8, "form": "f"},
    "list_selections": {"queue": 8},
    "list_lanes": {"queue": 8},
    "lane_channels": {"queue": 8, "lane": 0, "limit": 10},
    "drop_selections": {"ids": [7, 8]},
    "drop_deleted_items": {"queue": 8, "at": TS + 100, "limit": 10},
    "read_limit_counters": {"names": ["q\nrunning\nb-7", "q\nrunning\nb-8"]},
    "lock_limit_counters": {"names": ["q\nrunning\nb-7", "q\nrunning\nb-8"]},
    "try_lock_limit_counters": {"names": ["q\nrunning\nb-7", "q\nrunning\nb-8"]},
    "await_limit_counters": {"counters": [7, 8]},
    "unawait_limit_counters": {"counters": [7, 8]},
    "remove_limit_waiters": {"counters": [7, 8]},
    "find_limit": {"id": "r-7"},
    "count_running": {"queues": [9]},
    "list_running": {"queues": [9], "after": 0, "limit": 10},
    "end_delay": {"queue": 8, "key_values": "c-7"},
    "find_delay": {"queue": 8, "key_values": "c-7", "now": 5},
    "delayed_channels": {"queue": 8, "now": TS + ROWS - 10},
    "drop_delays": {"queue": 8, "now": TS + 10},
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
    "grant_lock": {"id": 7, "session": "s", "holder": "h", "since": 5, "until": 5},
    "renew_places": {"sessions": ["s-7"], "ttl": 5, "now": 5},
    "drop_place": {"session": "s-7"},
    "extend_lock": {"key_values": "k-7", "session": "s-7", "lease": 5, "now": 5},
    "release_lock": {"key_values": "k-7", "session": "s-7", "now": 5},
    "guard_lock": {"key_values": "k-7", "session": "s-7"},
    "idle_locks": {"age": 0, "limit": 10, "now": TS + 100},
    "drop_locks": {"ids": [7, 8]},
    "find_token": {"id": "t-7"},
    "lock_token": {"id": "t-7"},
    "touch_tokens": {"ids": ["t-7", "t-8"], "age": 5, "now": 5},
    "find_schedule": {"name": "s-7"},
    "lock_schedule": {"name": "s-7"},
    "remove_schedule": {"name": "s-7"},
    "list_schedules": {"prefix": "s", "after": "s-7", "limit": 10},
    "until_due": {"now": TS},
    "lock_due_schedules": {"now": TS + 100, "limit": 10},
}
# What these read of a queue is all that there is in some state, not all that there is.
PARTIAL = {"claimed_items", "active_items", "oldest_due"}
# Only SQLite has these.
HOT_ON_SQLITE: dict[str, dict[str, Any]] = {
    "next_records": {"proc": "p-7", "known": "", "now": None},
    "push_item": {
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
    "record_proc_claim": {"id": 7, "range": "1-1..1-1", "now": 5},
    "next_items": {"queue": 7, "token": "t", "worker": None, "lease": 5, "count": 10, "now": 5},
    "complete_items": {"queue": 7, "name": "q-7", "version": 1, "token": "t", "ids": "[7,8]"},
    "open_parking_lanes": {"queue": 7},
    "park_channels": {"channel": 7, "queue": 7, "counter": 7, "max_used": 2},
    "unpark_channels": {"channels": [7, 8]},
    "drop_parking_lanes": {"ids": [7, 8]},
    "register_parked_waiter": {"queue": 7},
    "await_parked_counters": {"queue": 7},
    "unpark_queues": {"queues": [7, 8]},
    "remove_parking_lanes": {"queues": [7, 8]},
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
    "scan_channels": {"queue": 8, "after": 5, "limit": 10},
    "find_receipt": {"receipt": "00000000-0000-0000-0000-000000000000"},
    "find_marker": {
        "connection": "00000000-0000-0000-0000-000000000000",
        "transaction": 7,
    },
    "lock_queue_shared": {"name": "q-7"},
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
    "unregister_waiter": {"id": "00000000-0000-0000-0000-000000000000"},
}
# No index is used here.
INSERTS = {"add_topics", "add_batch", "reserve_keys", "add_proc", "add_claim", "acquire_lease"} | {
    *("add_items", "add_plain_items", "restore_item", "add_finished", "add_errors", "add_sample"),
    *(
        "add_tally",
        "add_queue",
        "save_defaults",
        "use_subject",
        "reserve_subjects",
        "allocate_positions",
        "last_item",
    ),
    *("read_clock", "save_client", "save_worker", "add_sink"),
    *(
        "lock_limits_shared",
        "lock_limits_exclusive",
        "lock_queues_exclusive",
        "add_limits",
        "add_overrides",
    ),
    *(
        "set_limit_counters",
        "add_limit_counters",
        "register_limit_waiter",
        "limit_version",
        "next_limit_version",
    ),
    *(
        "add_channels",
        "add_channel_items",
        "add_selection",
        "add_lane",
        "add_turns",
        "add_deleted_items",
        "lock_pushes",
        "add_lock",
    ),
    *("save_place", "delay_channel", "add_counter", "add_token", "add_schedule"),
    *("save_push", "undo_push", "lock_subjects"),
}
# Rows by their primary key, many per statement. On SQLite they are sent one by one.
BY_KEY = {"save_items", "set_positions", "mark_claimed", "save_queue", "save_finished"} | {
    "save_schedule",
    *(
        "move_turns",
        "rechannel_items",
        "mark_channels",
        "touch_selection",
        "next_selection_version",
        "sort_channels",
        "sort_turns",
        "set_limit_versions",
    ),
    *("change_limit_counters", "mark_limit_counters"),
}
INSERTS_ON_SQLITE = {
    "count_push",
    "count_claim",
    "count_completed",
    "add_parking_lanes",
    "advance_position",
}
INSERTS_ON_POSTGRES = {
    "append",
    "append_keyed",
    "claim_records",
    "push_items",
    "push_item",
    "push_payloads",
    "push_to_channels",
    "push_keyed",
    "claim_items",
    "claim_in_turn",
    "claim_in_line",
    "complete_items",
    "complete_counted",
    "bind_channels",
    "flush",
    "begin_relaxed",
    "relax",
    "confirm_claims",
    "reserve_receipt",
    "lock_queue_exclusive",
    "write_marker",
} | {"add_unnumbered", "register_waiter", "set_clock", "stage_batch", "stage_documents"}
# Rare, or meant to read everything.
COLD = {
    "list_topics",
    "load_procs",
    "save_proc",
    "delete_proc",
    "set_retention",
    "prunable",
    "read_retention",
    "save_retention",
} | {
    *("define_proc", "definitions"),
    *("drop_expired_procs", "list_queues", "read_defaults", "list_items", "waiting_items"),
    *("count_items", "count_finished", "rerank_items", "dead_items", "read_dead", "count_dead"),
    *("dead_groups", "remove_queue", "remove_all_items", "remove_all_finished", "remove_all_used"),
    *("remove_all_errors", "remove_all_samples", "remove_tallies", "sum_tallies"),
    *(
        "fold_tallies",
        "compare_tallies",
        "drop_other_workers",
        "lock_queue_settings",
        "worker_statuses",
        "drop_workers",
        "drop_client",
    ),
    *(
        "list_channels",
        "idle_channels",
        "remove_all_turns",
        "remove_all_channels",
        "remove_all_selections",
        "remove_all_lanes",
        "remove_all_delays",
    ),
    "remove_all_deleted_items",
    *(
        "list_limits",
        "list_limit_counters",
        "remove_limits",
        "remove_overrides",
        "limited_queues",
        "queue_names",
    ),
    *("count_live", "list_live", "reset_limit_counters", "drop_limit_counters"),
    *("sum_counters", "counter_holders", "list_counters", "next_counter_end"),
    *("list_locks", "drop_places", "raise_fence_floor", "list_tokens", "save_token"),
    "lock_zoned_schedules",
    *(
        "list_clients",
        "list_workers",
        "set_desired_state",
        "silent_clients",
        "find_sinks",
        "drop_sink",
    ),
}
COLD_ON_POSTGRES = {"old_stages", "transaction_status", "drop_markers"}

FILL = """
insert into headrace.topic (name, next_seq, last_ts)
    select 't-' || n, {rows}, {ts} + {rows} from series where n < 200;
insert into headrace.batch (id, topic, base_seq, count, ts, body)
    select {id}, 7, n, 1, {ts} + n, '{{}}' from series;
insert into headrace.sink (name, query_id, last_batch, at, outcome)
    select 's-' || n, 'q', 1, 0, '{{}}' from series where n < 2000;
insert into headrace.idempotency_key (scope, key, until) select 'commit', 'k-' || n, n from series;
insert into headrace.proc (name, topic, origin, created_at, max_attempts, on_exhausted)
    select 'p-' || n, 7, '>', 0, 10, 'disable' from series where n < 2000;
insert into headrace.proc (name, topic, origin, created_at, max_attempts, on_exhausted,
                           pipeline, definition)
    select 'l-' || n, 7, '>', 0, 10, 'disable', 'l-' || n, '{{}}' from series where n < 2000;
insert into headrace.proc_claim (proc, token, first_seq, last_seq)
    select id, 'x', 0, 0 from headrace.proc;
insert into headrace.queue (name, settings, version, created_at, is_live, is_paused)
    select 'q-' || n, '{{}}', 1, 0, true, false from series where n < 200;
insert into headrace.item (queue, state, position, next_execution, waiting_since, created_at,
                           lease_until, subject, payload)
    select 7, n % 3, n, {ts} + n, 0, 0, {ts} + n, 's-' || n, '{{}}' from series;
insert into headrace.finished_item (id, queue, state, priority, next_execution, waiting_since, created_at,
                            attempts, crashes, iterations, format, subject, payload, ended_at, cause)
    select 50000 + n, 7, case when n % 2 = 0 then -1 else 3 end, 0, 0, 0, 0, 0, 0, 0, 0,
           's-' || n, '{{}}', {ts} + n, 'killed' from series;
insert into headrace.used_subject (queue, subject, at) select 7, 's-' || n, {ts} + n from series;
insert into headrace.error (queue, at, item, attempt, failure)
    select 7, {ts} + n, n, 1, '{{}}' from series;
insert into headrace.sample (queue, at, counts) select 7, {ts} + n, '{{}}' from series;
insert into headrace.channel (queue, key_values, created_at)
    select 8, 'c-' || n, {ts} + n from series where n < 2000;
insert into headrace.ready_channel (channel, queue, turn) select n + 1, 8, n from series where n < 2000;
insert into headrace.item (queue, state, position, next_execution, waiting_since, created_at,
                           lease_until, payload, channel, key_values)
    select 8, n % 3, n, {ts} + n, 0, 0, {ts} + n, '{{}}', n % 2000 + 1, 'c-' || (n % 2000)
    from series;
insert into headrace.deleted_item (item, queue, token, at) select n, 8, 't', {ts} + n from series;
insert into headrace.limit_rule (id, queue, measure, key_values, max_used)
    select 'r-' || n, 'q', 'running', 'b-' || n, 5 from series where n < 2000;
insert into headrace.limit_override (rule, id, key_values, max_used)
    select 'r-' || n, 'o', 'b-' || n, 5 from series where n < 2000;
insert into headrace.limit_counter (name, queue, measure)
    select 'q\nrunning\nb-' || n, 'q', 'running' from series;
insert into headrace.limit_waiter (counter, queue) select n, 7 from series;
insert into headrace.channel_delay (queue, key_values, until) select 8, 'c-' || n, {ts} + n
    from series;
insert into headrace.counter (session, key_values, count, until, since)
    select 's-' || n, 'k-' || n, 1, {ts} + n, 0 from series;
insert into headrace.lock (key_values, session, until) select 'k-' || n, 's-' || n, {ts} + n
    from series;
insert into headrace.token (id, name, scopes, secrets, last_secret, created_at)
    select 't-' || n, 'n', '[]', '[]', 1, {ts} from series;
insert into headrace.schedule (name, definition, state, anchor, passed, due, fire_at, fires, skipped,
                               attempts, version, created_at)
    select 's-' || n, '{{}}', 'active', 0, 0, {ts} + n, case when n % 2 = 0 then {ts} + n end, 0, '{{}}',
           0, 1, 0
    from series;
insert into headrace.lock_waiter (lock, session, until) select n, 's-' || n, {ts} + n from series;
"""
FILL_POSTGRES = """
insert into headrace.commit_marker (connection, transaction, at)
    select gen_random_uuid(), n, {ts} from series;
"""


def test_every_statement_is_judged() -> None:
    """A new statement must say whether it is hot."""
    judged = {*HOT, *INSERTS, *COLD, *PARTIAL, *BY_KEY}
    assert judged | {*HOT_ON_SQLITE, *INSERTS_ON_SQLITE} == set(
        Statements(SQLITE, "headrace_").texts
    )
    judged |= {*HOT_ON_POSTGRES, *INSERTS_ON_POSTGRES, *COLD_ON_POSTGRES}
    assert judged == set(Statements(POSTGRES, "headrace.").texts)


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
    text = Statements(SQLITE, "headrace_").texts[name]
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
    text = Statements(POSTGRES, "plans.").texts[name]
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
    large = (
        "batch|idempotency_key|proc|item|finished_item|used_subject|error|sample|channel|ready_channel"
        "|deleted_item|channel_delay|limit_counter|counter|lock|lock_waiter|schedule"
    )
    assert not re.search(rf"Seq Scan on ({large})\b", plan), plan
    # Planning reads the catalogue, once for a connection.
    executed = plan.partition("Planning:")[0]
    pages = [int(n) for n in re.findall(r"Buffers: shared hit=(\d+)", executed)]
    assert max(pages, default=0) < 200, plan
