"""Claims that are kept alive while a job runs, by one thread for all of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from headrace.contract.store import Store
from headrace.errors import HeadraceError

BEATS_PER_TIMEOUT = 3
LONGEST_PAUSE = 60.0


class Pulse:
    """Extends the claims that are out, each at a third of its time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Condition()
        self._due: dict[tuple[str, str], tuple[float, float]] = {}
        self._shortest = LONGEST_PAUSE
        self._is_over = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def keeping(self, proc: str, token: str, timeout_ms: int | None) -> Iterator[None]:
        """Keep a claim alive for the length of a block."""
        if timeout_ms is None:
            yield
            return
        every = timeout_ms / 1000 / BEATS_PER_TIMEOUT
        with self._lock:
            self._due[proc, token] = (monotonic() + every, every)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._beat, name="headrace-claims", daemon=True
                )
                self._thread.start()
            if every < self._shortest:
                # The thread may be asleep for longer than this claim lasts.
                self._shortest = every
                self._lock.notify_all()
        try:
            yield
        finally:
            with self._lock:
                self._due.pop((proc, token), None)

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._is_over = True
            self._lock.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _beat(self) -> None:
        while True:
            with self._lock:
                if self._is_over:
                    return
                now = monotonic()
                due = [claim for claim, (at, _) in self._due.items() if at <= now]
                for claim in due:
                    every = self._due[claim][1]
                    self._due[claim] = (now + every, every)
                if not due:
                    # Never longer than the shortest claim allows: one may begin meanwhile.
                    soonest = min((at for at, _ in self._due.values()), default=now + 1e9)
                    self._lock.wait(max(min(soonest - now, self._shortest), 0.001))
                    continue
            for proc, token in due:
                # One that is lost is heard of when it is acked.
                with contextlib.suppress(HeadraceError):
                    self._store.run(self._store.extend(proc, token))
