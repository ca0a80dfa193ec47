"""What can be seen of queues and workers, from what the store tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from headrace.contract.items import Backlog, ClientRow, Sample, WorkerRow, WorkerStatus
from headrace.core.times import moment_of
from headrace.model.checks import seconds_of
from headrace.model.items import ItemState
from headrace.model.queues import QueueInfo, QueueSettings

ALIVE_MS = 15_000
"""How long ago a worker may have been heard of to count as there."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's numbers: how many items are in each state, and what happened in its life.

    ``oldest_due`` is for how many seconds the oldest waiting item has been due. Completed and
    dead items count while they are kept. ``total`` is the sum of the states; what follows it
    only grows: see ``headrace.contract.items.Counts``.
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


def stats_of(backlog: Backlog) -> QueueStats:
    """A queue's numbers as users see them."""
    return QueueStats(
        queue=backlog.queue,
        total=backlog.counts.total,
        oldest_due=seconds_of(backlog.oldest_due_ms),
        is_computed=backlog.is_computed,
        **msgspec.structs.asdict(backlog.counts),
    )


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker: where it runs, what it shall do and what it does.

    ``rate`` is how many items a second it settled lately, ``busy`` how many it has in hand.
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

    def __str__(self) -> str:
        return f"{self.id} of client {self.client} ({self.host}, pid {self.pid})"


def worker_info(row: WorkerRow, clients: Mapping[str, ClientRow]) -> WorkerInfo:
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
    )


def worker_infos(rows: Sequence[WorkerRow], clients: Sequence[ClientRow]) -> list[WorkerInfo]:
    """Workers together with their clients."""
    by_id = {client.id: client for client in clients}
    return [worker_info(row, by_id) for row in rows]


def is_alive(row: WorkerRow, now: int) -> bool:
    """Whether a worker was heard of lately."""
    return now - row.seen_at <= ALIVE_MS


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as a whole. Times are in seconds, rates in items a second.

    ``workers`` were heard of in the last 15 seconds, ``silent_workers`` were not.
    ``worker_rate`` is what the workers say they settle, ``rate`` what the queue's series says
    of the last minutes. ``wait`` is how long the items in flight had been due when they were
    claimed, ``clears_in`` when the line is worked off at the workers' rate.
    """

    name: str
    settings: QueueSettings
    version: int
    created_at: datetime
    is_paused: bool
    paused_by: str | None
    is_held: bool
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
    clients: Sequence[ClientRow],
    active: Sequence[ItemState],
    samples: Sequence[Sample],
    *,
    now: int,
    is_held: bool,
) -> QueueReport:
    """Put together what the store tells of a queue."""
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
        is_held=is_held,
        stats=stats,
        workers=tuple(worker_infos(there, clients)),
        silent_workers=tuple(worker_infos(silent, clients)),
        worker_rate=worker_rate,
        rate=_rate(stats, samples, now),
        oldest_due=stats.oldest_due,
        wait=_wait(active),
        clears_in=stats.pending / worker_rate if worker_rate else None,
    )


def _rate(stats: QueueStats, samples: Sequence[Sample], now: int) -> float | None:
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
