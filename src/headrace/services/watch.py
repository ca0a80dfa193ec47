"""A thread that calls a function when the store notifies of something."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from headrace.contract.store import Store, Waiter
from headrace.errors import HeadraceError
from headrace.model.failures import words_of
from headrace.model.forks import renew_in_child

POLL_SECONDS = 5.0
"""How often it calls without a notification, since one may be lost."""
PAUSE_SECONDS = 0.05
"""How long it waits between two calls at least: some stores notify of every write."""
RETRY_SECONDS = 1.0
_log = logging.getLogger("headrace")


class Watch:
    """Calls ``notify`` whenever there is a notification of that word, and when it begins."""

    def __init__(self, store: Store, word: str, notify: Callable[[], None], name: str) -> None:
        self._store = store
        self._word = word
        self._notify = notify
        self._name = name
        self._renew()
        renew_in_child(self, Watch._renew)

    def _renew(self) -> None:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._waiter: Waiter | None = None

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._ended.clear()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Call no more; ``join`` waits for the end of the thread."""
        self._ended.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread, unless this is the thread."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        ended = self._ended
        while not ended.is_set():
            try:
                self._watch(ended)
            except (HeadraceError, OSError) as error:
                _log.debug("%s: notifications may be late: %s", self._word, words_of(error))
                ended.wait(RETRY_SECONDS)

    def _watch(self, ended: threading.Event) -> None:
        waiter = self._waiter = self._store.waiter(self._word)
        try:
            # What happened before the waiter was there has not been noticed.
            is_woken, called_at = True, -POLL_SECONDS
            while not ended.is_set():
                passed = monotonic() - called_at
                if is_woken and passed < PAUSE_SECONDS:
                    ended.wait(PAUSE_SECONDS - passed)
                if is_woken or passed >= POLL_SECONDS:
                    called_at = monotonic()
                    self._notify()
                is_woken = waiter.wait(POLL_SECONDS)
        finally:
            self._waiter = None
            waiter.close()
