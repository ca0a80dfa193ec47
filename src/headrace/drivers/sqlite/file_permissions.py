"""Permissions of the files beside a database: for the owner, and all others that may write it."""

from __future__ import annotations

import os
from pathlib import Path


def file_mode(database: Path) -> int:
    """The mode of a file beside the database: 0600 unless the group, or all, may write it."""
    try:
        writers = database.stat().st_mode & 0o022
    except OSError:
        writers = 0
    return 0o600 | writers | writers << 1


def make_file(path: Path, mode: int) -> None:
    """Create a file with this mode, independent of the umask, unless it exists."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        if mode != 0o600:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def make_folder(path: Path, mode: int) -> None:
    """Create a folder for files of this mode, unless it exists."""
    try:
        path.mkdir(0o700)
    except FileExistsError:
        return
    if mode != 0o600:
        path.chmod(mode | (mode & 0o444) >> 2)
