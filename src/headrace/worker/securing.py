"""Claims that were answered before they were on the disk, and are brought there later.

Where rules count what is out, nothing of a claim may be begun with before it is on the disk: a
server that goes away would forget that it is out, and hand the room to somebody else. But the next
claim need not wait for that.
"""

from __future__ import annotations

import threading

from headrace.contract.store import Store
from headrace.worker.events import Listeners
from headrace.worker.holding import Entry, Hold


class Securing:
    """Brings claims to the disk, one at a time."""

    def __init__(self, store: Store, queue: str, listeners: Listeners) -> None:
        self._store = store
        self._queue = queue
        self._listeners = listeners
        self._lock = threading.Lock()

    @property
    def is_under_way(self) -> bool:
        return self._lock.locked()

    def wait(self) -> None:
        """Wait for the end of what is under way."""
        with self._lock:
            pass

    def secure(self, hold: Hold, entry: Entry) -> bool:
        """Bring the claim of an item to the disk; whether it was found to be void just now."""
        with self._lock:
            if not hold.is_loose:
                return False
            try:
                op = self._store.secure_claim(self._queue, hold.token, entry.state.id)
                hold.is_void = not self._store.run(op)
            except Exception as error:  # whatever it is, there still is a lane to go on with
                self._listeners.trouble(error, "claim")
                hold.is_void = True
            hold.is_loose = False
            return hold.is_void
