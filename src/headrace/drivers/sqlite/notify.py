"""Wake-ups on SQLite: a byte in a file beside the database.

The log file itself changes before a commit is visible, and with ``synchronous=FULL`` a good
deal before: a waiter that watched it would read too early. So after COMMIT the writer touches
``<db>-wake``, which exists only if a client has ever waited. Waiters find commits through
connections that are not ours by polling every quarter of a second.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from headrace.drivers.notifier import NotifierWaiter, shared_notifier
from headrace.drivers.sqlite.file_permissions import file_mode, make_file
from headrace.drivers.sqlite.inotify import WatchPool
from headrace.model.forks import renew_in_child


class SqliteNotify:
    """Notifies waiters, and makes them."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._file = Path(f"{path}-wake")
        self._database = path
        self._waiters = shared_notifier(f"{path} {prefix}")
        self._watches = WatchPool(self._file)
        self.is_hinting = True
        self._forget()
        renew_in_child(self, SqliteNotify._forget)

    def _forget(self) -> None:
        self._descriptor: int | None = None

    def notify(self, topics: Collection[str]) -> None:
        """Notify all waiters on this machine that topics have new records."""
        if not topics or not self.is_hinting:
            return
        self._waiters.notify(topics)
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CLOEXEC)
            os.pwrite(self._descriptor, b"\0", 0)
        except OSError:
            # No client has waited yet, or the file was deleted; hints may be lost.
            self._descriptor = None

    def waiter(self, topic: str) -> NotifierWaiter:
        """A waiter for records of a topic."""
        if not self.is_hinting:
            return NotifierWaiter(shared_notifier("no store"), topic, None)
        try:
            make_file(self._file, file_mode(self._database))
        except OSError:
            # Hints may be lost: waiters poll.
            return NotifierWaiter(self._waiters, topic, None)
        return NotifierWaiter(self._waiters, topic, self._watches.open)

    def close(self) -> None:
        self._watches.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
