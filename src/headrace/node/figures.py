"""Figures of queues, topics and procs for ``/metrics``, read from the store at most every 10 s."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic

from headrace.client._sync.client import Client
from headrace.core.views import QueueStats
from headrace.errors import NotFound
from headrace.node.metrics import Family

FRESH_SECONDS = 10.0
MAX_QUEUES = 200
MAX_TOPICS = 200
MAX_PROCS = 200
LIVE_PREFIX = "liveproc-"
"""Procs of live readers come and go with their processes: as labels they would only ever grow."""

_STATES = ("planned", "pending", "active", "completed", "dead")


class StoreFigures:
    """The figures of a store. However often they are asked for, the store is read rarely.

    Queues that keep metrics answer from running counts. Others have to count their items, so they
    are left out.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._families: list[Family] = []
        self._read_at = -FRESH_SECONDS

    def families(self) -> list[Family]:
        """The figures; blocks while they are read. Concurrent callers share one read."""
        with self._lock:
            if monotonic() - self._read_at >= FRESH_SECONDS:
                self._families = [*self._queues(), *self._topics(), *self._procs()]
                self._read_at = monotonic()
            return self._families

    def _queues(self) -> Iterator[Family]:
        infos = self._client.queues.list(limit=MAX_QUEUES)
        names = [info.name for info in infos if info.settings.metrics]
        stats = list(self._client.queues.stats(names)) if names else []
        yield Family(
            "headrace_queue_items",
            "gauge",
            "Items by state.",
            [
                ({"queue": one.queue, "state": state}, getattr(one, state))
                for one in stats
                for state in _STATES
            ],
        )
        yield _by_queue(
            "headrace_queue_oldest_due_age_seconds",
            "gauge",
            "How long the oldest waiting item has been due.",
            stats,
            lambda one: one.oldest_due or 0.0,
        )
        yield Family(
            "headrace_items_pushed_total",
            "counter",
            "New items.",
            [({"queue": one.queue, "outcome": "pushed"}, one.entered) for one in stats],
        )
        yield Family(
            "headrace_items_finished_total",
            "counter",
            "Settled items and expired leases, by outcome.",
            [
                ({"queue": one.queue, "outcome": outcome}, count)
                for one in stats
                for outcome, count in _outcomes(one)
            ],
        )
        yield _by_queue(
            "headrace_leases_expired_total",
            "counter",
            "Leases of items that ended without an outcome.",
            stats,
            lambda one: one.orphaned,
        )

    def _topics(self) -> Iterator[Family]:
        topics = self._client.topics.list(limit=MAX_TOPICS)
        yield Family(
            "headrace_topic_records_total",
            "counter",
            "Records that were ever committed.",
            [({"topic": topic.name}, topic.next_seq) for topic in topics],
        )

    def _procs(self) -> Iterator[Family]:
        procs = [
            proc for proc in self._client.procs.list() if not proc.name.startswith(LIVE_PREFIX)
        ]
        records, seconds = [], []
        for proc in procs[:MAX_PROCS]:
            try:
                lag = self._client.proc(proc.name).lag()
            except NotFound:
                continue  # deleted meanwhile
            labels = {"topic": proc.topic, "proc": proc.name}
            records.append((labels, lag.records))
            seconds.append((labels, lag.seconds))
        yield Family("headrace_proc_lag_records", "gauge", "Records not acked.", records)
        yield Family(
            "headrace_proc_lag_seconds", "gauge", "Age of the oldest record not acked.", seconds
        )


def _by_queue(
    name: str,
    kind: str,
    help: str,
    stats: Iterable[QueueStats],
    value: Callable[[QueueStats], float],
) -> Family:
    return Family(name, kind, help, [({"queue": one.queue}, value(one)) for one in stats])


def _outcomes(stats: QueueStats) -> Iterator[tuple[str, int]]:
    others = stats.rescheduled + stats.rejected + stats.dropped
    yield "ok", max(stats.processed - others, 0)
    yield "retry", stats.rejected
    yield "rescheduled", stats.rescheduled
    yield "cancelled", stats.dropped
    yield "lost", stats.orphaned
