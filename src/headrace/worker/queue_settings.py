"""The settings of a worker's queue, as they are now."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

from headrace.contract.store import Store
from headrace.core.channels import Choice
from headrace.errors import UnknownQueue
from headrace.model.queues.settings import DEFAULTS, QueueInfo, QueueSettings
from headrace.worker.events import Listeners
from headrace.worker.in_flight import monotonic

# Long before the store forgets a selection.
REGISTER_SECONDS = 3600.0


class PrefetchOptions(NamedTuple):
    """The options of a registration; None follows the queue's settings."""

    chunk: int | Literal["concurrency"] | None = None
    concurrency: int | None = None
    lease_ms: int | None = None
    choice: Choice = {}  # noqa: RUF012  # never changed


class CurrentSettings:
    """Loads the settings of a queue: first, after each update, and when the queue is back."""

    def __init__(
        self,
        store: Store,
        queue: str,
        *,
        options: PrefetchOptions,
        listeners: Listeners,
        loaded: Callable[[QueueInfo], None],
    ) -> None:
        self.chunk = _chunk(options, DEFAULTS)
        self.version = 0
        self._store = store
        self._queue = queue
        self._options = options
        self._listeners = listeners
        self._loaded = loaded
        self._must_load = True
        self._is_first = True
        self._is_missing = False
        self._register_at = 0.0

    def reload(self) -> None:
        """Load the settings before the next claim."""
        self._must_load = True

    def refresh(self) -> None:
        """Load the settings if they may have changed. Creates the queue the first time."""
        if not self._must_load and monotonic() < self._register_at:
            return
        store, name = self._store, self._queue
        op = store.queues.create(name, {}, False) if self._is_first else store.queues.info(name)
        info = store.run(op)
        if monotonic() >= self._register_at:
            info = self._register(info)
        if self._is_missing:
            self._is_missing = False
            self._listeners.log(logging.INFO, "the queue is there again", "claim")
        self._is_first = self._must_load = False
        self.version = info.version
        self.chunk = _chunk(self._options, info.settings)
        self._loaded(info)

    def missing(self, error: UnknownQueue) -> None:
        """The queue was dropped. A push creates it again, and wakes the worker."""
        self._must_load = True
        if not self._is_missing:
            self._is_missing = True
            self._listeners.report(error, "claim")

    def _register(self, info: QueueInfo) -> QueueInfo:
        """Register the selection of channels, so that claims need not read all others.

        Not on each load: a registration changes the settings' version for other workers.
        """
        choice = self._options.choice
        select = choice.get("select")
        self._register_at = monotonic() + REGISTER_SECONDS
        if select is None or choice.get("order") != "fair":
            return info
        self._store.run(self._store.channels.register_selection(self._queue, select))
        return self._store.run(self._store.queues.info(self._queue))


def _chunk(options: PrefetchOptions, settings: QueueSettings) -> int:
    """How many items to claim at a time. A chunk that was set for the queue precedes."""
    if options.chunk == "concurrency":
        is_set = settings.chunk != DEFAULTS.chunk
        return settings.chunk if is_set else options.concurrency or settings.concurrency
    return options.chunk or settings.chunk
