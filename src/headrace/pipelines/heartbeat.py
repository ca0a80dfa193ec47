"""The heartbeat that extends the claims of running jobs, in one thread for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.client.lease_keeper import LeaseKeeper
from headrace.contract.store import Store
from headrace.errors import HeadraceError


class PipelineHeartbeat:
    """Extends the claims in flight, each at a third of its lease."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Claims come and go many times a second: the thread outlives them.
        self._leases = LeaseKeeper("headrace-claims", is_lasting=True)

    @contextmanager
    def keeping(self, proc: str, token: str, lease_ms: int | None) -> Iterator[None]:
        """Extend a claim for the length of a block."""
        if lease_ms is None:
            yield
            return

        def extend() -> bool:
            # The ack reports a claim that was lost.
            with contextlib.suppress(HeadraceError):
                self._store.run(self._store.procs.extend(proc, token))
            return True

        claim = (proc, token)
        self._leases.begin(claim, lease_ms, extend)
        try:
            yield
        finally:
            self._leases.end(claim)

    def close(self) -> None:
        """End the thread."""
        self._leases.close()
