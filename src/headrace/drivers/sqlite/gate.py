"""The write lock of a file inside this process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.model.forks import ModuleLock


class ConnectionGate:
    """The write lock of one file inside this process.

    SQLite makes writers wait by sleeping, which is unfair and slow between threads, so they
    queue here first.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # The operation and the thread that had the last turn; the holder while it is locked.
        self.holder = ("nothing", 0)
        # The thread that holds the lock during a fork.
        self.forker: int | None = None


_gates: WeakValueDictionary[tuple[int, str], ConnectionGate] = WeakValueDictionary()
_gates_lock = ModuleLock()


def gate(path: Path) -> ConnectionGate:
    """The gate of a file, the same for all stores of this process."""
    with _gates_lock.lock:
        key = (os.getpid(), str(path))
        found = _gates.get(key)
        if found is None:
            found = _gates[key] = ConnectionGate()
        return found
