"""Linux's inotify through ctypes: a few calls do not need a library."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

IN_MODIFY = 0x2


class FileWatch:
    """Becomes readable when one of the files is written to.

    Never sure: who writes through a connection of their own does not write to them.
    """

    is_sure = False

    def __init__(self, files: Iterable[Path]) -> None:
        self._libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self._descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        for file in files:
            self._libc.inotify_add_watch(self._descriptor, os.fsencode(file), IN_MODIFY)

    def fileno(self) -> int:
        return self._descriptor

    def drain(self) -> bool:
        try:  # noqa: SIM105  # on the way of every wake-up, and ``suppress`` is three calls
            os.read(self._descriptor, 4096)
        except BlockingIOError:
            pass  # somebody was faster; what was said is said
        # A file does not say for whom.
        return True

    def keep(self) -> bool:
        """Nothing wears off here."""
        return False

    def close(self) -> None:
        os.close(self._descriptor)


def watch(files: Iterable[Path]) -> FileWatch | None:
    """Watch files where the system can; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return FileWatch(files)
    except OSError:
        # Out of watches: a limit of the system's. Looking by oneself is good enough.
        return None
