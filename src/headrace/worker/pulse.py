"""The heartbeat: keeps claims alive and says who works, in a thread of its own.

Neither a handler nor an event loop that is stuck can hold it up.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from headrace.contract.items import ClientRow
from headrace.contract.store import Store
from headrace.worker.engine import Engine
from headrace.worker.events import Lost
from headrace.worker.holding import Entry, Hold, monotonic
from headrace.worker.items import item_of

BEAT = 5.0
QUICK_BEAT = 1.0
GLANCE = 1.0


class Pulse:
    """Beats for all workers of a client."""

    def __init__(self, store: Store, client: ClientRow, is_closed: Callable[[], bool]) -> None:
        self._store = store
        self._is_closed = is_closed
        self._is_ending = False
        self._client = client
        self._lock = threading.Lock()
        self._poked = threading.Event()
        self._working: tuple[Engine, ...] = ()
        self._leaving: tuple[Engine, ...] = ()
        self._thread: threading.Thread | None = None
        # The one that says farewell is not the one that beats any more.
        self._last_thread: threading.Thread | None = None
        self._beat_at = self._wakes_at = 0.0
        self._counted: dict[str, tuple[float, int, float]] = {}

    def add(self, engine: Engine) -> None:
        """Beat for a worker too."""
        with self._lock:
            self._working += (engine,)
            if self._thread is None:
                self._thread = self._last_thread = threading.Thread(
                    target=self._run, name="headrace-pulse", daemon=True
                )
                self._thread.start()
        self.poke()

    def remove(self, engine: Engine) -> None:
        """A worker has ended; what it still has in hand is kept alive."""
        with self._lock:
            self._working = tuple(each for each in self._working if each is not engine)
            self._leaving += (engine,)
        self.poke()

    def end(self, patience: float) -> None:
        """Say farewell, and wait until that is said: the client is about to be closed."""
        with self._lock:
            thread, leaving = self._last_thread, self._leaving
            self._is_ending = True
        for engine in leaving:
            engine.leave(patience)
        self.poke()
        if thread is not None:
            thread.join(patience)
        self._is_ending = False

    def poke(self) -> None:
        """Beat now: there is something to tell, or to hear."""
        self._beat_at = 0.0
        self._poked.set()

    def expect(self, extension: float) -> None:
        """A lease is to be extended at that time: be awake then."""
        if extension < self._wakes_at:
            self._poked.set()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._leaving = tuple(e for e in self._leaving if not e.holds.is_empty)
                if self._is_ending or not (self._working or self._leaving):
                    self._thread = None
                    break
            # Until it is worked out: whoever comes after the look at what is held has to poke.
            self._wakes_at = float("inf")
            self._wakes_at = self._next()
            self._poked.wait(max(0.0, self._wakes_at - monotonic()))
            self._poked.clear()
            if self._is_closed():
                self._abandon()
                return
            try:
                self._extend_all()
                if monotonic() >= self._beat_at:
                    self._beat()
            except Exception as error:  # a mistake of ours must not cost all claims
                self._trouble(error)
        self._leave()

    def _trouble(self, error: Exception) -> None:
        for engine in self._working:
            engine.listeners.trouble(error, "beat")
        self._beat_at = monotonic() + QUICK_BEAT

    def _abandon(self) -> None:
        """The client was closed under its workers: end them, the leases decide."""
        with self._lock:
            engines, self._thread = self._working, None
        for engine in engines:
            engine.outbox.give_up()
            engine.kill()

    def _next(self) -> float:
        """When there is something to do."""
        extensions = [engine.holds.next_extension() for engine in self._all()]
        times = [time for time in extensions if time is not None]
        if self._working:
            times.append(self._beat_at)
        # The client may be closed meanwhile, or the last handler of a killed worker end.
        return min([monotonic() + GLANCE, *times])

    def _all(self) -> Sequence[Engine]:
        return (*self._working, *self._leaving)

    def _extend_all(self) -> None:
        for engine in self._all():
            for hold, entries in engine.holds.to_extend(monotonic()):
                self._extend(engine, hold, entries)

    def _extend(self, engine: Engine, hold: Hold, entries: Sequence[Entry]) -> None:
        since = monotonic()
        ids = [entry.state.id for entry in entries]
        try:
            still = self._store.run(
                self._store.extend_items(engine.queue, hold.token, ids, hold.lease_ms)
            )
        except Exception as error:  # the heart does not stop for it
            engine.listeners.trouble(error, "beat")
            # Soon again: the lease is running.
            hold.extend_at = since + min(hold.lease_ms / 10_000, GLANCE)
            return
        hold.renewed(since)
        held = set(still)
        for entry in engine.holds.lose(entry for entry in entries if entry.state.id not in held):
            engine.numbers.lost += 1
            engine.listeners.tell("lost", Lost(item=item_of(entry.state)))

    def _beat(self) -> None:
        """Say who works, and hear what they shall do."""
        engines = self._working
        if not engines:
            return
        self._beat_at = monotonic() + BEAT
        rows = [engine.row(self._client.id, self._rate(engine)) for engine in engines]
        try:
            orders = self._store.run(self._store.beat(self._client, rows))
        except Exception as error:  # as above
            self._trouble(error)
            return
        for engine in engines:
            desired = orders.desired.get(engine.id, "running")
            engine.order(desired)
            if desired != "running":
                self._beat_at = min(self._beat_at, monotonic() + QUICK_BEAT)

    def _rate(self, engine: Engine) -> float:
        """Items per second since the last beat but those that came at once."""
        now, done = monotonic(), engine.numbers.done
        since, before, rate = self._counted.get(engine.id, (now, done, 0.0))
        if now - since >= QUICK_BEAT:
            rate = (done - before) / (now - since)
            since, before = now, done
        self._counted[engine.id] = (since, before, rate)
        return rate

    def _leave(self) -> None:
        # Nobody is left to hear of a failure; the rows are forgotten when they are silent.
        with contextlib.suppress(Exception):
            self._store.run(self._store.leave(self._client.id))
        # Somebody may have come meanwhile, and be known no more by this.
        self.poke()
