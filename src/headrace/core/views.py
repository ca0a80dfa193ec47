"""Reports on queues and workers, made from the store's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from headrace.contract.items import ClientInfo, MetricSample, QueueCounts, WorkerRow, WorkerStatus
from headrace.model.checks import seconds_of
from headrace.model.queues.items import ItemState
from headrace.model.queues.settings import QueueInfo, QueueSettings
from headrace.model.times import moment_of

ALIVE_MS = 15_000
"""A worker is alive if its last heartbeat is not older than this."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's numbers: how many items are in each state, and how often each event occurred.

    ``oldest_due`` is for how many seconds the oldest waiting item has been due. Completed and
    dead items count while they are kept. ``total`` is the sum of the states; the numbers after it
    only grow: see ``headrace.contract.items.Counts``.
    """

    queue: str
    planned: int
    pending: int
    active: int
    completed: int
    dead: int
    total: int
    entered: int
    picked: int
    processed: int
    rescheduled: int
    rejected: int
    dropped: int
    orphaned: int
    errors: int
    oldest_due: float | None
    is_computed: bool


def stats_of(backlog: QueueCounts) -> QueueStats:
    """A queue's counts for the user."""
    return QueueStats(
        queue=backlog.queue,
        total=backlog.counts.total,
        oldest_due=seconds_of(backlog.oldest_due_ms),
        is_computed=backlog.is_computed,
        **msgspec.structs.asdict(backlog.counts),
    )


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: where it runs, its desired and its current status.

    ``rate`` is how many items a second it settled recently, ``busy`` how many it has in flight,
    ``silent`` the seconds since its last heartbeat, by the store's clock.
    """

    id: str
    queue: str
    client: str
    client_id: str
    host: str
    pid: int
    desired: WorkerStatus
    current: WorkerStatus
    version: int
    busy: int
    done: int
    failed: int
    rate: float
    error: str | None
    started_at: datetime
    seen_at: datetime
    silent: float = 0.0

    @property
    def is_silent(self) -> bool:
        """Whether its last heartbeat is older than 15 seconds: its process was killed, or cannot
        reach the store."""
        return self.silent * 1000 > ALIVE_MS

    def __str__(self) -> str:
        return f"{self.id} of client {self.client} ({self.host}, pid {self.pid})"


def worker_info(row: WorkerRow, clients: Mapping[str, ClientInfo]) -> WorkerInfo:
    """A worker together with its client."""
    client = clients.get(row.client)
    return WorkerInfo(
        id=row.id,
        queue=row.queue,
        client=client.name if client else "",
        client_id=row.client,
        host=client.host if client else "",
        pid=client.pid if client else 0,
        desired=row.desired,
        current=row.current,
        version=row.version,
        busy=row.busy,
        done=row.done,
        failed=row.failed,
        rate=row.rate,
        error=row.error,
        started_at=moment_of(row.started_at),
        seen_at=moment_of(row.seen_at),
        silent=row.silent_ms / 1000,
    )


def worker_infos(rows: Sequence[WorkerRow], clients: Sequence[ClientInfo]) -> list[WorkerInfo]:
    """Workers together with their clients."""
    by_id = {client.id: client for client in clients}
    return [worker_info(row, by_id) for row in rows]


def is_alive(row: WorkerRow, now: int) -> bool:
    """Whether a worker has sent a heartbeat within ``ALIVE_MS``."""
    return now - row.seen_at <= ALIVE_MS


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as a whole. Times are in seconds, rates in items a second.

    ``workers`` sent a heartbeat in the last 15 seconds, ``silent_workers`` did not.
    ``worker_rate`` is the sum of the workers' rates, ``rate`` comes from the queue's metrics of
    the last minutes. ``wait`` is the mean time from due to claimed of the items in flight,
    ``clears_in`` the time in which the workers settle all pending items at their rate.
    """

    name: str
    settings: QueueSettings
    version: int
    created_at: datetime
    is_paused: bool
    paused_by: str | None
    is_frozen: bool
    stats: QueueStats
    workers: tuple[WorkerInfo, ...]
    silent_workers: tuple[WorkerInfo, ...]
    worker_rate: float
    rate: float | None
    oldest_due: float | None
    wait: float | None
    clears_in: float | None


def queue_report(
    info: QueueInfo,
    stats: QueueStats,
    workers: Sequence[WorkerRow],
    clients: Sequence[ClientInfo],
    active: Sequence[ItemState],
    samples: Sequence[MetricSample],
    *,
    now: int,
    is_frozen: bool,
) -> QueueReport:
    """A report on a queue, from the store's rows."""
    there = [row for row in workers if is_alive(row, now)]
    silent = [row for row in workers if not is_alive(row, now)]
    worker_rate = sum(row.rate for row in there)
    return QueueReport(
        name=info.name,
        settings=info.settings,
        version=info.version,
        created_at=info.created,
        is_paused=info.is_paused,
        paused_by=info.paused_by,
        is_frozen=is_frozen,
        stats=stats,
        workers=tuple(worker_infos(there, clients)),
        silent_workers=tuple(worker_infos(silent, clients)),
        worker_rate=worker_rate,
        rate=_rate(stats, samples, now),
        oldest_due=stats.oldest_due,
        wait=_wait(active),
        clears_in=stats.pending / worker_rate if worker_rate else None,
    )


def _rate(stats: QueueStats, samples: Sequence[MetricSample], now: int) -> float | None:
    if not samples or samples[0].at >= now:
        return None
    return (stats.processed - samples[0].counts.processed) * 1000 / (now - samples[0].at)


def _wait(active: Sequence[ItemState]) -> float | None:
    waits = [
        max(item.claimed_at - max(item.next_execution, item.waiting_since), 0)
        for item in active
        if item.claimed_at is not None
    ]
    return sum(waits) / len(waits) / 1000 if waits else None
