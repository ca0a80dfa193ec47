"""The heartbeat of workers: extends their claims, and reports them to the store.

It runs in a thread of its own, also for async workers, so that neither a handler nor an event loop
that is stuck can delay it.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Sequence

from headrace.contract.items import ClientInfo
from headrace.contract.store import Store
from headrace.errors import AccessError, OutcomeUnknown, StoreUnavailable
from headrace.services.loop import Loop
from headrace.worker.engine import WorkerEngine
from headrace.worker.events import Lost
from headrace.worker.in_flight import ClaimLease, InFlightItem, monotonic
from headrace.worker.items import item_of

HEARTBEAT_SECONDS = 5.0
SHORT_HEARTBEAT_SECONDS = 1.0
POLL_SECONDS = 1.0


class WorkerHeartbeat:
    """The heartbeat of all workers of a client."""

    def __init__(self, store: Store, client: ClientInfo, is_closed: Callable[[], bool]) -> None:
        self._store = store
        self._client = client
        self._is_closed = is_closed
        self._lock = threading.Lock()
        self._loop = Loop("headrace-heartbeat", self._step, on_error=self._failed)
        self._working: tuple[WorkerEngine, ...] = ()
        # Workers that have ended, while handlers of theirs still run.
        self._leaving: tuple[WorkerEngine, ...] = ()
        self._is_ending = False
        self._has_rows = False
        self._report_at = 0.0
        self._rates: dict[str, tuple[float, int, float]] = {}
        self._unavailable_at = -math.inf

    def add(self, engine: WorkerEngine) -> None:
        """Begin the heartbeat of a worker."""
        with self._lock:
            self._working += (engine,)
            self._has_rows = True
        self._report_at = 0.0
        self._loop.start()

    def remove(self, engine: WorkerEngine) -> None:
        """A worker has ended; claims that it still has in flight are extended."""
        with self._lock:
            self._unavailable_at = max(self._unavailable_at, engine.listeners.unavailable_at)
            self._working = tuple(each for each in self._working if each is not engine)
            self._leaving += (engine,)
        self.poke()

    def end(self, timeout: float) -> None:
        """Remove the client's rows from the store, and wait for it: the client is being closed."""
        over = monotonic() + timeout
        with self._lock:
            leaving = self._leaving
            self._is_ending = True
        for engine in leaving:
            engine.disconnect(max(over - monotonic(), 0.0))
        self.poke()
        self._loop.join(max(over - monotonic(), 0.0))
        self._is_ending = False

    def poke(self) -> None:
        """Report now: a worker has changed, or may have orders."""
        self._report_at = 0.0
        self._loop.poke()

    def expect(self, extension: float) -> None:
        """A lease has to be extended at that time."""
        self._loop.wake_by(extension)

    def _step(self) -> float | None:
        """Do what is due; when there is something to do again, None without workers."""
        if self._is_closed():
            self._abandon()
            return None
        if self._is_idle():
            self._unregister()
            return None
        self._extend_all()
        if monotonic() >= self._report_at:
            self._report()
        return self._next()

    def _is_idle(self) -> bool:
        with self._lock:
            self._leaving = tuple(e for e in self._leaving if not e.in_flight.is_empty)
            return self._is_ending or not (self._working or self._leaving)

    def _failed(self, error: Exception) -> float:
        """A mistake of ours must not cost all claims: go on."""
        self._report_failure(error)
        return self._next()

    def _report_failure(self, error: Exception) -> None:
        if isinstance(error, StoreUnavailable | OutcomeUnknown):
            self._unavailable_at = monotonic()
        for engine in self._working:
            engine.listeners.report(error, "heartbeat")
        self._report_at = monotonic() + SHORT_HEARTBEAT_SECONDS

    def _abandon(self) -> None:
        """The client was closed under its workers: end them. Their leases run out."""
        for engine in self._working:
            engine.completer.give_up()
            engine.kill()

    def _next(self) -> float:
        """When there is something to do."""
        extensions = [engine.in_flight.next_extension() for engine in self._engines()]
        times = [time for time in extensions if time is not None]
        if self._working:
            times.append(self._report_at)
        # The client may be closed meanwhile, or the last handler of a killed worker end.
        return min([monotonic() + POLL_SECONDS, *times])

    def _engines(self) -> Sequence[WorkerEngine]:
        return (*self._working, *self._leaving)

    def _extend_all(self) -> None:
        for engine in self._engines():
            for lease, items in engine.in_flight.to_extend(monotonic()):
                self._extend(engine, lease, items)

    def _extend(
        self, engine: WorkerEngine, lease: ClaimLease, items: Sequence[InFlightItem]
    ) -> None:
        since = monotonic()
        ids = [item.state.id for item in items]
        try:
            op = self._store.queues.extend(engine.queue, lease.token, ids, lease.lease_ms)
            still = self._store.run(op)
        except Exception as error:  # other leases still have to be extended
            engine.listeners.report(error, "heartbeat")
            # Try again soon, before the lease ends.
            lease.extend_at = since + min(lease.lease_ms / 10_000, POLL_SECONDS)
            return
        lease.renewed(since)
        extended = set(still)
        for item in engine.in_flight.lose(item for item in items if item.state.id not in extended):
            engine.counts.lost += 1
            engine.listeners.emit("lost", Lost(item=item_of(item.state)))

    def _report(self) -> None:
        """Report the workers to the store, and follow the orders it answers with."""
        # Set before the workers are read: one that is added later asks for a report of its own.
        self._report_at = monotonic() + HEARTBEAT_SECONDS
        engines = self._working
        if not engines:
            return
        rows = [engine.row(self._client.id, self._rate(engine)) for engine in engines]
        try:
            orders = self._store.run(self._store.queues.heartbeat(self._client, rows))
        except Exception as error:  # the next report may succeed
            self._report_failure(error)
            if isinstance(error, AccessError):
                _refuse(engines, error)
            return
        for engine in engines:
            desired = orders.desired.get(engine.id, "running")
            engine.order(desired)
            engine.prefetcher.registered()
            if desired != "running":
                self._report_at = min(self._report_at, monotonic() + SHORT_HEARTBEAT_SECONDS)

    def _rate(self, engine: WorkerEngine) -> float:
        """Items per second, measured over at least the shortest time between two reports."""
        now, done = monotonic(), engine.counts.done
        since, before, rate = self._rates.get(engine.id, (now, done, 0.0))
        if now - since >= SHORT_HEARTBEAT_SECONDS:
            rate = (done - before) / (now - since)
            since, before = now, done
        self._rates[engine.id] = (since, before, rate)
        return rate

    def _unregister(self) -> None:
        """Remove the rows of the client. If that fails, maintenance removes them later."""
        with self._lock:
            has_rows, self._has_rows = self._has_rows, False
        # Not if the store was unavailable just now: ``close`` waits for this.
        if has_rows and monotonic() - self._unavailable_at >= POLL_SECONDS:
            with contextlib.suppress(Exception):
                self._store.run(self._store.queues.unregister(self._client.id))


def _refuse(engines: Sequence[WorkerEngine], error: AccessError) -> None:
    """The node refuses the report. If it names the scope of one queue, the others may work."""
    scope = error.details.get("scope")
    concerned = [engine for engine in engines if scope == f"work:queue/{engine.queue}"]
    for engine in concerned or engines:
        engine.refused(error)
