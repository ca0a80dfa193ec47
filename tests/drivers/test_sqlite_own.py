"""What is particular to SQLite."""

import sqlite3
import threading
from pathlib import Path

import pytest

import headrace
from headrace.drivers.relational import migrations as migrating
from headrace.drivers.relational.migrations import Migration
from headrace.drivers.sqlite import connections
from headrace.drivers.sqlite import store as sqlite_store
from headrace.errors import SchemaTooNew, StoreBusy, StoreUnavailable, UnsupportedStore
from headrace.testing.clocks import FakeClock


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"nowhere.*does not exist: create it"):
        headrace.connect(f"sqlite:///{tmp_path}/nowhere/flow.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    """The error names it, and not a byte of it changes."""
    path = tmp_path / "notes.txt"
    path.write_text("these are not the bytes you are looking for " * 100)
    before = path.read_bytes()
    with pytest.raises(UnsupportedStore, match=r"notes\.txt is not a SQLite database"):
        headrace.connect(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot open"):
        headrace.connect(f"sqlite:///{tmp_path}")


def test_tables_live_beside_the_users_own(tmp_path: Path) -> None:
    """A prefix keeps two Headraces in one file apart."""
    path = tmp_path / "app.db"
    mine = sqlite3.connect(path)
    mine.execute("create table orders (id integer)")
    mine.commit()
    with (
        headrace.connect(f"sqlite:///{path}?prefix=one_") as one,
        headrace.connect(f"sqlite:///{path}?prefix=two_") as two,
    ):
        one.commit("t", {})
        assert two.topics() == []
        two.commit("t", {})
        assert one.length("t") == 1
    names = {row[0] for row in mine.execute("select name from sqlite_master where type = 'table'")}
    mine.close()
    assert {"orders", "one_topic", "two_topic"} <= names


def test_safe_commits_wait_for_the_disk_and_claims_do_not(sqlite_url: str) -> None:
    """``synchronous`` is FULL (2) for what must last, NORMAL (1) for what may be lost."""
    seen: dict[str, int] = {}
    for durability in ("safe", "relaxed"):
        with headrace.connect(sqlite_url, durability=durability) as hr:
            store = hr._store
            writer = store.connections

            def look(operation: str, point: object, writer=writer, durability=durability) -> None:
                if point == "commit":
                    [mode] = writer._writer.execute("pragma synchronous").fetchone()
                    seen[f"{durability} {operation}"] = mode

            store.probe = look
            hr.commit("t", {})
            hr.proc(durability, topic="t").claim().ack()
    assert seen == {
        "safe commit": 2,
        "safe create_proc": 2,
        "safe claim": 1,
        "safe ack": 2,
        "relaxed commit": 1,
        "relaxed create_proc": 1,
        "relaxed claim": 1,
        "relaxed ack": 1,
    }


def test_a_claim_that_buries_a_record_waits_for_the_disk(sqlite_url: str) -> None:
    """A dead letter is a record like any other: others may read it, so it must last."""
    clock = FakeClock()
    modes = []
    with headrace.connect(sqlite_url, clock=clock) as hr:
        hr.commit_many("t", [{"n": 1}, {"n": 2}])
        proc = hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        proc.claim()
        ours = hr._store.connections

        def look(operation: str, point: object) -> None:
            if point == "commit":
                modes.append(ours._writer.execute("pragma synchronous").fetchone()[0])

        hr._store.probe = look
        clock.advance(10)
        assert [record.seq for record in proc.claim()] == [1]
        assert hr.length("p-dead") == 1
    assert modes == [2]


def test_a_claim_under_a_rate_waits_for_the_disk(sqlite_url: str) -> None:
    """It must not be forgotten how many there were; how many there are nobody holds after a crash.

    That is known before a claim begins, except the first: no claim is made twice for it.
    """
    seen: list[tuple[object, int]] = []
    with headrace.connect(sqlite_url) as hr:
        ours = hr._store.connections

        def look(operation: str, point: object) -> None:
            if operation == "claim_items" and point in (0, "commit"):
                seen.append((point, ours._writer.execute("pragma synchronous").fetchone()[0]))

        def claim() -> list[tuple[object, int]]:
            seen.clear()
            assert len(hr.queue("q").claim(2)) == 2
            return list(seen)

        relaxed, synced = [(0, 1), ("commit", 1)], [(0, 2), ("commit", 2)]
        hr.push_many("q", range(12))
        hr.create_limit(None, 100, queue="q")
        hr._store.probe = look
        assert claim() == claim() == relaxed
        rate = hr.create_limit(None, 100, queue="q", per=3600)
        assert claim() == [(0, 1), *synced]
        assert claim() == synced
        hr.delete_limit(rate.id)
        assert claim() == synced
        assert claim() == relaxed


def test_no_connection_checkpoints_by_itself(sqlite_url: str) -> None:
    """Decided against a bug of SQLite: see ``drivers/sqlite/connections.py``."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        hr.range("t")
        ours = hr._store.connections
        ours.checkpoint_if_due(ours._writer)
        for connection in (ours._writer, *ours._readers):
            assert connection.execute("pragma wal_autocheckpoint").fetchone()[0] == 0


def test_the_log_stays_small(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints run, with the write lock held, and nothing is lost by them."""
    monkeypatch.setattr(connections, "WAL_BYTES", 100_000)
    held = []
    original = connections.Connections.checkpoint

    def checkpoint(self, writer: sqlite3.Connection) -> bool:
        done = original(self, writer)
        held.append(done)
        return done

    monkeypatch.setattr(connections.Connections, "checkpoint", checkpoint)
    wal = Path(sqlite_url.removeprefix("sqlite:///") + "-wal")
    with headrace.connect(sqlite_url) as hr:
        for n in range(200):
            hr.commit("t", {"n": n, "fill": "x" * 3000})
        assert wal.stat().st_size < 200_000
        assert len(held) > 5
        assert [record.body["n"] for record in hr.iterate("t")] == list(range(200))


def test_a_reader_in_the_way_only_delays_the_checkpoint(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAL_BYTES", 50_000)
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        reader = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        reader.execute("begin")
        reader.execute("select count(*) from headrace_batch").fetchone()
        for _ in range(100):
            hr.commit("t", {"fill": "x" * 3000})
        assert reader.execute("select count(*) from headrace_batch").fetchone()[0] == 1
        reader.execute("rollback")
        reader.close()
        for _ in range(100):
            hr.commit("t", {"fill": "x" * 3000})
        assert hr.length("t") == 201


def test_a_lock_held_too_long_is_reported(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written, and the message says where to look."""
    monkeypatch.setattr(connections, "BUSY_MS", 20)
    with headrace.connect(sqlite_url, patience=0.1) as hr:
        hr.commit("t", {})
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("begin immediate")
        with pytest.raises(StoreBusy, match=r"locked for 0.1 s: nothing was written") as caught:
            hr.commit("t", {})
        assert caught.value.retryable
        assert hr.status() == -1
        assert hr.length("t") == 1, "readers are not in the way"
        other.execute("rollback")
        other.close()
        hr.commit("t", {})
        assert hr.status() == 1


def test_time_is_the_same_inside_and_outside_of_the_database(sqlite_url: str) -> None:
    """Some operations ask here and some there, and neither may run ahead."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        store = hr._store
        with store.connections.reading() as reader:
            for _ in range(300):
                before = store.moment()
                [row] = reader.execute(store.sql.texts["head"], {"topic": "t", "now": None})
                assert before <= row["now"] <= store.moment()


def test_many_threads_share_a_client(sqlite_url: str) -> None:
    """Commits from eight threads are dense and whole, with readers at work."""
    with headrace.connect(sqlite_url, durability="relaxed") as hr:
        hr.commit("t", {"thread": -1})
        stop = threading.Event()
        faults: list[object] = []

        def write(thread: int) -> None:
            for n in range(50):
                hr.commit_many("t", [{"thread": thread, "n": n}, {"thread": thread, "n": n}])

        def read() -> None:
            while not stop.is_set():
                seqs = [record.seq for record in hr.range("t")]
                if seqs != list(range(len(seqs))):
                    faults.append(seqs)

        reader = threading.Thread(target=read)
        writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
        for thread in (reader, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        stop.set()
        reader.join()
        assert not faults
        assert hr.length("t") == 801


def test_tables_of_a_newer_headrace_are_refused(sqlite_url: str) -> None:
    headrace.connect(sqlite_url).close()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.execute("insert into headrace_migration values (99, 'from_the_future', '')")
    connection.commit()
    connection.close()
    with pytest.raises(SchemaTooNew, match=r"version 99.*upgrade the headrace package") as caught:
        headrace.connect(sqlite_url)
    assert caught.value.version == 99


def test_older_tables_are_migrated_on_connect(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records stay; a migration that fails half-way leaves the tables as they were."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {"n": 1})
    known = migrating.migrations(sqlite_store.DIALECT, "headrace_")
    next_one = known[-1].version + 1
    broken = Migration(
        next_one, "broken", "create table headrace_extra (n integer);\nselect nonsense;"
    )
    monkeypatch.setattr(sqlite_store, "migrations", lambda *_: [*known, broken])
    with pytest.raises(sqlite3.OperationalError, match="nonsense"):
        headrace.connect(sqlite_url)
    good = Migration(next_one, "good", "create table headrace_extra (n integer);")
    monkeypatch.setattr(sqlite_store, "migrations", lambda *_: [*known, good])
    with headrace.connect(sqlite_url) as hr:
        assert hr.length("t") == 1
    with headrace.connect(sqlite_url) as hr:
        assert hr.length("t") == 1


def test_a_damaged_row_is_reported(sqlite_url: str) -> None:
    """Somebody changed the table: an error names the place, never a wrong record."""
    hr = headrace.connect(sqlite_url)
    hr.commit_many("t", [{"n": 1}, {"n": 2}])
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    for body in ("not json\n{}", '{"n":1}', '{"n":1}\n{"n":2}\n{"n":3}'):
        connection.execute("update headrace_batch set body = ?, id = ?", (body, body))
        connection.commit()
        with pytest.raises(headrace.errors.MalformedRecord, match="topic 't'") as caught:
            hr.range("t")
        assert caught.value.code == "malformed_log"
    connection.close()
    hr.close()


def test_many_processes_may_create_the_tables_at_once(sqlite_url: str) -> None:
    """Threads with clients of their own race to be first; all of them work afterwards."""
    clients: list[headrace.Headrace] = []
    threads = [
        threading.Thread(target=lambda: clients.append(headrace.connect(sqlite_url)))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clients) == 12
    for client in clients:
        client.commit("t", {})
        client.close()
