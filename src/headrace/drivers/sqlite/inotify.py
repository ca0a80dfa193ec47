"""Linux's inotify through ctypes: a few calls need no library."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
import threading
from pathlib import Path

from headrace.model.forks import renew_in_child

IN_MODIFY = 0x2
MAX_IDLE_WATCHES = 4


class FileWatch:
    """Becomes readable when a file is written to.

    Never sure: a program that writes through its own connection does not touch the file.
    """

    is_sure = False

    def __init__(self, file: Path) -> None:
        self._libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
        self._descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._libc.inotify_add_watch(self._descriptor, os.fsencode(file), IN_MODIFY)

    def fileno(self) -> int:
        return self._descriptor

    def drain(self) -> bool:
        try:  # noqa: SIM105  # on the way of every wake-up, and ``suppress`` is three calls
            os.read(self._descriptor, 4096)
        except BlockingIOError:
            pass  # another reader was faster; the hint arrived all the same
        # A file does not say which waiter is meant.
        return True

    def keep(self) -> bool:
        """Needs no upkeep."""
        return False

    def close(self) -> None:
        os.close(self._descriptor)


class WatchPool:
    """Watches of one file, used one after the other by several waiters.

    A wait is often short, and the kernel needs about ten milliseconds to close a watch.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._idle: list[BorrowedWatch] = []
        self._is_open = True
        self._renew()
        renew_in_child(self, WatchPool._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        # The child of a fork shares the hints of inherited watches with its parent.
        for watch in self._idle:
            watch.end()
        self._idle = []

    def open(self) -> BorrowedWatch | None:
        """A watch without unread hints; None where the system supports no watches."""
        if not sys.platform.startswith("linux"):
            return None
        inode = self._inode()
        while (watch := self._next_idle()) is not None:
            if watch.inode == inode:
                watch.drain()
                return watch
            # The file was deleted and made again.
            watch.end()
        try:
            return BorrowedWatch(FileWatch(self._file), inode, self)
        except OSError:
            # The system's limit of watches is reached: polling is good enough.
            return None

    def take_back(self, watch: BorrowedWatch) -> None:
        """Keep a watch for the next waiter, or close it."""
        with self._lock:
            is_kept = self._is_open and len(self._idle) < MAX_IDLE_WATCHES
            if is_kept:
                self._idle.append(watch)
        if not is_kept:
            watch.end()

    def close(self) -> None:
        """Close the idle watches now, and others when they come back."""
        with self._lock:
            self._is_open = False
            idle, self._idle = self._idle, []
        for watch in idle:
            watch.end()

    def _next_idle(self) -> BorrowedWatch | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _inode(self) -> int:
        try:
            return self._file.stat().st_ino
        except OSError:
            return 0


class BorrowedWatch:
    """A watch that goes back to its pool when it is closed, unless it failed."""

    is_sure = False

    def __init__(self, watch: FileWatch, inode: int, pool: WatchPool) -> None:
        self.inode = inode
        self._watch = watch
        self._pool = pool
        self._has_failed = False

    def fileno(self) -> int:
        return self._watch.fileno()

    def drain(self) -> bool:
        try:
            return self._watch.drain()
        except OSError:
            self._has_failed = True
            raise

    def keep(self) -> bool:
        return self._watch.keep()

    def close(self) -> None:
        """Give it back."""
        if self._has_failed:
            self.end()
        else:
            self._pool.take_back(self)

    def end(self) -> None:
        """Close it for good."""
        self._watch.close()
