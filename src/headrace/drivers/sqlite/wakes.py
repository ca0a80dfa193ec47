"""Wake-ups on SQLite: a byte in a file beside the database.

The log file itself changes before a commit is visible, and with ``synchronous=FULL`` a good
deal before: who watches it looks too early. So after COMMIT the writer touches ``<db>-wake``,
which exists only if somebody has ever waited. Commits through connections that are not ours
are found by looking every quarter of a second.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from headrace.waking.bell import Waiter, bell
from headrace.waking.inotify import watch


class Wakes:
    """Rings, and makes those who wait to be rung."""

    def __init__(self, path: Path, prefix: str) -> None:
        self._file = Path(f"{path}-wake")
        self._bell = bell(f"{path} {prefix}")
        self._place = (path, prefix)
        self._descriptor: int | None = None
        self._pid = os.getpid()
        self.is_hinting = True

    def ring(self, topics: Collection[str]) -> None:
        """Tell everybody on this machine that topics have new records."""
        if not topics or not self.is_hinting:
            return
        if self._pid != os.getpid():
            self.__init__(*self._place)  # type: ignore[misc]  # a fork: everything anew
        self._bell.ring(topics)
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CLOEXEC)
            os.pwrite(self._descriptor, b"\0", 0)
        except OSError:
            # Nobody has waited yet, or the file is gone; a hint is only a hint.
            self._descriptor = None

    def waiter(self, topic: str) -> Waiter:
        """One who waits for records of a topic."""
        if not self.is_hinting:
            return Waiter(bell("nobody rings this"), topic, None)
        self._file.touch()
        return Waiter(self._bell, topic, lambda: watch([self._file]))

    def close(self) -> None:
        if self._descriptor is not None and self._pid == os.getpid():
            os.close(self._descriptor)
            self._descriptor = None
