"""Behaviour of the SQLite driver alone."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.drivers.runner import no_probe
from headrace.drivers.sql_common.migrations import Migration, load_schema
from headrace.drivers.sqlite import connections, sessions
from headrace.drivers.sqlite import store as sqlite_store
from headrace.drivers.sqlite.execution import Execution
from headrace.errors import (
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    UnsupportedStore,
)
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
    """A prefix separates two Headraces in one file."""
    path = tmp_path / "app.db"
    mine = sqlite3.connect(path)
    mine.execute("create table orders (id integer)")
    mine.commit()
    with (
        headrace.connect(f"sqlite:///{path}?prefix=one_") as one,
        headrace.connect(f"sqlite:///{path}?prefix=two_") as two,
    ):
        one.commit("t", {})
        assert two.topics.list() == []
        two.commit("t", {})
        assert one.topic("t").length() == 1
    names = {row[0] for row in mine.execute("select name from sqlite_master where type = 'table'")}
    mine.close()
    assert {"orders", "one_topic", "two_topic"} <= names


def test_safe_commits_wait_for_the_flush_and_claims_do_not(sqlite_url: str) -> None:
    """``synchronous`` is FULL (2) for durable writes, NORMAL (1) for those that may be lost."""
    seen: dict[str, int] = {}
    for durability in ("safe", "relaxed"):
        with headrace.connect(sqlite_url, durability=durability) as hr:
            store = hr._store
            writer = store.connections

            def observe(
                operation: str, point: object, writer=writer, durability=durability
            ) -> None:
                if point == "commit":
                    [mode] = writer._writer.execute("pragma synchronous").fetchone()
                    seen[f"{durability} {operation}"] = mode

            store.probe = observe
            hr.commit("t", {})
            hr.procs.create(durability, "t").claim().ack()
    assert seen == {
        "safe topics.commit": 2,
        "safe procs.create": 2,
        "safe procs.claim": 1,
        "safe procs.ack": 2,
        "relaxed topics.commit": 1,
        "relaxed procs.create": 1,
        "relaxed procs.claim": 1,
        "relaxed procs.ack": 1,
    }


def test_a_flush_reaches_the_drive_on_macos_too(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        writer = hr._store.connections._writer
        for pragma in ("fullfsync", "checkpoint_fullfsync"):
            assert writer.execute(f"pragma {pragma}").fetchone()[0] == 1


def test_a_claim_that_creates_a_dead_letter_waits_for_the_flush(sqlite_url: str) -> None:
    """A dead letter is a record like any other. Readers may see it, so it must be durable."""
    clock = FakeClock()
    modes = []
    with headrace.connect(sqlite_url, clock=clock) as hr:
        hr.commit_many("t", [{"n": 1}, {"n": 2}])
        proc = hr.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter")
        proc.claim()
        ours = hr._store.connections

        def observe(operation: str, point: object) -> None:
            if point == "commit":
                modes.append(ours._writer.execute("pragma synchronous").fetchone()[0])

        hr._store.probe = observe
        clock.advance(10)
        assert [record.seq for record in proc.claim()] == [1]
        assert hr.topic("p-dead").length() == 1
    assert modes == [2]


def test_a_claim_under_a_rate_waits_for_the_flush(sqlite_url: str) -> None:
    """The number of started items must not be forgotten. The number of running items is zero after
    a crash.

    Except for the first claim, this is known before a claim starts: no claim is made twice for it.
    """
    seen: list[tuple[object, int]] = []
    with headrace.connect(sqlite_url) as hr:
        ours = hr._store.connections

        def observe(operation: str, point: object) -> None:
            if operation == "queues.claim" and point in (0, "commit"):
                seen.append((point, ours._writer.execute("pragma synchronous").fetchone()[0]))

        def claim() -> list[tuple[object, int]]:
            seen.clear()
            assert len(hr.queue("q").claim(2)) == 2
            return list(seen)

        relaxed, synced = [(0, 1), ("commit", 1)], [(0, 2), ("commit", 2)]
        hr.push_many("q", range(12))
        hr.limits.create(None, 100, queue="q")
        hr._store.probe = observe
        assert claim() == claim() == relaxed
        rate = hr.limits.create(None, 100, queue="q", per=3600)
        assert claim() == [(0, 1), *synced]
        assert claim() == synced
        hr.limits.delete(rate.id)
        assert claim() == synced
        assert claim() == relaxed


def test_no_connection_checkpoints_automatically(sqlite_url: str) -> None:
    """Because of a bug of SQLite: see ``drivers/sqlite/connections.py``."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        hr.range("t")
        ours = hr._store.connections
        ours.checkpoint_if_due(ours._writer)
        for connection in (ours._writer, *ours._readers):
            assert connection.execute("pragma wal_autocheckpoint").fetchone()[0] == 0


def test_the_log_stays_small(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints run with the write lock held, and lose nothing."""
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
        assert hr.topic("t").length() == 201


def test_a_lock_held_too_long_is_reported(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written, and the message names the next step."""
    monkeypatch.setattr(connections, "BUSY_MS", 20)
    with headrace.connect(sqlite_url, patience=0.1) as hr:
        hr.commit("t", {})
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("begin immediate")
        with pytest.raises(StoreBusy, match=r"locked for 0.1 s: nothing was written") as caught:
            hr.commit("t", {})
        assert caught.value.retryable
        assert hr.status == -1
        assert hr.topic("t").length() == 1, "readers are not in the way"
        other.execute("rollback")
        other.close()
        hr.commit("t", {})
        assert hr.status == 1


def test_time_is_the_same_inside_and_outside_of_the_database(sqlite_url: str) -> None:
    """Some operations use one clock and some the other. Neither may run ahead."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        store = hr._store
        with contextlib.closing(store.connections.open()) as reader:
            outside = Execution(reader, "test", no_probe, is_relaxed=False, clock=None)
            for _ in range(300):
                before = outside.moment()
                [row] = reader.execute(store.sql.texts["head"], {"topic": "t", "now": None})
                assert before <= row["now"] <= outside.moment()


def test_many_threads_share_a_client(sqlite_url: str) -> None:
    """Commits of eight threads are dense and complete, with concurrent readers."""
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
        assert hr.topic("t").length() == 801


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
    """Records stay. A migration that fails half-way leaves the tables as they were."""
    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {"n": 1})
    ours = load_schema(sqlite_store.DIALECT, "headrace_")
    next_one = ours.version + 1
    broken = Migration(
        next_one, "broken", "create table headrace_extra (n integer);\nselect nonsense;"
    )
    known = ours._replace(version=next_one, migrations=(*ours.migrations, broken))
    monkeypatch.setattr(sqlite_store, "load_schema", lambda *_: known)
    with pytest.raises(StoreError, match="nonsense"):
        headrace.connect(sqlite_url)
    good = Migration(next_one, "good", "create table headrace_extra (n integer);")
    known = known._replace(migrations=(*ours.migrations, good))
    monkeypatch.setattr(sqlite_store, "load_schema", lambda *_: known)
    with headrace.connect(sqlite_url) as hr:
        assert hr.topic("t").length() == 1
    with headrace.connect(sqlite_url) as hr:
        assert hr.topic("t").length() == 1


def test_a_damaged_row_is_reported(sqlite_url: str) -> None:
    """An error names the row. A wrong record is never returned."""
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


def test_many_clients_may_create_the_tables_concurrently(sqlite_url: str) -> None:
    """Threads with clients of their own race to be first. All of them work afterwards."""
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


@pytest.mark.parametrize(
    ("journal", "call"),
    # A client that is open keeps the log.
    [
        ("wal", "connect"),
        ("wal", "look"),
        ("wal", "push"),
        ("delete", "connect"),
        ("delete", "look"),
    ],
)
def test_a_locked_file_is_waited_for_as_long_as_patience_says(
    tmp_path: Path, journal: str, call: str
) -> None:
    path = tmp_path / "flow.db"
    url = f"sqlite:///{path}"
    with headrace.connect(url, patience=1) as hr:
        hr.push("q", 1)
        calls = {
            "connect": lambda: headrace.connect(url, patience=1),
            "look": lambda: headrace.connect(url, patience=1, migrate="off"),
            "push": lambda: hr.push("q", 2),
        }
        if journal == "delete":
            hr.close()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute(f"PRAGMA journal_mode={journal}")
        if call != "push":
            # In WAL mode a writer blocks no reader, unless it locks the file exclusively.
            other.execute("PRAGMA locking_mode=EXCLUSIVE")
            hr.close()
        other.execute("BEGIN EXCLUSIVE")
        begun = time.monotonic()
        with contextlib.closing(other), pytest.raises(StoreBusy):
            calls[call]()
        assert 0.9 < time.monotonic() - begun < 6


PATIENCE = 0.5
MANY = 20


def seconds_of(call: Callable[[], object]) -> tuple[float, BaseException | None]:
    """How long a call took, and how it ended."""
    begun = time.monotonic()
    try:
        call()
    except BaseException as error:
        return time.monotonic() - begun, error
    return time.monotonic() - begun, None


def outcomes(call: Callable[[], object]) -> list[tuple[float, BaseException | None]]:
    """The same for many threads that call at the same time."""
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(seconds_of, [call] * MANY))


@pytest.mark.parametrize("title", ["claim", "push", "transaction", "connect"])
def test_calls_of_many_threads_on_a_locked_file_end_when_patience_does(
    sqlite_url: str, title: str
) -> None:
    """They do not wait one after the other."""
    with headrace.connect(sqlite_url, patience=PATIENCE) as hr:
        hr.push("q", 1)

        def transact() -> None:
            with hr.transaction() as tx:
                tx.push("q", 2)

        act = {
            "claim": hr.queue("q").claim,
            "push": lambda: hr.push("q", 2),
            "transaction": transact,
            "connect": lambda: headrace.connect(
                f"{sqlite_url}?prefix=other_", patience=PATIENCE
            ).close(),
        }[title]
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("begin immediate")
        with contextlib.closing(other):
            ends = outcomes(act)
        for seconds, error in ends:
            assert isinstance(error, StoreBusy)
            # A push that joined the flush of others waits for the rest of their patience.
            assert PATIENCE / 4 < seconds < PATIENCE + 5
        hr.push("q", 3)


def test_async_calls_on_a_locked_file_end_when_patience_does(sqlite_url: str) -> None:
    """Even if there are more of them than threads, or transactions wait for each other."""

    async def timed(call: Awaitable[object]) -> None:
        begun = time.monotonic()
        with pytest.raises(StoreBusy):
            await call
        assert time.monotonic() - begun < PATIENCE + 5

    async def scenario() -> None:
        async with await headrace.aconnect(sqlite_url, patience=PATIENCE) as hr:
            await hr.push("q", 1)

            async def transact() -> None:
                async with hr.transaction() as tx:
                    await tx.push("q", 2)

            other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
            other.execute("begin immediate")
            with contextlib.closing(other):
                calls = [hr.push("q", 2) for _ in range(MANY * 2)]
                await asyncio.gather(*map(timed, calls), *(timed(transact()) for _ in range(MANY)))
            await hr.push("q", 3)

    asyncio.run(scenario())


@pytest.mark.parametrize("title", ["push", "transaction"])
def test_a_transaction_of_another_thread_is_waited_for_as_long_as_patience_says(
    sqlite_url: str, title: str
) -> None:
    """The error names the thread that holds the file."""
    is_open, may_end = threading.Event(), threading.Event()
    with headrace.connect(sqlite_url, patience=PATIENCE) as hr:
        hr.push("q", 1)

        def hold() -> None:
            with hr.transaction():
                is_open.set()
                may_end.wait(60)

        def transact() -> None:
            with hr.transaction() as tx:
                tx.push("q", 2)

        thread = threading.Thread(target=hold, name="slow report")
        thread.start()
        assert is_open.wait(60)
        call = transact if title == "transaction" else lambda: hr.push("q", 2)
        seconds, error = seconds_of(call)
        may_end.set()
        thread.join()
        assert isinstance(error, StoreBusy)
        assert "a transaction in thread 'slow report' of this process" in str(error)
        assert PATIENCE * 0.9 < seconds < PATIENCE + 5
        hr.push("q", 3)
        assert hr.queue("q").stats().pending == 2


def test_a_transaction_waits_for_another_program_as_long_as_patience_says(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only for as long as one wait of SQLite."""
    monkeypatch.setattr(connections, "BUSY_MS", 20)
    other = sqlite3.connect(
        sqlite_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )
    with contextlib.closing(other), headrace.connect(sqlite_url, patience=60) as hr:
        hr.push("q", 1)
        other.execute("begin immediate")
        timer = threading.Timer(0.3, other.execute, ("rollback",))
        timer.start()
        with hr.transaction() as tx:
            tx.push("q", 2)
        timer.join()
        assert hr.queue("q").stats().pending == 2


def test_a_transaction_that_its_block_rolls_back_keeps_the_connection(sqlite_url: str) -> None:
    """Opening another one would make it many times slower."""
    with headrace.connect(sqlite_url) as hr:
        hr.push("q", 1)
        ours = hr._store.connections
        writer = ours._writer

        class OwnError(Exception):
            pass

        def fail(error: BaseException) -> None:
            with hr.transaction() as tx:
                tx.push("q", 2)
                tx.commit("t", {})
                assert tx.topic("t").length() == 1
                raise error

        for error in (OwnError(), KeyboardInterrupt(), StoreError("of the block's own")):
            with pytest.raises(type(error)):
                fail(error)
            hr.push("q", 3)
            assert ours._writer is writer
        assert hr.queue("q").stats().pending == 4


@pytest.mark.parametrize("statement", ["select", "insert"])
def test_a_transaction_that_is_interrupted_in_a_statement_loses_the_connection(
    sqlite_url: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement may be incomplete."""

    class Interrupt(BaseException):
        pass

    with headrace.connect(sqlite_url) as hr:
        hr.push("q", 1)
        ours = hr._store.connections
        writer = ours._writer
        rows_of = sessions.rows_of

        def interrupted(connection: sqlite3.Connection, request: Any) -> list[Any]:
            rows = rows_of(connection, request)
            if request.text.lstrip().startswith(statement):
                raise Interrupt
            return rows

        def transact() -> None:
            with hr.transaction() as tx:
                monkeypatch.setattr(sessions, "rows_of", interrupted)
                if statement == "select":
                    tx.topic("t").length()
                else:
                    tx.push("q", 2)

        with pytest.raises(Interrupt):
            transact()
        monkeypatch.undo()
        hr.push("q", 3)
        assert ours._writer is not writer
        assert hr.queue("q").stats().pending == 2


def test_a_transaction_that_outlives_an_interrupt_loses_the_connection_at_its_end(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block may continue after a read was interrupted."""

    class Interrupt(BaseException):
        pass

    def interrupted(connection: sqlite3.Connection, request: Any) -> list[Any]:
        raise Interrupt

    with headrace.connect(sqlite_url) as hr:
        hr.commit("t", {})
        ours = hr._store.connections
        writer = ours._writer
        with hr.transaction() as tx:
            with monkeypatch.context() as patched:
                patched.setattr(sessions, "rows_of", interrupted)
                with pytest.raises(Interrupt):
                    tx.topic("t").length()
            tx.commit("t", {})
        hr.commit("t", {})
        assert ours._writer is not writer
        assert hr.topic("t").length() == 3
