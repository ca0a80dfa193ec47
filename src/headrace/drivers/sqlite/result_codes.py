"""What SQLite's errors mean for us."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from headrace.errors import StoreError, StoreUnavailable, UnsupportedStore


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection held the lock for longer than SQLite waits at a time."""
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def primary_code(error: sqlite3.Error) -> int:
    """The code of an error, without its extension: SQLITE_BUSY_RECOVERY is SQLITE_BUSY."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def translate(error: sqlite3.Error, path: Path) -> Exception:
    """Our error for one of SQLite's; one that waiting may resolve is returned unchanged."""
    code = primary_code(error)
    if is_busy(error):
        return error
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(
            f"cannot open {path}: check that its folder exists and may be written to.",
            path=str(path),
        )
    if code == sqlite3.SQLITE_NOTADB:
        return UnsupportedStore(f"{path} is not a SQLite database: choose another file.")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"no space left for {path}: nothing was written.", path=str(path))
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(f"{path} may not be written to: check its rights.", path=str(path))
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(
            f"{path} is damaged ({error}): stop all writers and restore it from a backup, "
            "or try sqlite3's .recover.",
            path=str(path),
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"the disk under {path} failed: {error}.", path=str(path))
    if str(error).startswith(("no such table", "no such column")):
        return StoreError(
            f"Headrace's tables in {path} are missing or not as they were made: {error}. "
            "Restore the file from a backup, or drop all of Headrace's tables and connect again.",
            path=str(path),
        )
    return StoreError(f"SQLite refused a statement on {path}: {error}.", path=str(path))
