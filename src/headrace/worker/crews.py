"""The workers of each client in this process."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, ref

from headrace.contract.items import ClientRow
from headrace.contract.store import Store
from headrace.errors import RegisterWorkerError
from headrace.worker.chores import Chores
from headrace.worker.engine import Engine
from headrace.worker.pulse import Pulse

PATIENCE = 5.0


class Crew:
    """The workers of one client: one for each queue, with one heartbeat."""

    def __init__(self, store: Store, is_closed: Callable[[], bool]) -> None:
        self.row = ClientRow(
            id=str(uuid.uuid4()),
            name=Path(sys.argv[0]).name or "python",
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self.pulse = Pulse(store, self.row, is_closed)
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self._store = store
        self._chores: Chores | None = None
        self._last_chores: Chores | None = None

    @property
    def engines(self) -> list[Engine]:
        """Those that have not ended."""
        with self._lock:
            return list(self._engines.values())

    def take(self, engine: Engine) -> None:
        """Take in a worker, unless there is one for its queue."""
        with self._lock:
            if engine.queue in self._engines:
                raise RegisterWorkerError(
                    f"this client has a worker for queue {engine.queue!r} already: give that one "
                    "more concurrency, stop it first, or connect another client.",
                    queue=engine.queue,
                )
            self._engines[engine.queue] = engine
            if self._chores is None:
                self._chores = Chores(self._store, self._trouble)
                self._chores.start()

    def let_go(self, engine: Engine) -> None:
        """A worker has ended."""
        with self._lock:
            if self._engines.get(engine.queue) is engine:
                del self._engines[engine.queue]
            if not self._engines and self._chores is not None:
                self._chores.end()
                self._last_chores, self._chores = self._chores, None
        self.pulse.remove(engine)

    def close(self) -> None:
        """Wait until no thread of it has anything to do with the store any more."""
        self.pulse.end(PATIENCE)
        if self._last_chores is not None:
            self._last_chores.join(PATIENCE)

    def _trouble(self, error: Exception) -> None:
        for engine in self.engines:
            engine.listeners.trouble(error, "tend")


_crews: WeakKeyDictionary[Any, Crew] = WeakKeyDictionary()
_lock = threading.Lock()


def crew(client: Any, store: Store) -> Crew:
    """The crew of a client, made when it is first asked for."""
    with _lock:
        found = _crews.get(client)
        if found is None:
            # A crew must not keep its client alive, or it would never be collected.
            seen = ref(client)
            found = _crews[client] = Crew(store, lambda: _is_closed(seen()))
        return found


def _is_closed(client: Any) -> bool:
    return client is None or not client.status()


def known_crew(client: Any) -> Crew | None:
    """The crew of a client, if it ever had one."""
    with _lock:
        return _crews.get(client)


def _forget() -> None:
    """After a fork the child has no workers: their threads stayed behind in the parent."""
    global _lock
    _lock = threading.Lock()
    _crews.clear()


def _hand_back() -> None:
    """The process ends, and with it all handlers: their items need not wait for their leases."""
    for found in list(_crews.values()):
        for engine in found.engines:
            engine.stop(0)


os.register_at_fork(after_in_child=_forget)
atexit.register(_hand_back)
