"""The findings of each driver. The common half is in the contract suite."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headrace
from headrace.contract import diagnosis
from headrace.contract.values import Finding
from headrace.drivers.postgres import doctor as postgres_diagnosis
from headrace.drivers.sqlite import doctor as sqlite_diagnosis
from headrace.testing.postgres import PrivatePostgres

SERVER = {
    "number": 150_004,
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "is_replica": False,
}


def found(url: str, check: str, **options: Any) -> Finding:
    with headrace.connect(url) as hr:
        [finding] = [f for f in hr.admin.diagnose(**options) if f.check == check]
    return finding


@pytest.mark.parametrize(
    ("version", "is_fixed"),
    [
        ((3, 35, 0), False),
        ((3, 40, 1), False),
        ((3, 44, 5), False),
        ((3, 44, 6), True),
        ((3, 45, 0), False),
        ((3, 50, 6), False),
        ((3, 50, 7), True),
        ((3, 51, 2), False),
        ((3, 51, 3), True),
        ((3, 53, 0), True),
    ],
)
def test_sqlite_with_the_wal_reset_bug_is_reported(
    version: tuple[int, ...], is_fixed: bool
) -> None:
    """By version, including old release lines that got the fix."""
    finding = sqlite_diagnosis.engine(version, "flow.db")
    assert (finding.verdict == "ok") == is_fixed
    assert finding.facts["has_wal_reset_bug"] is not is_fixed
    if not is_fixed:
        assert "Headrace's connections never do that" in finding.found
        assert "3.51.3" in finding.next_step


def test_sqlite_reports_file_log_and_journal_mode(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        checks = {finding.check: finding for finding in hr.admin.diagnose()}
        wal = Path(f"{path}-wal").stat().st_size
        assert checks["size"].facts == {"file_bytes": path.stat().st_size, "wal_bytes": wal}
    assert checks["durability"].facts == {
        "durability": "safe",
        "journal_mode": "wal",
        "synchronous": "full",
    }
    assert checks["wal"].facts == {"wal_bytes": wal}
    assert checks["schema"].facts["version"] == checks["schema"].facts["newest"]
    assert "integrity" not in checks
    relaxed = found(f"{sqlite_url}?durability=relaxed", "durability")
    assert relaxed.facts["durability"] == "relaxed"


def test_a_long_log_is_a_warning() -> None:
    assert sqlite_diagnosis.log(64 * 1024 * 1024).verdict == "ok"
    long = sqlite_diagnosis.log(100 * 1024 * 1024)
    assert (long.verdict, long.facts) == ("warn", {"wal_bytes": 100 * 1024 * 1024})


def test_a_damaged_sqlite_file_fails_the_deep_check(sqlite_url: str) -> None:
    """In a page that no reader of records touches."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit_many("t", [{"n": n} for n in range(10)])
    assert found(sqlite_url, "integrity", deep=True).verdict == "ok"
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    connection = sqlite3.connect(path)
    [[page]] = connection.execute(
        "select rootpage from sqlite_master where name = 'headrace_idempotency_key'"
    )
    [[page_size]] = connection.execute("pragma page_size")
    connection.close()
    with path.open("r+b") as file:
        # The count of fragmented bytes in the page's header.
        file.seek((page - 1) * page_size + 7)
        file.write(b"\x55")
    finding = found(sqlite_url, "integrity", deep=True)
    assert finding.verdict == "fail"
    assert f"age {page}" in finding.found
    assert "backup" in finding.next_step


def test_postgres_reports_its_settings(postgres_url: str) -> None:
    """The server of the tests runs without fsync, and the doctor finds it."""
    with headrace.connect(postgres_url) as hr:
        hr.commit("t", {})
        checks = {finding.check: finding for finding in hr.admin.diagnose()}
    assert checks["durability"].verdict == "fail"
    assert checks["durability"].facts["fsync"] == "off"
    assert "fsync = on and full_page_writes = on" in checks["durability"].next_step
    others = {check: f.verdict for check, f in checks.items() if check != "durability"}
    assert set(others.values()) == {"ok"}, checks
    assert checks["role"].facts == {"is_replica": False}
    assert checks["pooling"].facts == {"is_pooled": False}
    assert abs(float(checks["clock"].facts["ahead_seconds"] or 0)) < 1
    assert int(checks["size"].facts["batch_bytes"] or 0) > 0
    assert set(checks["dead_rows"].facts) >= {
        "topic",
        "batch",
        "proc",
        "proc_claim",
        "idempotency_key",
    }


@pytest.fixture
def old_transaction(postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A session with an open transaction. Any age counts as old."""
    monkeypatch.setattr(postgres_diagnosis, "OPEN_SECONDS", 0.0)
    with psycopg.connect(postgres.url, application_name="sleepy") as session:
        session.execute("select 1")
        yield session.info.backend_pid


def test_the_oldest_transaction_is_named(postgres_url: str, old_transaction: int) -> None:
    finding = found(postgres_url, "transactions")
    assert finding.verdict == "warn"
    assert finding.facts["pid"] == old_transaction
    assert finding.facts["state"] == "idle in transaction"
    assert "headrace sleepy idle in transaction" in finding.found
    assert f"pg_terminate_backend({old_transaction})" in finding.next_step


def test_missing_rights_are_reported(
    postgres: PrivatePostgres, postgres_url: str, old_transaction: int
) -> None:
    """A user without rights sees only its own sessions, and learns so."""
    headrace.connect(postgres_url).close()
    schema = postgres_url.rpartition("=")[2]
    postgres.execute("create role watcher login")
    postgres.execute(f"grant usage on schema {schema} to watcher")
    postgres.execute(f"grant select on all tables in schema {schema} to watcher")
    try:
        finding = found(postgres_url.replace("headrace@", "watcher@"), "transactions")
    finally:
        postgres.execute("drop owned by watcher")
        postgres.execute("drop role watcher")
    assert finding.verdict == "ok"
    assert "grant pg_read_all_stats" in finding.found


def test_a_prepared_transaction_is_named_by_its_gid() -> None:
    row = {
        "kind": "prepared",
        "pid": None,
        "gid": "x1",
        "user_name": "me",
        "application": None,
        "state": "prepared",
        "seconds": 90_000.0,
    }
    finding = postgres_diagnosis.transactions([row], sees_all=True)
    assert finding.verdict == "warn"
    assert "1 d 1 h: prepared transaction 'x1' (me prepared)" in finding.found
    assert "rollback prepared" in finding.next_step


@pytest.mark.parametrize(
    ("server", "is_safe", "verdict", "text"),
    [
        ({}, True, "ok", "safe: what is acknowledged is on disk"),
        ({"synchronous_commit": "off"}, True, "ok", "although the server's default is not to"),
        ({}, False, "ok", "may take the last moments"),
        ({"fsync": "off"}, True, "fail", "fsync=off"),
        ({"full_page_writes": "off"}, False, "fail", "full_page_writes=off"),
    ],
)
def test_durability_of_postgres(
    server: dict[str, Any], is_safe: bool, verdict: str, text: str
) -> None:
    finding = postgres_diagnosis.durability({**SERVER, **server}, is_safe=is_safe)
    assert finding.verdict == verdict
    assert text in finding.found


def test_a_replica_fails() -> None:
    finding = postgres_diagnosis.role({**SERVER, "is_replica": True})
    assert finding.verdict == "fail"
    assert "primary" in finding.next_step


def test_a_version_with_a_known_bug_is_a_warning() -> None:
    assert postgres_diagnosis.engine(SERVER, "here").verdict == "ok"
    buggy = postgres_diagnosis.engine({**SERVER, "number": 140_003}, "here")
    assert (buggy.verdict, buggy.facts["version"]) == ("warn", "14.3")
    assert "14.4 or newer" in buggy.next_step


def test_clocks_are_compared_within_the_round_trip() -> None:
    """Half of the response time is uncertain."""
    assert postgres_diagnosis.clock(100.0, 99.9, 100.1).verdict == "ok"
    assert postgres_diagnosis.clock(103.0, 98.0, 104.0).verdict == "ok"
    ahead = postgres_diagnosis.clock(105.0, 100.0, 100.2)
    assert (ahead.verdict, ahead.facts) == ("warn", {"ahead_seconds": 4.9, "error_seconds": 0.1})
    assert "4.9 s ahead of this machine's" in ahead.found
    assert "behind" in postgres_diagnosis.clock(95.0, 100.0, 100.2).found


@pytest.mark.parametrize("pids", [(1, 2, 2), (2, 2, 3)])
def test_a_pooler_is_noticed(pids: tuple[int, int, int]) -> None:
    """It names a process of its own, or a different one answers each time."""
    assert postgres_diagnosis.pooling(2, 2, 2).facts == {"is_pooled": False}
    assert postgres_diagnosis.pooling(*pids).facts == {"is_pooled": True}


def test_a_pooler_is_noticed_by_the_number_it_names(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a connection is opened, before any statement."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", property(lambda self: 1))
    assert found(postgres_url, "pooling").facts == {"is_pooled": True}


def test_dead_rows_are_a_warning_when_vacuum_cannot_keep_up() -> None:
    def judge(dead: int, live: int, autovacuum: str = "on") -> Finding:
        tables = [{"name": "topic", "dead": dead, "live": live}]
        return postgres_diagnosis.dead_rows(tables, autovacuum=autovacuum)

    assert judge(0, 5).found == "none that the statistics know of"
    assert judge(9_000, 5).verdict == "ok"
    assert judge(20_000, 1_000_000).verdict == "ok"
    assert judge(20_000, 5).verdict == "warn"
    off = judge(0, 5, "off")
    assert (off.verdict, off.next_step) == ("warn", "set autovacuum = on")


def test_tables_of_another_version_fail() -> None:
    assert diagnosis.tables(2, 2, "x").verdict == "ok"
    assert diagnosis.tables(1, 2, "x").next_step == "run headrace migrate"
    assert diagnosis.tables(3, 2, "x").next_step == "upgrade the headrace package"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB")],
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert diagnosis.size_text(count) == text
    assert diagnosis.size_text(5 * 2**40) == "5.0 TiB"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12.3 ms"),
        (1.5, "1.5 s"),
        (59.4, "59.4 s"),
        (60, "1 min"),
        (3700, "1 h 1 min"),
        (90061, "1 d 1 h"),
    ],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert diagnosis.duration(seconds) == text
