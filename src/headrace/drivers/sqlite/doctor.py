"""Checks of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.contract import diagnosis
from headrace.contract.diagnosis import size_text
from headrace.contract.op import Steps
from headrace.contract.values import Fact, Finding
from headrace.drivers.sql_common.migrations import Expected, absent
from headrace.drivers.sql_common.statements import Statements

Version = tuple[int, ...]

# The first version without the WAL-reset bug, and the older lines that got the fix later.
FIXED: Version = (3, 51, 3)
BACKPORTED: tuple[Version, ...] = ((3, 44, 6), (3, 50, 7))
# We checkpoint at 4 MiB; a log this long means that a reader prevents it.
LARGE_WAL_BYTES = 64 * 1024 * 1024


class SqliteSite(NamedTuple):
    """What the store knows without asking SQLite."""

    path: Path
    prefix: str
    newest: int
    is_safe: bool
    now: int | None
    expected: Expected


def examine(site: SqliteSite, sql: Statements, *, deep: bool) -> Steps[list[Finding]]:
    """Ask SQLite and the file system, and judge the answers."""
    [mode] = yield sql.journal()
    where = f"tables {site.prefix}*"
    tables = yield sql.tables()
    missing = yield from absent(site.expected, [row["name"] for row in tables])
    if missing:
        # The tables are missing: nothing else can be asked.
        return [
            engine(sqlite3.sqlite_version_info, str(site.path)),
            diagnosis.missing(missing, str(site.path)),
        ]
    [version] = yield sql.version()
    furthest = yield sql.furthest_topic(now=site.now)
    problems = (yield sql.quick_check()) if deep else None
    topic, ahead = (furthest[0]["name"], furthest[0]["ahead"]) if furthest else (None, 0)
    wal = _size(Path(f"{site.path}-wal"))
    found = [
        engine(sqlite3.sqlite_version_info, str(site.path)),
        durability(mode[0], is_safe=site.is_safe),
        log(wal),
        diagnosis.tables(version["version"], site.newest, where),
        diagnosis.dated(topic, ahead),
        diagnosis.size({"file": _size(site.path), "wal": wal}),
    ]
    return found if problems is None else [*found, integrity([row[0] for row in problems])]


def engine(version: Version, path: str) -> Finding:
    """The version, and the bug that corrupts files."""
    text = ".".join(map(str, version))
    facts: dict[str, Fact] = {"engine": "sqlite", "version": text, "has_wal_reset_bug": False}
    found = f"SQLite {text}, {path}"
    if is_fixed(version):
        return Finding(check="engine", verdict="ok", found=found, facts=facts)
    return Finding(
        check="engine",
        verdict="warn",
        found=f"{found}: this version has the WAL-reset bug, which can corrupt a file when one "
        "connection commits while another checkpoints; Headrace's connections never do that "
        "to each other",
        next_step="let no other program write to the file (or only with PRAGMA "
        "wal_autocheckpoint=0), or use SQLite 3.51.3 or newer",
        facts={**facts, "has_wal_reset_bug": True},
    )


def is_fixed(version: Version) -> bool:
    """Whether this SQLite has the fix of the WAL-reset bug."""
    return version >= FIXED or any(
        version[:2] == line[:2] and version >= line for line in BACKPORTED
    )


def durability(mode: str, *, is_safe: bool) -> Finding:
    """Whether acknowledged writes are durable."""
    facts: dict[str, Fact] = {
        "durability": "safe" if is_safe else "relaxed",
        "journal_mode": mode,
        "synchronous": "full" if is_safe else "normal",
    }
    if is_safe:
        text = "safe: what is acknowledged is on disk"
    else:
        text = "relaxed: a power cut may take the last moments"
    settings = f"journal_mode={mode}, synchronous={facts['synchronous']}"
    return Finding(check="durability", verdict="ok", found=f"{text} ({settings})", facts=facts)


def log(size: int) -> Finding:
    """Whether the write-ahead log is checkpointed as it should be."""
    found = f"the write-ahead log has {size_text(size)}"
    if size <= LARGE_WAL_BYTES:
        return Finding(check="wal", verdict="ok", found=found, facts={"wal_bytes": size})
    return Finding(
        check="wal",
        verdict="warn",
        found=f"{found}: a reader holds an old snapshot, so that it cannot be shortened",
        next_step="find the program that keeps a read transaction open on the file, and end it",
        facts={"wal_bytes": size},
    )


def integrity(problems: Sequence[str]) -> Finding:
    """The result of SQLite's own check of the whole file."""
    if list(problems) == ["ok"]:
        return Finding(check="integrity", verdict="ok", found="quick_check found nothing wrong")
    return Finding(
        check="integrity",
        verdict="fail",
        found=f"quick_check: {'; '.join(problems)}",
        next_step="stop all writers, copy the file and its -wal, and restore a backup or try "
        "sqlite3's .recover",
        facts={"problems": len(problems)},
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
