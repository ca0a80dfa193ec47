"""Sessions that step through one store, each as if it were a process of its own."""

import itertools
import os
from collections.abc import Collection, Iterator, Sequence

import psycopg
import pytest

import headrace
from headrace.drivers.sqlite.gate import ConnectionGate
from headrace.testing.clocks import FakeClock
from headrace.testing.faults import Session, Stepper

_numbers = itertools.count()


class SteppedStore:
    """A store, a client to prepare and to read, and sessions to step."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock()
        self.client = headrace.connect(url, clock=self.clock)
        self.actors: list[headrace.Headrace] = []
        self.names: list[str] = []
        self._watcher: psycopg.Connection | None = None

    def sessions(self, count: int, *, readers: int = 0) -> tuple[Stepper, list[headrace.Headrace]]:
        """That many clients, and a stepper for them. The last ones only read."""
        self.names = [f"{'ABC'[index]}{os.getpid()}-{next(_numbers)}" for index in range(count)]
        self.actors = [self._open(name) for name in self.names]
        # A write to SQLite starts with its lock, before the first statement.
        writers = count - readers if self.url.startswith("sqlite") else 0
        sessions = [
            Session.of(name, client, begins_early=index < writers)
            for index, (name, client) in enumerate(zip(self.names, self.actors, strict=True))
        ]
        if self.url.startswith("sqlite"):
            return Stepper(sessions), self.actors
        return Stepper(sessions, blocked=self.blocked), self.actors

    def _open(self, name: str) -> headrace.Headrace:
        if self.url.startswith("sqlite"):
            return _as_in_a_process_of_its_own(headrace.connect(self.url, clock=self.clock))
        # A deadlock is found soon, and a session can be found by its name.
        options = f"application_name={name}&options=-c%20deadlock_timeout%3D50ms"
        return headrace.connect(f"{self.url}&{options}", clock=self.clock)

    def blocked(self, names: Sequence[str]) -> Collection[str]:
        """The sessions among these that wait for a lock of another of ours."""
        if self._watcher is None:
            self._watcher = psycopg.connect(self.url.partition("?")[0], autocommit=True)
        rows = self._watcher.execute(
            """
            select a.application_name
            from pg_stat_activity a
            where a.application_name = any(%s)
              and exists (select from pg_stat_activity holder
                          where holder.pid = any(pg_blocking_pids(a.pid))
                            and holder.application_name = any(%s))
            """,
            (list(names), self.names),
        )
        return {name for (name,) in rows}

    def close(self) -> None:
        for client in (self.client, *self.actors):
            client.close()
        if self._watcher is not None:
            self._watcher.close()


def _as_in_a_process_of_its_own(client: headrace.Headrace) -> headrace.Headrace:
    """Give the client a gate of its own. Threads of one process share a gate, whereas processes
    meet only at the file.

    The client also does not wait inside SQLite, where the stepper could not see it. SQLite reports
    immediately that the file is busy, and the client sleeps where the stepper knows of it.
    """
    connections = client._store.connections
    open_one = connections.open

    def open_impatient():
        connection = open_one()
        connection.execute("PRAGMA busy_timeout=0")
        return connection

    connections.close()
    connections._gate = ConnectionGate()
    connections.open = open_impatient
    return client


@pytest.fixture
def stepped(durable_url: str) -> Iterator[SteppedStore]:
    """Every driver that several processes can share, in turn."""
    stepped = SteppedStore(durable_url)
    yield stepped
    stepped.close()
