"""What a worker needs of a store."""

from __future__ import annotations

from typing import Protocol

from headrace.contract.queues import QueueStore
from headrace.contract.store import Store


class WorkStore(Store, QueueStore, Protocol):
    """A store with queues. Workers use its blocking side, from threads of their own."""
