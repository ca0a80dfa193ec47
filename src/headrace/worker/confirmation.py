"""Claims that the store answers early, and that have to be confirmed before a handler begins.

The next claim need not wait for that.
"""

from __future__ import annotations

import threading

from headrace.contract.store import Store
from headrace.worker.events import Listeners
from headrace.worker.in_flight import InFlightItem, monotonic


class ClaimConfirmer:
    """Confirms claims, one at a time."""

    def __init__(self, store: Store, listeners: Listeners) -> None:
        self._store = store
        self._listeners = listeners
        self._lock = threading.Lock()
        self.seconds = 0.0
        """How long all confirmations took."""

    @property
    def is_under_way(self) -> bool:
        return self._lock.locked()

    def wait(self) -> None:
        """Wait for the end of the confirmation under way."""
        with self._lock:
            pass

    def confirm(self, item: InFlightItem) -> bool:
        """Confirm the claim of an item; False if the worker no longer has it.

        That does not mean that other items of the claim are lost: the store may have given this
        one to another client. If the claim cannot be confirmed, it is void.
        """
        lease, failure = item.lease, None
        with self._lock:
            if lease.confirm is None:
                return not lease.is_void
            since = monotonic()
            try:
                op = lease.confirm(item.state.id)
                is_ours = op is None or self._store.run(op)
                if is_ours:
                    lease.confirm = None
            except Exception as error:  # whatever it is, the thread goes on with other items
                is_ours, failure = False, error
                lease.is_void, lease.confirm = True, None
            self.seconds += monotonic() - since
        if failure is not None:
            self._listeners.report(failure, "claim")
        return is_ours
