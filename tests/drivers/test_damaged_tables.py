"""Dropped or emptied tables, foreign triggers and missing files cause our own errors. The client
reports that it is failing, and the doctor finds the reason."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import HeadraceError, InvalidBody, StoreError
from headrace.testing.postgres import PrivatePostgres

TABLES = (
    "topic",
    "batch",
    "idempotency_key",
    "proc",
    "queue",
    "item",
    "tally",
    "limit_version",
    "lock_floor",
)
SINGLE = ("limit_version", "lock_floor")
"""Tables that have one row, always."""
STATEMENTS = {
    ("sqlite", "dropped"): "drop table {}",
    ("sqlite", "emptied"): "delete from {}",
    ("postgres", "dropped"): "drop table {} cascade",
    ("postgres", "emptied"): "truncate {} cascade",
}


def execute(hr: headrace.Headrace, postgres: PrivatePostgres, statement: str) -> None:
    """Change the tables of a client directly, without Headrace."""
    store: Any = hr._store
    if store.name == "sqlite":
        with closing(sqlite3.connect(store.connections.path, isolation_level=None)) as other:
            other.execute(statement.format("headrace_"))
    else:
        postgres.execute(statement.format(f"{store.schema}."))


def calls(hr: headrace.Headrace) -> dict[str, Callable[[], object]]:
    def transact() -> None:
        with hr.transaction() as tx:
            tx.push("q", 1)
            tx.commit("t", {"n": 2})

    def lock() -> None:
        with hr.lock({"a": "b"}, lease=5, wait=0):
            pass

    def acquire() -> None:
        with hr.slots({"a": "b"}, 1, lease=5, wait=0):
            pass

    return {
        "maintain": lambda: hr.admin.maintain(force=True),
        "push": lambda: hr.push("q", 1),
        "push many": lambda: hr.push_many("q", [1, 2]),
        "claim": lambda: hr.queue("q").claim(),
        "commit": lambda: hr.commit("t", {"n": 1}),
        "commit to two": lambda: hr.commit([("t", {"n": 1}), ("u", {"n": 1})]),
        "commit with a key": lambda: hr.commit("t", {"n": 1}, key="k"),
        "range": lambda: hr.range("t"),
        "stats": lambda: hr.queue("q").stats(),
        "proc": lambda: hr.procs.create("p", "t").claim(),
        "transaction": transact,
        "lock": lock,
        "acquire": acquire,
    }


def complaints(hr: headrace.Headrace) -> list[str]:
    """The findings of the doctor that are not OK."""
    return [
        finding.found
        for finding in hr.admin.diagnose()
        if finding.check == "schema" and finding.verdict == "fail"
    ]


@pytest.mark.parametrize("damage", ["dropped", "emptied"])
@pytest.mark.parametrize("table", TABLES)
def test_damaged_tables_raise_our_errors(
    durable_url: str, postgres: PrivatePostgres, damage: str, table: str
) -> None:
    with headrace.connect(durable_url, patience=0) as hr:
        hr.push("q", 1)
        hr.commit("t", {"n": 0})
        hr.procs.create("p", "t")
        assert complaints(hr) == []
        execute(hr, postgres, STATEMENTS[hr._store.name, damage].format("{}" + table))
        for title, call in calls(hr).items():
            error = None
            try:
                call()
            except HeadraceError as ours:
                error = ours
            # A lock that was not acquired gives up its place in line, and that may succeed.
            if title != "lock":
                assert (hr.status == -1) == isinstance(error, StoreError), f"{title}: {error!r}"
        if damage == "dropped" or table in SINGLE:
            assert any(table in found for found in complaints(hr))


def test_an_error_handled_by_the_caller_is_not_raised_again(
    postgres: PrivatePostgres, postgres_url: str
) -> None:
    """A call inside ``except`` that fails raises its own error, and leaves no broken connection."""
    with headrace.connect(postgres_url, patience=0) as hr:
        hr.commit("t", {"n": 0})
        execute(hr, postgres, "drop table {}idempotency_key cascade")

        def call() -> None:
            try:
                raise InvalidBody("of the caller's own")
            except InvalidBody:
                hr.commit([("t", {"n": 1}), ("u", {"n": 1})], key="k")

        with pytest.raises(StoreError, match="idempotency_key"):
            call()
        assert hr.topic("t").length() == 1


def test_a_trigger_that_aborts_raises_our_error(sqlite_url: str, postgres: PrivatePostgres) -> None:
    with headrace.connect(sqlite_url) as hr:
        hr.push("q", 1)
        execute(
            hr,
            postgres,
            "create trigger no before insert on {}item when new.payload like '%bad%' "
            "begin select raise(abort, 'not today'); end",
        )
        with pytest.raises(StoreError, match="not today"):
            hr.push("q", "bad")
        assert hr.status == -1
        with hr.transaction() as tx:
            tx.push("q", "good")
            with pytest.raises(StoreError, match="not today"):
                tx.push_many("q", ["fine", "bad"])
        assert hr.queue("q").stats().pending == 2


def gone(path: Path) -> None:
    path.unlink()


def all_gone(path: Path) -> None:
    for side in path.parent.glob(f"{path.name}*"):
        side.unlink()


def log_gone(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    headrace.connect(f"sqlite:///{other}").close()
    other.rename(path)


def folder_gone(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize(
    ("spoil", "title"),
    [
        (spoil, title)
        for spoil in (gone, all_gone, log_gone, replaced, folder_gone)
        for title in ("push", "commit", "transaction", "claim")
        # Losing a claim does no harm, so a claim does not check the log.
        if (spoil, title) != (log_gone, "claim")
    ],
)
def test_a_missing_file_accepts_no_writes(
    tmp_path: Path, spoil: Callable[[Path], None], title: str
) -> None:
    """The next write raises, and so does the one after it, unless the file is complete again."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "flow.db"
    with headrace.connect(f"sqlite:///{path}") as hr:
        hr.push("q", 1)
        hr.commit("t", {"n": 0})
        spoil(path)
        with pytest.raises(StoreError, match="deleted or replaced"):
            calls(hr)[title]()
        assert hr.status == -1
        if spoil in (gone, all_gone, folder_gone):
            with pytest.raises(StoreError):
                hr.push("q", 2)
            assert not path.exists()


@pytest.mark.parametrize("title", ["push", "commit", "transaction"])
@pytest.mark.parametrize("loss", ["log deleted", "moved"])
def test_a_write_refused_because_the_file_is_gone_was_not_stored(
    tmp_path: Path, loss: str, title: str
) -> None:
    """Neither clients that still have the old log open nor the moved file contain it."""
    path = tmp_path / "flow.db"
    moved = tmp_path / "moved"
    moved.mkdir()
    with (
        headrace.connect(f"sqlite:///{path}") as hr,
        headrace.connect(f"sqlite:///{path}") as beside,
    ):
        for client in (hr, beside):
            client.push("q", "first")
            client.commit("t", {"n": 0})
        before = beside.queue("q").stats().pending, beside.topic("t").length()
        if loss == "log deleted":
            log_gone(path)
        else:
            for side in tmp_path.glob("flow.db*"):
                side.rename(moved / side.name)
        with pytest.raises(StoreError, match="nothing was stored"):
            calls(hr)[title]()
        assert (beside.queue("q").stats().pending, beside.topic("t").length()) == before
    if loss == "moved":
        with headrace.connect(f"sqlite:///{moved / path.name}") as found:
            assert (found.queue("q").stats().pending, found.topic("t").length()) == before
