"""The workers of one client, with what they share."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from headrace.contract.items import ClientInfo
from headrace.contract.store import Store
from headrace.errors import WorkerExists
from headrace.worker.engine import WorkerEngine
from headrace.worker.events import Doing
from headrace.worker.heartbeat import WorkerHeartbeat
from headrace.worker.maintenance import MaintenanceService
from headrace.worker.schedules import DeclaredSchedules, ScheduleService

CLOSE_SECONDS = 5.0
_log = logging.getLogger("headrace.schedules")


class _Services(NamedTuple):
    maintenance: MaintenanceService
    schedules: ScheduleService


class ClientWorkers:
    """The workers of one client: one for each queue, with one heartbeat."""

    def __init__(self, store: Store, is_closed: Callable[[], bool]) -> None:
        self.row = ClientInfo(
            id=str(uuid.uuid4()),
            name=Path(sys.argv[0]).name or "python",
            host=socket.gethostname(),
            pid=os.getpid(),
        )
        self.heartbeat = WorkerHeartbeat(store, self.row, is_closed)
        self._lock = threading.Lock()
        self._engines: dict[str, WorkerEngine] = {}
        self._is_closed = False
        self._store = store
        # What runs in the background while there is a worker, and what did so last.
        self._services: _Services | None = None
        self._last_services: _Services | None = None

    @property
    def engines(self) -> list[WorkerEngine]:
        """The workers that have not ended."""
        with self._lock:
            return list(self._engines.values())

    def add(self, engine: WorkerEngine) -> None:
        """Add a worker, unless there is one for its queue."""
        with self._lock:
            if engine.queue in self._engines:
                raise WorkerExists(
                    f"this client has a worker for queue {engine.queue!r} already: give that one "
                    "more concurrency, stop it first, or connect another client.",
                    queue=engine.queue,
                )
            self._engines[engine.queue] = engine
            self._is_closed = False
            if self._services is None:
                self._services = _Services(
                    MaintenanceService(self._store, lambda error: self._report(error, "maintain")),
                    ScheduleService(self._store, lambda error: self._report(error, "schedules")),
                )
                for service in self._services:
                    service.start()

    def remove(self, engine: WorkerEngine) -> None:
        """A worker has ended."""
        with self._lock:
            if self._engines.get(engine.queue) is engine:
                del self._engines[engine.queue]
            if not self._engines and self._services is not None:
                for service in self._services:
                    service.end()
                self._last_services, self._services = self._services, None
        self.heartbeat.remove(engine)

    def close(self) -> None:
        """Remove its rows from the store, and wait until none of its threads uses the store."""
        if self._is_closed:
            return  # the process ends, and nothing has begun since
        self._is_closed = True
        over = monotonic() + CLOSE_SECONDS
        self.heartbeat.end(CLOSE_SECONDS)
        for service in self._last_services or ():
            service.join(max(over - monotonic(), 0.0))

    def declare(self, declared: DeclaredSchedules) -> None:
        """Store the schedules of an app, while there is a worker."""
        with self._lock:
            if self._services is not None:
                self._services.schedules.declare(declared)
            elif declared.definitions:
                _log.warning(
                    "the schedules of %s are not stored: this client has no workers", declared.owner
                )

    def _report(self, error: Exception, doing: Doing) -> None:
        for engine in self.engines:
            engine.listeners.report(error, doing)
