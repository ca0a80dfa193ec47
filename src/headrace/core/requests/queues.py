"""Requests about queues: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.contract.items import (
    ClientInfo,
    MetricSample,
    QueueCounts,
)
from headrace.contract.store import Session
from headrace.core.queue_settings import QueueOptions, changes_of
from headrace.core.requests.request import Request, caller
from headrace.core.views import QueueStats, stats_of
from headrace.model.checks import positive, text
from headrace.model.names import check_queue, writable_queue
from headrace.model.queues.settings import QueueInfo, QueueSettings
from headrace.model.times import Moment, moment_ms


class QueueRequests:
    """Queues, their settings, numbers and clients."""

    def __init__(self, store: Session) -> None:
        self.store = store

    def create(self, name: str, settings: QueueOptions, *, is_new: bool) -> Request[QueueInfo]:
        changes = changes_of(settings)
        return Request(self.store.queues.create(writable_queue(name), changes, is_new))

    def add_dead_queue(self, name: str, to: str) -> Request[QueueInfo]:
        return Request(self.store.queues.add_dead_queue(writable_queue(name), writable_queue(to)))

    def info(self, name: str) -> Request[QueueInfo]:
        return Request(self.store.queues.info(check_queue(name)))

    def pause(self, name: str, by: str | None) -> Request[QueueInfo]:
        return Request(self.store.queues.pause(writable_queue(name), by or caller()))

    def resume(self, name: str) -> Request[QueueInfo]:
        return Request(self.store.queues.resume(writable_queue(name)))

    def drop(self, name: str, *, keep_data: bool) -> Request[int]:
        return Request(self.store.queues.drop(writable_queue(name), keep_data))

    def listing(self, prefix: str, after: str, limit: int) -> Request[list[QueueInfo]]:
        names = text("prefix", prefix), text("after", after)
        return Request(self.store.queues.list(*names, positive("limit", limit)))

    def defaults(self) -> Request[QueueSettings]:
        return Request(self.store.queues.defaults())

    def set_defaults(self, settings: QueueOptions) -> Request[QueueSettings]:
        return Request(self.store.queues.set_defaults(changes_of(settings)))

    def stats(self, queues: object, *, is_computed: bool) -> Request[list[QueueStats]]:
        return Request(self.store.queues.counts(names_of(queues), is_computed), _all_stats)

    def due(self, queue: str) -> Request[int]:
        return Request(self.store.queues.counts([queue], False), lambda found: found[0].due)

    def consolidate(self, queues: object) -> Request[list[QueueStats]]:
        return Request(self.store.queues.consolidate(names_of(queues)), _all_stats)

    def samples(self, queue: str, since: Moment | None, limit: int) -> Request[list[MetricSample]]:
        first = 0 if since is None else moment_ms("since", since)
        return Request(self.store.queues.samples(queue, first, positive("limit", limit)))

    def clients(self) -> Request[list[ClientInfo]]:
        return Request(self.store.queues.clients())


def names_of(queues: object) -> list[str] | None:
    """Queues given by name or by reference, one or several; None for all."""
    if queues is None:
        return None
    some = queues if isinstance(queues, Iterable) and not isinstance(queues, str) else [queues]
    return [check_queue(getattr(queue, "name", queue)) for queue in some]


def _all_stats(backlogs: Sequence[QueueCounts]) -> list[QueueStats]:
    return [stats_of(backlog) for backlog in backlogs]
