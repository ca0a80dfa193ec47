"""The node's store: opened when it can be reached, and watched from then on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from headrace.contract.store import Store
from headrace.contract.threads import in_thread
from headrace.errors import StoreBusy, StoreUnavailable
from headrace.model.failures import words_of
from headrace.node.supervised_loop import SupervisedLoop

RETRY_SECONDS = 1.0
PROBE_SECONDS = 5.0
SILENT_SECONDS = 3.0
"""A probe that got no answer for this long makes the node not ready."""
_log = logging.getLogger("headrace")


class StoreAccess:
    """Opens the store, however long it is away, and knows whether it answers."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        on_away: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._open = open_store
        self._on_away = on_away
        self.store: Store | None = None
        self._problem: str | None = "the store is not open yet"
        self._asked_at: float | None = None
        self.probe = SupervisedLoop("probe", PROBE_SECONDS, self._probe)

    async def open(self) -> Store:
        """Open the store; while it is away, try again each second.

        Every other error is raised: the store is not one that this node can serve.
        """
        while True:
            try:
                self.store = await in_thread(self._open)
            except (StoreUnavailable, StoreBusy) as error:
                if self._problem != words_of(error):
                    _log.warning("the store is away: %s", error, extra={"action": "open"})
                self._problem = words_of(error)
                self._on_away(str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._problem = None
                return self.store

    @property
    def problem(self) -> str | None:
        """Why the store cannot be used; None if it can."""
        asked_at = self._asked_at
        if self._problem is None and asked_at is not None:
            seconds = monotonic() - asked_at
            if seconds > SILENT_SECONDS:
                return f"the store has not answered for {seconds:.0f} s"
        return self._problem

    def _probe(self) -> float:
        """Read one row. A store that is away answers with an error when its patience ends."""
        assert self.store is not None
        self._asked_at = monotonic()
        try:
            self.store.run(self.store.admin.default_retention())
        except (StoreUnavailable, StoreBusy) as error:
            self._problem = words_of(error)
            raise
        finally:
            self._asked_at = None
        self._problem = None
        return PROBE_SECONDS
