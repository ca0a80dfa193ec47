"""The present names of the client's methods on a client of an older commit.

``bench.commits`` runs this tree's player on other commits' code, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def with_present_names(hr: Any) -> Any:
    """A client that has nouns, whichever commit it is of."""
    return hr if hasattr(hr, "start_worker") else OldClient(hr)


class OldClient:
    """A client from before there were nouns."""

    def __init__(self, hr: Any) -> None:
        self._hr = hr
        self.start_worker = hr.register_worker
        self.limits = SimpleNamespace(create=hr.create_limit)
        self.topics = SimpleNamespace(list=hr.topics)
        self.procs = SimpleNamespace(
            create=lambda name, topic, **options: hr.proc(name, topic=topic, **options)
        )
        self.queues = SimpleNamespace(
            create=lambda name, exist_ok: hr.create(name),
            stats=lambda names, exact=False: (hr.compute_stats if exact else hr.stats)(names),
        )

        self.pipelines = SimpleNamespace(create=getattr(hr, "system_proc", None))
        self._queues: dict[str, OldQueue] = {}

    def queue(self, name: str) -> OldQueue:
        if name not in self._queues:
            self._queues[name] = OldQueue(self._hr.queue(name))
        return self._queues[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hr, name)


class OldQueue:
    """A queue from before it had nouns."""

    def __init__(self, queue: Any) -> None:
        self.claim, self.complete = queue.claim, queue.complete
        self._queue = queue

    @property
    def selections(self) -> Any:
        return SimpleNamespace(register=self._queue.register_selection)
