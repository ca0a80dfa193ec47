"""Claims that were answered before they were on the disk, and are brought there later.

Where rules count what is out, nothing of a claim may be begun with before it is on the disk: a
server that goes away would forget that it is out, and hand the room to somebody else. But the next
claim need not wait for that.
"""

from __future__ import annotations

import threading

from headrace.contract.store import Store
from headrace.worker.events import Listeners
from headrace.worker.holding import Entry, monotonic


class Securing:
    """Brings claims to the disk, one at a time."""

    def __init__(self, store: Store, queue: str, listeners: Listeners) -> None:
        self._store = store
        self._queue = queue
        self._listeners = listeners
        self._lock = threading.Lock()
        self.seconds = 0.0
        """How long that took, all in all."""

    @property
    def is_under_way(self) -> bool:
        return self._lock.locked()

    def wait(self) -> None:
        """Wait for the end of what is under way."""
        with self._lock:
            pass

    def secure(self, entry: Entry) -> bool:
        """Bring the claim of an item to the disk; False if it does not stand any more.

        That says nothing of other items of the claim: somebody may have taken this one away. If
        it is not to be found out, the claim is void.
        """
        hold, failure = entry.hold, None
        with self._lock:
            if hold.is_loose and self._store.is_secured(hold.token):
                hold.is_loose = False
            if not hold.is_loose:
                return not hold.is_void
            since = monotonic()
            try:
                op = self._store.secure_claim(self._queue, hold.token, entry.state.id)
                stands = self._store.run(op)
                hold.is_loose = not stands
            except Exception as error:  # whatever it is, there still is a lane to go on with
                stands, failure = False, error
                hold.is_void, hold.is_loose = True, False
            self.seconds += monotonic() - since
        if failure is not None:
            self._listeners.trouble(failure, "claim")
        return stands
